// The keys tokenizer.* of GGUF files.
#include "engine/vocabulary_metadata.h"

#include <algorithm>
#include <unordered_map>

#include "base/log.h"
#include "text/unicode.h"
#include "text/words.h"

namespace gale::engine {
namespace {

using format::Metadata;
using format::ValueType;
using text::Token;
using text::TokenKind;
using text::Vocabulary;
using text::VocabularySource;

std::string ggml(std::string_view name) {
  return fmt::format("tokenizer.ggml.{}", name);
}

// Ids and flags: key, and the field it stands for.
constexpr std::pair<const char*, std::optional<int64_t> VocabularySource::*> id_keys[] = {
    {"bos_token_id", &VocabularySource::bos},         {"eos_token_id", &VocabularySource::eos},
    {"eot_token_id", &VocabularySource::eot},         {"eom_token_id", &VocabularySource::eom},
    {"unknown_token_id", &VocabularySource::unknown}, {"padding_token_id", &VocabularySource::padding}};
constexpr std::pair<const char*, std::optional<bool> VocabularySource::*> flag_keys[] = {
    {"add_bos_token", &VocabularySource::add_bos},
    {"add_eos_token", &VocabularySource::add_eos},
    {"add_space_prefix", &VocabularySource::add_space_prefix},
    {"remove_extra_whitespaces", &VocabularySource::remove_extra_whitespaces}};

Status read_lists(const Metadata& metadata, Vocabulary& vocabulary) {
  const auto tokens = metadata.texts(ggml("tokens"));
  if (!tokens) return tokens.error();
  if (*tokens == nullptr) return fail(ErrorKind::not_found, "metadata key 'tokenizer.ggml.tokens' is missing");
  vocabulary.tokens = **tokens;
  const auto merges = metadata.texts(ggml("merges"));
  if (!merges) return merges.error();
  if (*merges != nullptr) vocabulary.merges = **merges;
  if (*merges == nullptr && vocabulary.facts.model == "gpt2") {
    log(LogLevel::warning,
        "the file has no merges (tokenizer.ggml.merges is missing): text becomes single bytes, and answers may be "
        "worse");
  }
  const auto scores = metadata.floats(ggml("scores"));
  if (!scores) return scores.error();
  if (*scores != nullptr) vocabulary.scores = **scores;
  for (const auto& [key, target] :
       {std::pair{"token_type", &vocabulary.kinds}, std::pair{"eos_token_ids", &vocabulary.more_eos}}) {
    auto list = metadata.integers(ggml(key));
    if (!list) return std::move(list).error();
    if (list->has_value()) *target = std::move(**list);
  }
  const auto charsmap = metadata.integers(ggml("precompiled_charsmap"));
  if (!charsmap) return charsmap.error();
  if (charsmap->has_value()) {
    std::string bytes;
    for (const int64_t byte : **charsmap) bytes += static_cast<char>(byte);
    vocabulary.facts.charsmap = vocabulary.texts.keep(bytes);
  }
  return {};
}

Status read_chat_templates(const Metadata& metadata, Vocabulary& vocabulary) {
  constexpr std::string_view key = "tokenizer.chat_template";
  const auto text = metadata.text(key);
  if (!text) return text.error();
  vocabulary.chat_template = text->value_or("");
  for (const std::string& other : metadata.keys()) {
    if (other.size() <= key.size() + 1 || !other.starts_with(key) || other[key.size()] != '.') continue;
    const auto named = metadata.text(other);
    if (!named) return named.error();
    vocabulary.named_chat_templates.emplace_back(other.substr(key.size() + 1), named->value_or(""));
  }
  return {};
}

// Every way to join two tokens to a third, in the order of the third's rank, as "left right".
void list_merges_of_ranks(Vocabulary& vocabulary) {
  struct Way {
    Token result, left, right;
    bool operator<(const Way& other) const {
      return std::tie(result, left, right) < std::tie(other.result, other.left, other.right);
    }
  };
  std::unordered_map<std::string_view, Token> ids;
  ids.reserve(vocabulary.tokens.size());
  const auto is_normal = [&](size_t i) { return vocabulary.kinds[i] == static_cast<int64_t>(TokenKind::normal); };
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (is_normal(i)) ids.emplace(vocabulary.tokens[i], static_cast<Token>(i));
  }
  std::vector<Way> ways;
  for (const auto& [text, token] : ids) {
    for (size_t at = text::utf8_length(static_cast<uint8_t>(text[0])); at < text.size();
         at += text::utf8_length(static_cast<uint8_t>(text[at]))) {
      const auto left = ids.find(text.substr(0, at));
      const auto right = ids.find(text.substr(at));
      if (left != ids.end() && right != ids.end()) ways.push_back({token, left->second, right->second});
    }
  }
  std::sort(ways.begin(), ways.end());
  vocabulary.merges.clear();
  vocabulary.merges.reserve(ways.size());
  const auto text_of = [&](Token token) { return vocabulary.tokens[static_cast<size_t>(token)]; };
  for (const Way& way : ways) {
    vocabulary.merges.push_back(vocabulary.texts.keep(fmt::format("{} {}", text_of(way.left), text_of(way.right))));
  }
  vocabulary.facts.merges_by_rank = false;
}

// Scores under which joining to the token of the best score does what the merges do: the earlier a token's merge, the
// better. What no merge makes comes last.
void score_merges(Vocabulary& vocabulary) {
  constexpr float never = -1e9f;
  std::unordered_map<std::string, size_t> first;
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string_view merge = vocabulary.merges[i];
    const size_t space = std::min(merge.find(' ', 1), merge.size() - 1);
    first.emplace(fmt::format("{}{}", merge.substr(0, space), merge.substr(space + 1)), i);
  }
  vocabulary.scores.assign(vocabulary.tokens.size(), never);
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto found = first.find(std::string(vocabulary.tokens[i]));
    if (found != first.end()) vocabulary.scores[i] = -static_cast<float>(found->second);
  }
  vocabulary.merges.clear();
}

