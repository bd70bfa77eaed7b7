// tokenizer.json of the Hugging Face library: the vocabulary, and the parts of the pipeline that published models use.
#include <algorithm>

#include "text/byte_names.h"
#include "text/published_words.h"
#include "text/side_files.h"
#include "text/tokenizer_json_rules.h"

namespace gale::text {
namespace {

class TokenizerJsonReader {
 public:
  explicit TokenizerJsonReader(const JsonValue& root) : root_(root) {}

  Result<Vocabulary> run(const SideFiles& beside) {
    if (auto object = root_.object(); !object) return std::move(object).error();
    const auto model = root_.member("model");
    if (!model) return model.error();
    if (auto status = read_tokenizer_rules(root_, vocabulary_, rules_); !status) return std::move(status).error();
    if (auto status = read_model(*model); !status) return std::move(status).error();
    if (auto status = read_added_tokens(); !status) return std::move(status).error();
    if (auto status = choose_words(*model); !status) return std::move(status).error();
    if (auto status = read_template(); !status) return std::move(status).error();
    if (auto status = apply_side_files(vocabulary_, beside, /*has_added_tokens=*/true); !status) {
      return std::move(status).error();
    }
    return std::move(vocabulary_);
  }

 private:
  Status read_model(const JsonValue& model) {
    const auto type = model.find_text("type");
    if (!type) return type.error();
    // Old files don't name the kind of their model.
    const std::string_view name = type->value_or(model.find("merges") ? "BPE" : "?");
    if (name == "BPE") return read_bpe(model);
    if (name == "Unigram") return read_unigram(model);
    return fail(ErrorKind::unsupported, "{} is of type '{}': BPE and Unigram are supported", model.place(), name);
  }

  // Flags that BPE and Unigram share.
  Status read_flags(const JsonValue& model) {
    const auto fallback = model.find_boolean("byte_fallback");
    if (!fallback) return fallback.error();
    const auto fuse = model.find_boolean("fuse_unk");
    if (!fuse) return fuse.error();
    vocabulary_.facts.byte_fallback = fallback->value_or(false);
    vocabulary_.facts.joins_unknown = fuse->value_or(false);
    return {};
  }

  TokenKind kind_of(std::string_view text) const {
    const bool byte = !rules_.byte_level && vocabulary_.facts.byte_fallback && byte_of_name(text) >= 0;
    return byte ? TokenKind::byte : TokenKind::normal;
  }

  Status read_bpe(const JsonValue& model) {
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto text = model.find_text(key);
      if (!text) return text.error();
      if (!text->value_or("").empty()) {
        return fail(ErrorKind::unsupported, "{}.{} is '{}': marks at parts of words are not supported", model.place(),
                    key, **text);
      }
    }
    if (auto status = read_flags(model); !status) return status;
    const auto whole = model.find_boolean("ignore_merges");
    if (!whole) return whole.error();
    vocabulary_.facts.whole_words = whole->value_or(false);
    vocabulary_.facts.model = rules_.byte_level ? "gpt2" : "gemma4";
    if (auto status = read_tokens(model); !status) return status;
    const auto unknown = model.find_text("unk_token");
    if (!unknown) return unknown.error();
    if (const Token token = unknown->value_or("").empty() ? -1 : vocabulary_.find(**unknown); token >= 0) {
      vocabulary_.facts.unknown = token;
      if (!rules_.byte_level) vocabulary_.kinds[static_cast<size_t>(token)] = static_cast<int64_t>(TokenKind::unknown);
    }
    return read_merges(model);
  }

  // {"token": id}
  Status read_tokens(const JsonValue& model) {
    const auto vocab = model.member("vocab");
    if (!vocab) return vocab.error();
    if (auto object = vocab->object(); !object) return std::move(object).error();
    const std::vector<JsonValue> entries = vocab->items();
    const int64_t most = highest_id(entries.size());
    vocabulary_.tokens.reserve(entries.size());
    vocabulary_.kinds.reserve(entries.size());
    std::vector<bool> seen;
    for (const JsonValue& entry : entries) {
      const auto id = entry.integer();
      if (!id) return id.error();
      if (*id < 0 || *id > most) {
        return fail(ErrorKind::invalid_input, "{} is {}: ids of this vocabulary are 0 .. {}", entry.place(), *id, most);
      }
      const auto at = static_cast<size_t>(*id);
      if (at < seen.size() && seen[at]) {
        return fail(ErrorKind::invalid_input, "{} is {}: the token '{}' has this id too", entry.place(), *id,
                    vocabulary_.tokens[at]);
      }
      if (at >= seen.size()) seen.resize(std::max(at + 1, entries.size()));
      seen[at] = true;
      const std::string_view text = entry.key();
      if (at == vocabulary_.tokens.size()) {
        vocabulary_.add(text, kind_of(text));
      } else {
        vocabulary_.set(static_cast<Token>(at), text, kind_of(text));
      }
    }
    return {};
  }

