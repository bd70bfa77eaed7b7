// Reading of normalizers, pre-tokenizers, post-processors and decoders.
#include "text/tokenizer_json_rules.h"

#include "text/base64.h"
#include "text/published_words.h"

namespace gale::text {
namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581

Error unsupported(const JsonValue& part, std::string_view what) {
  return fail(ErrorKind::unsupported, "{}: {} is not supported", part.place(), what);
}

Result<std::string_view> type_of(const JsonValue& part) {
  const auto type = part.member("type");
  if (!type) return type.error();
  return type->text();
}

// Calls `read(part)` for the part, or for each part of a sequence in it, whose members are under `key`.
template <class Read>
Status for_each_part(const JsonValue& part, std::string_view key, const Read& read, int depth = 0) {
  const auto type = type_of(part);
  if (!type) return type.error();
  if (*type != "Sequence") return read(part, *type);
  if (depth > 4) return unsupported(part, "a sequence inside so many others");
  const auto members = part.member(key);
  if (!members) return members.error();
  if (auto list = members->array(); !list) return std::move(list).error();
  for (const JsonValue& member : members->items()) {
    if (auto status = for_each_part(member, key, read, depth + 1); !status) return status;
  }
  return {};
}

// The texts of {"String": ...} or {"Regex": ...}; one of them is empty.
struct PatternText {
  std::string_view literal, expression;
};
Result<PatternText> read_pattern(const JsonValue& part) {
  const auto pattern = part.member("pattern");
  if (!pattern) return pattern.error();
  const auto literal = pattern->find_text("String");
  if (!literal) return literal.error();
  const auto expression = pattern->find_text("Regex");
  if (!expression) return expression.error();
  PatternText out{literal->value_or(""), expression->value_or("")};
  if (out.literal.empty() == out.expression.empty()) return unsupported(*pattern, "a pattern without text");
  return out;
}

class RuleReader {
 public:
  RuleReader(Vocabulary& vocabulary, TokenizerRules& rules) : vocabulary_(vocabulary), rules_(rules) {}

  Status normalizer(const JsonValue& part, std::string_view type) {
    VocabularySource& facts = vocabulary_.facts;
    constexpr std::pair<std::string_view, Normalization> forms[] = {{"NFC", Normalization::nfc},
                                                                    {"NFD", Normalization::nfd},
                                                                    {"NFKC", Normalization::nfkc},
                                                                    {"NFKD", Normalization::nfkd}};
    for (const auto& [name, form] : forms) {
      if (type != name) continue;
      if (facts.normalization && *facts.normalization != form) return unsupported(part, "a second normal form");
      facts.normalization = form;
      return {};
    }
    if (type == "Prepend") {
      const auto text = part.find_text("prepend");
      if (!text) return text.error();
      if (*text != space_mark) return unsupported(part, "to put something else than U+2581 before the text");
      facts.space_prefix = SpacePrefix::pieces;
      return {};
    }
    if (type == "Replace") return replacement(part);
    if (type == "Precompiled") return charsmap(part);
    if (type == "Strip") return {};  // stands before the Replace that makes single spaces
    return unsupported(part, fmt::format("the normalizer '{}'", type));
  }

  Status pre_tokenizer(const JsonValue& part, std::string_view type) {
    if (type == "ByteLevel") return byte_level(part);
    if (type == "Metaspace") return metaspace(part);
    if (type == "Split") return split(part);
    if (type == "Digits") {
      const auto single = part.find_boolean("individual_digits");
      if (!single) return single.error();
      const bool alone = single->value_or(false);
      add_pattern(alone ? digit_expression : R"(\p{N}+)", WordPattern::Matches::isolated);
      return {};
    }
    if (type == "Punctuation") {
      const auto matches = behaviour(part);
      if (!matches) return matches.error();
      add_pattern(R"([!-\/:-@\[-`\{-~\p{P}])", *matches);
      return {};
    }
    if (type == "Whitespace") {
      add_pattern(R"(\w+|[^\w\s]+)", WordPattern::Matches::removed, /*inverted=*/true);
      return {};
    }
    if (type == "WhitespaceSplit") {
      add_pattern(R"(\s)", WordPattern::Matches::removed);
      return {};
    }
    return unsupported(part, fmt::format("the pre-tokenizer '{}'", type));
  }

  Status post_processor(const JsonValue& part, std::string_view type) {
    if (type == "ByteLevel") return {};
    if (type == "TemplateProcessing") return template_processing(part);
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      for (const auto& [key, target] : {std::pair{"cls", &rules_.before}, std::pair{"sep", &rules_.after}}) {
        const auto pair = part.member(key);
        if (!pair) return pair.error();
        const std::vector<JsonValue> items = pair->items();
        if (items.empty()) return unsupported(*pair, "an empty pair");
        *target = items[0].text_or_empty();
      }
      return {};
    }
    return unsupported(part, fmt::format("the post-processor '{}'", type));
  }

