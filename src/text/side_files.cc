// tokenizer_config.json, special_tokens_map.json, added_tokens.json, generation_config.json and config.json.
#include "text/side_files.h"

#include <algorithm>

namespace gale::text {
namespace {

// A special token is written as its text, or as an object that has it as "content".
std::string_view content_of(const JsonValue& value) {
  if (value.is(JsonKind::string)) return value.text_or_empty();
  const auto content = value.find("content");
  return content ? content->text_or_empty() : std::string_view();
}

// Sets `id` to the token that `key` names, if it has none yet.
void set_id(const Vocabulary& vocabulary, const JsonValue& root, std::string_view key, std::optional<int64_t>& id) {
  if (id.value_or(-1) >= 0) return;
  const auto value = root.find(key);
  if (!value) return;
  const std::string_view text = content_of(*value);
  if (const Token token = text.empty() ? -1 : vocabulary.find(text); token >= 0) id = token;
}

void set_ids(Vocabulary& vocabulary, const JsonValue& root) {
  set_id(vocabulary, root, "bos_token", vocabulary.facts.bos);
  set_id(vocabulary, root, "eos_token", vocabulary.facts.eos);
  set_id(vocabulary, root, "unk_token", vocabulary.facts.unknown);
  set_id(vocabulary, root, "pad_token", vocabulary.facts.padding);
}

Status read_added_tokens_decoder(Vocabulary& vocabulary, const JsonValue& decoder) {
  if (auto object = decoder.object(); !object) return std::move(object).error();
  const std::vector<JsonValue> entries = decoder.items();
  const int64_t most = highest_id(vocabulary.tokens.size() + entries.size());
  for (const JsonValue& entry : entries) {
    int64_t id = 0;
    for (const char c : entry.key()) id = c >= '0' && c <= '9' && id <= most ? id * 10 + (c - '0') : most + 1;
    if (id > most || entry.key().empty()) {
      return fail(ErrorKind::invalid_input, "{}: the key is no id of a token (0 .. {})", entry.place(), most);
    }
    if (auto status = add_token(vocabulary, id, entry); !status) return status;
  }
  return {};
}

// {"<pad>": 32000}
Status read_added_tokens_file(Vocabulary& vocabulary, const JsonValue& root) {
  if (auto object = root.object(); !object) return std::move(object).error();
  const std::vector<JsonValue> entries = root.items();
  const int64_t most = highest_id(vocabulary.tokens.size() + entries.size());
  for (const JsonValue& entry : entries) {
    const auto id = entry.integer();
    if (!id) return id.error();
    if (*id < 0 || *id > most) {
      return fail(ErrorKind::invalid_input, "{} is {}: ids of this vocabulary are 0 .. {}", entry.place(), *id, most);
    }
    const bool there = static_cast<size_t>(*id) < vocabulary.tokens.size();
    if (there && vocabulary.tokens[static_cast<size_t>(*id)] == entry.key()) continue;
    vocabulary.set(static_cast<Token>(*id), entry.key(), TokenKind::user_defined);
  }
  return {};
}

Status read_chat_templates(Vocabulary& vocabulary, const JsonValue& value) {
  if (value.is(JsonKind::string)) {
    vocabulary.chat_template = value.text_or_empty();
    return {};
  }
  if (auto list = value.array(); !list) return std::move(list).error();
  for (const JsonValue& entry : value.items()) {
    const auto name = entry.member("name");
    if (!name) return name.error();
    const auto text = entry.member("template");
    if (!text) return text.error();
    if (name->text_or_empty() == "default") {
      vocabulary.chat_template = text->text_or_empty();
    } else {
      vocabulary.named_chat_templates.emplace_back(name->text_or_empty(), text->text_or_empty());
    }
  }
  return {};
}

Status read_tokenizer_config(Vocabulary& vocabulary, const JsonValue& root, bool has_added_tokens) {
  if (auto object = root.object(); !object) return std::move(object).error();
  if (const auto decoder = root.find("added_tokens_decoder"); decoder && !has_added_tokens) {
    if (auto status = read_added_tokens_decoder(vocabulary, *decoder); !status) return status;
  }
  set_ids(vocabulary, root);
  // These go before what tokenizer.json's template says: the library makes a new template of them.
  for (const auto& [key, flag] :
       {std::pair{"add_bos_token", &vocabulary.facts.add_bos}, std::pair{"add_eos_token", &vocabulary.facts.add_eos}}) {
    const auto value = root.find_boolean(key);
    if (!value) return value.error();
    if (value->has_value()) *flag = **value;
  }
  if (const auto chat = root.find("chat_template")) {
    if (auto status = read_chat_templates(vocabulary, *chat); !status) return status;
  }
  return {};
}

// The ids of eos_token_id, one or several; bos_token_id. Of models that see, too: theirs lie in text_config.
Status read_model_config(Vocabulary& vocabulary, const JsonValue& root) {
  if (const auto inner = root.find("text_config")) {
    if (auto status = read_model_config(vocabulary, *inner); !status) return status;
  }
  const auto count = static_cast<int64_t>(vocabulary.tokens.size());
  const auto known = [&](int64_t id) { return id >= 0 && id < count; };
  if (const auto eos = root.find("eos_token_id")) {
    const bool list = eos->is(JsonKind::array);
    for (const JsonValue& item : list ? eos->items() : std::vector<JsonValue>{*eos}) {
      const auto id = item.integer();
      if (!id) return id.error();
      if (!known(*id)) continue;
      if (vocabulary.facts.eos.value_or(-1) < 0) vocabulary.facts.eos = *id;
      const auto& more = vocabulary.more_eos;
      if (std::find(more.begin(), more.end(), *id) == more.end()) vocabulary.more_eos.push_back(*id);
    }
  }
  if (vocabulary.facts.bos.value_or(-1) >= 0) return {};
  const auto bos = root.find("bos_token_id");
  if (!bos || !bos->is(JsonKind::number)) return {};
  const auto id = bos->integer();
  if (!id) return id.error();
  if (known(*id)) vocabulary.facts.bos = *id;
  return {};
}

}  // namespace

Status add_token(Vocabulary& vocabulary, int64_t id, const JsonValue& entry) {
  if (auto object = entry.object(); !object) return std::move(object).error();
  const auto content = entry.member("content");
  if (!content) return content.error();
  const auto text = content->text();
  if (!text) return text.error();
  bool flags[5] = {};
  constexpr const char* keys[] = {"special", "lstrip", "rstrip", "single_word", "normalized"};
  for (size_t i = 0; i < std::size(keys); ++i) {
    const auto flag = entry.find_boolean(keys[i]);
    if (!flag) return flag.error();
    flags[i] = flag->value_or(false);
  }
  const auto token = static_cast<Token>(id);
  const auto at = static_cast<size_t>(id);
  const bool unknown = at < vocabulary.kinds.size() && vocabulary.kinds[at] == static_cast<int64_t>(TokenKind::unknown);
  vocabulary.set(token, *text, unknown ? TokenKind::unknown : flags[0] ? TokenKind::control : TokenKind::user_defined);
  if (flags[1] || flags[2] || flags[3] || flags[4]) {
    vocabulary.added.push_back({token, flags[1], flags[2], flags[3], flags[4]});
  }
  return {};
}

Status apply_side_files(Vocabulary& vocabulary, const SideFiles& beside, bool has_added_tokens) {
  using Reader = Status (*)(Vocabulary&, const JsonValue&, bool);
  const std::tuple<std::string_view, const char*, Reader> files[] = {
      {has_added_tokens ? std::string_view() : beside.added_tokens, "added_tokens.json",
       [](Vocabulary& v, const JsonValue& root, bool) { return read_added_tokens_file(v, root); }},
      {beside.tokenizer_config, "tokenizer_config.json", read_tokenizer_config},
      {beside.special_tokens_map, "special_tokens_map.json",
       [](Vocabulary& v, const JsonValue& root, bool) {
         set_ids(v, root);
         return Status();
       }},
      {beside.generation_config, "generation_config.json",
       [](Vocabulary& v, const JsonValue& root, bool) { return read_model_config(v, root); }},
      {beside.config, "config.json",
       [](Vocabulary& v, const JsonValue& root, bool) { return read_model_config(v, root); }},
  };
  for (const auto& [text, name, read] : files) {
    if (text.empty()) continue;
    const auto document = JsonDocument::parse(text, name);
    if (!document) return document.error();
    if (auto status = read(vocabulary, document->root(), has_added_tokens); !status) return status;
  }
  if (!beside.chat_template.empty()) vocabulary.chat_template = beside.chat_template;
  VocabularySource& facts = vocabulary.facts;
  facts.exact_kinds = true;
  // What nothing names is not there; the standard ids of GGUF are not meant for these files.
  for (std::optional<int64_t>* id : {&facts.bos, &facts.eos, &facts.unknown, &facts.padding}) {
    if (!id->has_value()) *id = -1;
  }
  return {};
}

}  // namespace gale::text