  // ["left right"] or [["left", "right"]]
  Status read_merges(const JsonValue& model) {
    const auto merges = model.member("merges");
    if (!merges) return merges.error();
    if (auto list = merges->array(); !list) return std::move(list).error();
    vocabulary_.merges.reserve(merges->size());
    std::string joined;
    for (const JsonValue& merge : merges->items()) {
      if (merge.is(JsonKind::string)) {
        vocabulary_.merges.push_back(vocabulary_.texts.keep(merge.text_or_empty()));
        continue;
      }
      const std::vector<JsonValue> parts = merge.items();
      if (parts.size() != 2 || !parts[0].is(JsonKind::string) || !parts[1].is(JsonKind::string)) {
        return fail(ErrorKind::invalid_input, "{}: two texts are needed", merge.place());
      }
      joined = parts[0].text_or_empty();
      // Two texts are written as one with a space between from here on.
      if (joined.find(' ', 1) != std::string::npos) {
        return fail(ErrorKind::unsupported, "{}: a space inside the left part is not supported", merge.place());
      }
      joined += ' ';
      joined += parts[1].text_or_empty();
      vocabulary_.merges.push_back(vocabulary_.texts.keep(joined));
    }
    return {};
  }

  // [["token", score]]
  Status read_unigram(const JsonValue& model) {
    if (rules_.byte_level) {
      return fail(ErrorKind::unsupported, "{}: Unigram over bytes is not supported", model.place());
    }
    if (auto status = read_flags(model); !status) return status;
    vocabulary_.facts.joins_unknown = true;
    vocabulary_.facts.model = "t5";
    const auto vocab = model.member("vocab");
    if (!vocab) return vocab.error();
    if (auto list = vocab->array(); !list) return std::move(list).error();
    vocabulary_.scores.reserve(vocab->size());
    for (const JsonValue& entry : vocab->items()) {
      const std::vector<JsonValue> pair = entry.items();
      if (pair.size() != 2) return fail(ErrorKind::invalid_input, "{}: a text and a score are needed", entry.place());
      const auto text = pair[0].text();
      if (!text) return text.error();
      const auto score = pair[1].number();
      if (!score) return score.error();
      vocabulary_.add(*text, kind_of(*text), static_cast<float>(*score));
    }
    vocabulary_.scores.resize(vocabulary_.tokens.size());
    const auto unknown = model.find_integer("unk_id");
    if (!unknown) return unknown.error();
    if (unknown->has_value()) {
      if (**unknown < 0 || static_cast<size_t>(**unknown) >= vocabulary_.tokens.size()) {
        return fail(ErrorKind::invalid_input, "{}.unk_id is {}: the vocabulary has {} tokens", model.place(), **unknown,
                    vocabulary_.tokens.size());
      }
      vocabulary_.facts.unknown = **unknown;
      vocabulary_.kinds[static_cast<size_t>(**unknown)] = static_cast<int64_t>(TokenKind::unknown);
    }
    return {};
  }

  Status read_added_tokens() {
    const auto added = root_.find("added_tokens");
    if (!added) return {};
    if (auto list = added->array(); !list) return std::move(list).error();
    const std::vector<JsonValue> entries = added->items();
    const int64_t most = highest_id(vocabulary_.tokens.size() + entries.size());
    for (const JsonValue& entry : entries) {
      const auto member = entry.member("id");
      if (!member) return member.error();
      const auto id = member->integer();
      if (!id) return id.error();
      if (*id < 0 || *id > most) {
        return fail(ErrorKind::invalid_input, "{} is {}: ids of this vocabulary are 0 .. {}", member->place(), *id,
                    most);
      }
      if (auto status = add_token(vocabulary_, *id, entry); !status) return status;
    }
    return {};
  }

  Status choose_words(const JsonValue& model) {
    VocabularySource& facts = vocabulary_.facts;
    if (!facts.normalization) facts.normalization = Normalization::none;
    if (rules_.byte_level) {
      if (rules_.marks_spaces || facts.space_prefix) {
        return fail(ErrorKind::unsupported, "{}: a byte-level model with marked spaces is not supported",
                    model.place());
      }
      facts.words = rules_.patterns.empty() ? WordRule::whole : find_word_rule(rules_.patterns);
      if (!facts.words) {
        facts.words = WordRule::patterns;
        vocabulary_.patterns = rules_.patterns;
      }
      return {};
    }
    if (!rules_.marks_spaces || !rules_.patterns.empty()) {
      return fail(ErrorKind::unsupported,
                  "{}: its texts are neither bytes nor have marked spaces alone (ByteLevel or Metaspace); other "
                  "pre-tokenizers are not supported with it",
                  model.place());
    }
    facts.words = rules_.splits_at_spaces ? WordRule::spaces : WordRule::whole;
    if (!facts.space_prefix) facts.space_prefix = SpacePrefix::never;
    return {};
  }

  Status read_template() {
    VocabularySource& facts = vocabulary_.facts;
    facts.add_bos = !rules_.before.empty();
    facts.add_eos = !rules_.after.empty();
    for (const auto& [text, id] : {std::pair{rules_.before, &facts.bos}, std::pair{rules_.after, &facts.eos}}) {
      if (text.empty()) continue;
      const Token token = vocabulary_.find(text);
      if (token < 0) {
        return fail(ErrorKind::invalid_input, "{}: post_processor puts in '{}', which is no token", root_.place(),
                    text);
      }
      *id = token;
    }
    return {};
  }

  JsonValue root_;
  Vocabulary vocabulary_;
  TokenizerRules rules_;
};

}  // namespace

Result<Vocabulary> read_tokenizer_json(std::string_view json, const SideFiles& beside) {
  const auto document = JsonDocument::parse(json, "tokenizer.json");
  if (!document) return document.error();
  return TokenizerJsonReader(document->root()).run(beside);
}

}  // namespace gale::text