  Status decoder(const JsonValue& part, std::string_view type) {
    for (const std::string_view known : {"ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}) {
      if (type == known) return {};
    }
    return unsupported(part, fmt::format("the decoder '{}'", type));
  }

 private:
  void add_pattern(std::string_view expression, WordPattern::Matches matches, bool inverted = false) {
    rules_.patterns.push_back({vocabulary_.texts.keep(expression), matches, inverted});
  }

  Status replacement(const JsonValue& part) {
    const auto pattern = read_pattern(part);
    if (!pattern) return pattern.error();
    const auto content = part.find_text("content");
    if (!content) return content.error();
    const std::string_view text = content->value_or("");
    if (pattern->literal == " " && text == space_mark) {
      rules_.marks_spaces = true;
      return {};
    }
    if (pattern->expression == " {2,}" && (text == " " || text == space_mark)) {
      vocabulary_.facts.remove_extra_whitespaces = true;
      return {};
    }
    return unsupported(part, fmt::format("to replace '{}{}' by '{}'", pattern->literal, pattern->expression, text));
  }

  Status charsmap(const JsonValue& part) {
    const auto text = part.find_text("precompiled_charsmap");
    if (!text) return text.error();
    std::string bytes;
    if (!append_base64(text->value_or(""), bytes)) {
      return fail(ErrorKind::invalid_input, "{}: precompiled_charsmap is no base64", part.place());
    }
    vocabulary_.facts.charsmap = vocabulary_.texts.keep(bytes);
    return {};
  }

  Status byte_level(const JsonValue& part) {
    const auto prefix = part.find_boolean("add_prefix_space");
    if (!prefix) return prefix.error();
    if (prefix->value_or(true)) return unsupported(part, "add_prefix_space of a byte-level pre-tokenizer");
    const auto regex = part.find_boolean("use_regex");
    if (!regex) return regex.error();
    rules_.byte_level = true;
    if (regex->value_or(true)) add_pattern(gpt2_expression, WordPattern::Matches::isolated);
    return {};
  }

  Status metaspace(const JsonValue& part) {
    const auto mark = part.find_text("replacement");
    if (!mark) return mark.error();
    if (mark->value_or(space_mark) != space_mark) return unsupported(part, "a space mark other than U+2581");
    const auto scheme = part.find_text("prepend_scheme");
    if (!scheme) return scheme.error();
    const auto old_flag = part.find_boolean("add_prefix_space");
    if (!old_flag) return old_flag.error();
    const auto split = part.find_boolean("split");
    if (!split) return split.error();
    const std::string_view name = scheme->value_or(old_flag->value_or(true) ? "always" : "never");
    if (name != "always" && name != "first" && name != "never") {
      return unsupported(part, fmt::format("the prepend_scheme '{}'", name));
    }
    VocabularySource& facts = vocabulary_.facts;
    facts.space_prefix = name == "always"  ? SpacePrefix::pieces
                         : name == "first" ? SpacePrefix::start
                                           : SpacePrefix::never;
    facts.prefix_unless_space = true;
    rules_.marks_spaces = true;
    rules_.splits_at_spaces = split->value_or(true);
    return {};
  }

  Status split(const JsonValue& part) {
    const auto pattern = read_pattern(part);
    if (!pattern) return pattern.error();
    const auto matches = behaviour(part);
    if (!matches) return matches.error();
    const auto inverted = part.find_boolean("invert");
    if (!inverted) return inverted.error();
    // Gemma's: the normalizer has left no space that this could cut at.
    if (rules_.marks_spaces && pattern->literal == " ") return {};
    std::string expression(pattern->expression);
    for (const char c : pattern->literal) {
      const bool plain =
          static_cast<uint8_t>(c) >= 0x80 || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
      if (!plain) expression += '\\';
      expression += c;
    }
    add_pattern(expression, *matches, inverted->value_or(false));
    return {};
  }

  static Result<WordPattern::Matches> behaviour(const JsonValue& part) {
    const auto text = part.find_text("behavior");
    if (!text) return text.error();
    using Matches = WordPattern::Matches;
    constexpr std::pair<std::string_view, Matches> names[] = {{"Isolated", Matches::isolated},
                                                              {"Removed", Matches::removed},
                                                              {"MergedWithPrevious", Matches::merged_with_previous},
                                                              {"MergedWithNext", Matches::merged_with_next},
                                                              {"Contiguous", Matches::contiguous}};
    const std::string_view wanted = text->value_or("Isolated");
    for (const auto& [name, matches] : names) {
      if (name == wanted) return matches;
    }
    return unsupported(part, fmt::format("the behavior '{}'", wanted));
  }

  // A list of special tokens and sequences; the first sequence is the text.
  Status template_processing(const JsonValue& part) {
    const auto single = part.member("single");
    if (!single) return single.error();
    if (auto list = single->array(); !list) return std::move(list).error();
    bool text_seen = false;
    for (const JsonValue& item : single->items()) {
      if (item.find("Sequence")) {
        if (text_seen) return unsupported(*single, "a text that is put in twice");
        text_seen = true;
        continue;
      }
      const auto special = item.member("SpecialToken");
      if (!special) return special.error();
      const auto id = special->find_text("id");
      if (!id) return id.error();
      std::string_view& target = text_seen ? rules_.after : rules_.before;
      if (!target.empty() || !id->has_value())
        return unsupported(*single, "more than one token before or behind a text");
      target = **id;
    }
    return {};
  }

  Vocabulary& vocabulary_;
  TokenizerRules& rules_;
};

}  // namespace

Status read_tokenizer_rules(const JsonValue& root, Vocabulary& vocabulary, TokenizerRules& rules) {
  RuleReader reader(vocabulary, rules);
  using Read = Status (RuleReader::*)(const JsonValue&, std::string_view);
  struct Part {
    const char* key;
    const char* members;
    Read read;
  };
  constexpr Part parts[] = {{"normalizer", "normalizers", &RuleReader::normalizer},
                            {"pre_tokenizer", "pretokenizers", &RuleReader::pre_tokenizer},
                            {"post_processor", "processors", &RuleReader::post_processor},
                            {"decoder", "decoders", &RuleReader::decoder}};
  for (const Part& part : parts) {
    const auto value = root.find(part.key);
    if (!value) continue;
    const auto read = [&](const JsonValue& p, std::string_view type) { return (reader.*part.read)(p, type); };
    if (auto status = for_each_part(*value, part.members, read); !status) return status;
  }
  return {};
}

}  // namespace gale::text