// GGUF's name for the way that words are cut.
Result<std::string_view> pre_tokenizer_name(const VocabularySource& facts) {
  if (!facts.pre_tokenizer.empty() || !facts.words) return facts.pre_tokenizer;
  using text::Normalization;
  const bool whole = facts.whole_words.value_or(false);
  const Normalization wanted = facts.normalization.value_or(Normalization::none);
  // Best what is the same in all; whether whole words are looked up makes a difference for odd tokens only, and the
  // normal form for odd texts.
  for (const Normalization form : {wanted, Normalization::none, Normalization::nfc}) {
    for (const bool w : {whole, !whole}) {
      const text::PreTokenizer* pre = text::find_pre_tokenizer(*facts.words, w, form);
      if (pre == nullptr) continue;
      if (form != wanted) log(LogLevel::warning, "GGUF can't say how this tokenizer normalises text; it is left out");
      return pre->name;
    }
  }
  return fail(ErrorKind::unsupported,
              "GGUF has no name for the way in which this tokenizer cuts words; its vocabulary can't be written");
}

// Brings lists and fields into a form that GGUF knows.
Status fit_to_gguf(Vocabulary& vocabulary) {
  VocabularySource& facts = vocabulary.facts;
  if (facts.model == "gpt2") {
    const auto name = pre_tokenizer_name(facts);
    if (!name) return name.error();
    facts.pre_tokenizer = *name;
    if (facts.merges_by_rank) list_merges_of_ranks(vocabulary);
  } else {
    if (facts.space_prefix) facts.add_space_prefix = *facts.space_prefix != text::SpacePrefix::never;
    const bool prefix = facts.add_space_prefix.value_or(facts.model != "gemma4");
    // "gemma4" means: no space in front, BOS always.
    if (facts.model == "gemma4" && (prefix || !facts.add_bos.value_or(true))) {
      score_merges(vocabulary);
      facts.model = "llama";
    }
    if (facts.pre_tokenizer.empty()) facts.pre_tokenizer = facts.model == "gemma4" ? "gemma4" : "default";
  }
  const bool strips = std::any_of(vocabulary.added.begin(), vocabulary.added.end(), [](const auto& rule) {
    return rule.strips_left || rule.strips_right || rule.whole_word;
  });
  if (strips) {
    log(LogLevel::warning,
        "GGUF can't say that special tokens take the white space around them along; that is left out");
  }
  return {};
}

}  // namespace

Result<std::optional<Vocabulary>> read_vocabulary(const Metadata& metadata) {
  const auto model = metadata.text(ggml("model"));
  if (!model) return model.error();
  if (!model->has_value() || **model == "no_vocab" || **model == "none") return std::optional<Vocabulary>();
  Vocabulary vocabulary;
  VocabularySource& facts = vocabulary.facts;
  facts.model = **model;
  const auto pre = metadata.text(ggml("pre"));
  if (!pre) return pre.error();
  facts.pre_tokenizer = pre->value_or("");
  if (auto status = read_lists(metadata, vocabulary); !status) return std::move(status).error();
  for (const auto& [key, field] : id_keys) {
    const auto value = metadata.integer(ggml(key));
    if (!value) return value.error();
    facts.*field = *value;
  }
  for (const auto& [key, field] : flag_keys) {
    const auto value = metadata.boolean(ggml(key));
    if (!value) return value.error();
    facts.*field = *value;
  }
  if (facts.model == "gemma4") facts.add_bos = true;  // whatever the file says
  if (auto status = read_chat_templates(metadata, vocabulary); !status) return std::move(status).error();
  return std::optional<Vocabulary>(std::move(vocabulary));
}

Result<std::optional<Vocabulary>> read_vocabulary(const format::Checkpoint& checkpoint) {
  if (checkpoint.directory().empty()) return read_vocabulary(checkpoint.metadata());
  auto vocabulary = text::read_vocabulary_directory(checkpoint.directory());
  if (vocabulary) return std::optional<Vocabulary>(std::move(*vocabulary));
  if (vocabulary.error().kind == ErrorKind::not_found) return std::optional<Vocabulary>();
  return std::move(vocabulary).error();
}

Status write_vocabulary(Vocabulary& vocabulary, Metadata& metadata) {
  if (auto status = fit_to_gguf(vocabulary); !status) return status;
  const VocabularySource source = vocabulary.source();
  const auto set = [&](std::string_view name, format::Value value, ValueType type) {
    metadata.remove(ggml(name));
    return metadata.add(ggml(name), std::move(value), type);
  };
  std::vector<std::pair<std::string_view, std::pair<format::Value, ValueType>>> values = {
      {"model", {source.model, ValueType::string}},
      {"pre", {source.pre_tokenizer, ValueType::string}},
      {"tokens", {vocabulary.tokens, ValueType::string}},
      {"token_type", {vocabulary.kinds, ValueType::i32}},
  };
  if (!vocabulary.scores.empty()) values.push_back({"scores", {vocabulary.scores, ValueType::f32}});
  if (!vocabulary.merges.empty()) values.push_back({"merges", {vocabulary.merges, ValueType::string}});
  if (!source.charsmap.empty()) {
    std::vector<uint64_t> bytes;
    for (const char c : source.charsmap) bytes.push_back(static_cast<uint8_t>(c));
    values.push_back({"precompiled_charsmap", {std::move(bytes), ValueType::u8}});
  }
  for (const auto& [key, field] : id_keys) {
    const std::optional<int64_t>& id = source.*field;
    if (id.value_or(-1) >= 0) values.push_back({key, {static_cast<uint64_t>(*id), ValueType::u32}});
  }
  if (!vocabulary.more_eos.empty()) {
    const std::vector<uint64_t> ids(vocabulary.more_eos.begin(), vocabulary.more_eos.end());
    values.push_back({"eos_token_ids", {ids, ValueType::u32}});
  }
  for (const auto& [key, field] : flag_keys) {
    if ((source.*field).has_value()) values.push_back({key, {*(source.*field), ValueType::boolean}});
  }
  for (auto& [name, value] : values) {
    if (auto status = set(name, std::move(value.first), value.second); !status) return status;
  }
  if (!vocabulary.chat_template.empty())
    metadata.set("tokenizer.chat_template", std::string_view(vocabulary.chat_template));
  std::vector<std::string_view> names;
  for (const auto& [name, text] : vocabulary.named_chat_templates) {
    metadata.set(fmt::format("tokenizer.chat_template.{}", name), std::string_view(text));
    names.push_back(name);
  }
  if (!names.empty()) metadata.set("tokenizer.chat_templates", names);
  return {};
}

}  // namespace gale::engine
