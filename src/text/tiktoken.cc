// Vocabularies of ranks: tiktoken's lines of base64 and rank, and Mistral's tekken.json.
#include <algorithm>
#include <charconv>

#include "text/base64.h"
#include "text/byte_names.h"
#include "text/published_words.h"
#include "text/rank_files.h"
#include "text/side_files.h"

namespace gale::text {
namespace {

// Takes the next line that isn't empty off `text`; false: there is none.
bool next_line(std::string_view& text, std::string_view& line) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) return true;
  }
  return false;
}

void set_bytes(Vocabulary& vocabulary, size_t id, std::string_view bytes) {
  std::string characters;
  append_characters_of(bytes, characters);
  if (id == vocabulary.tokens.size()) {
    vocabulary.add(characters, TokenKind::normal);
  } else {
    vocabulary.set(static_cast<Token>(id), characters, TokenKind::normal);
  }
}

Status read_ranks(std::string_view text, Vocabulary& vocabulary, std::string& last_token) {
  const int64_t most = highest_id(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  std::string_view line;
  for (size_t number = 1; next_line(text, line); ++number) {
    const size_t space = line.find(' ');
    const std::string_view digits = line.substr(std::min(space, line.size() - 1) + 1);
    int64_t rank = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    last_token.clear();
    const bool good = space != std::string_view::npos && error == std::errc() && end == digits.data() + digits.size() &&
                      append_base64(line.substr(0, space), last_token) && !last_token.empty();
    if (!good) {
      return fail(ErrorKind::invalid_input,
                  "tiktoken ranks, line {}: '{}' is no base64 text, a space and a rank behind it", number,
                  line.substr(0, 80));
    }
    if (rank < 0 || rank > most) {
      return fail(ErrorKind::invalid_input, "tiktoken ranks, line {}: the rank {} is outside of 0 .. {}", number, rank,
                  most);
    }
    set_bytes(vocabulary, static_cast<size_t>(rank), last_token);
  }
  if (vocabulary.tokens.empty()) return fail(ErrorKind::invalid_input, "tiktoken ranks: there are none");
  return {};
}

// The special tokens of tekken.json; files before version 11 have none, and mean these.
constexpr std::string_view tekken_specials[] = {"<unk>",
                                                "<s>",
                                                "</s>",
                                                "[INST]",
                                                "[/INST]",
                                                "[AVAILABLE_TOOLS]",
                                                "[/AVAILABLE_TOOLS]",
                                                "[TOOL_RESULTS]",
                                                "[/TOOL_RESULTS]",
                                                "[TOOL_CALLS]",
                                                "[IMG]",
                                                "<pad>",
                                                "[IMG_BREAK]",
                                                "[IMG_END]",
                                                "[PREFIX]",
                                                "[MIDDLE]",
                                                "[SUFFIX]",
                                                "[SYSTEM_PROMPT]",
                                                "[/SYSTEM_PROMPT]",
                                                "[TOOL_CONTENT]"};

class TekkenReader {
 public:
  explicit TekkenReader(const JsonValue& root) : root_(root) {}

  Result<Vocabulary> run(const SideFiles& beside) {
    if (auto status = read_config(); !status) return std::move(status).error();
    if (auto status = read_specials(); !status) return std::move(status).error();
    if (auto status = read_vocabulary(); !status) return std::move(status).error();
    VocabularySource& facts = vocabulary_.facts;
    facts.model = "gpt2";
    facts.merges_by_rank = true;
    facts.whole_words = true;
    facts.normalization = Normalization::none;
    facts.add_bos = true;
    facts.add_eos = false;
    facts.unknown = vocabulary_.find("<unk>");
    facts.bos = vocabulary_.find("<s>");
    facts.eos = vocabulary_.find("</s>");
    if (auto status = apply_side_files(vocabulary_, beside, /*has_added_tokens=*/true); !status) {
      return std::move(status).error();
    }
    return std::move(vocabulary_);
  }

 private:
  Status read_config() {
    const auto config = root_.member("config");
    if (!config) return config.error();
    const auto pattern = config->find_text("pattern");
    if (!pattern) return pattern.error();
    const WordPattern step{vocabulary_.texts.keep(pattern->value_or("")), WordPattern::Matches::isolated, false};
    vocabulary_.facts.words = find_word_rule({&step, 1});
    if (!vocabulary_.facts.words) {
      vocabulary_.facts.words = WordRule::patterns;
      vocabulary_.patterns.push_back(step);
    }
    for (const auto& [key, target] :
         {std::pair{"default_vocab_size", &size_}, std::pair{"default_num_special_tokens", &specials_}}) {
      const auto member = config->member(key);
      if (!member) return member.error();
      const auto value = member->integer();
      if (!value) return value.error();
      if (*value < 0) return fail(ErrorKind::invalid_input, "{} is {}", member->place(), *value);
      *target = static_cast<size_t>(*value);
    }
    const auto vocab = root_.member("vocab");
    if (!vocab) return vocab.error();
    const size_t listed = vocab->size();
    // Fillers cost memory: not more of them than there can be use for.
    if (specials_ > listed + 2000 || size_ < specials_ || size_ - specials_ > listed) {
      return fail(ErrorKind::invalid_input,
                  "{}: default_vocab_size {} with {} special tokens doesn't fit the {} tokens of 'vocab'",
                  config->place(), size_, specials_, listed);
    }
    return {};
  }

  // Special tokens come first; what is not named is filled up.
  Status read_specials() {
    for (size_t i = 0; i < specials_; ++i) vocabulary_.add(fmt::format("<SPECIAL_{}>", i), TokenKind::control);
    const auto list = root_.find("special_tokens");
    if (!list) {
      for (size_t i = 0; i < std::min(specials_, std::size(tekken_specials)); ++i) {
        vocabulary_.set(static_cast<Token>(i), tekken_specials[i], TokenKind::control);
      }
      return {};
    }
    if (auto array = list->array(); !array) return std::move(array).error();
    for (const JsonValue& entry : list->items()) {
      const auto rank = entry.member("rank");
      if (!rank) return rank.error();
      const auto id = rank->integer();
      if (!id) return id.error();
      const auto text = entry.find_text("token_str");
      if (!text) return text.error();
      const auto control = entry.find_boolean("is_control");
      if (!control) return control.error();
      if (*id < 0 || static_cast<size_t>(*id) >= specials_ || !text->has_value()) {
        return fail(ErrorKind::invalid_input, "{}: a rank below {} and a token_str are needed", entry.place(),
                    specials_);
      }
      vocabulary_.set(static_cast<Token>(*id), **text,
                      control->value_or(true) ? TokenKind::control : TokenKind::user_defined);
    }
    return {};
  }

  Status read_vocabulary() {
    const auto vocab = root_.member("vocab");
    if (!vocab) return vocab.error();
    if (auto array = vocab->array(); !array) return std::move(array).error();
    std::string bytes;
    for (const JsonValue& entry : vocab->items()) {
      const auto rank = entry.find_integer("rank");
      if (!rank) return rank.error();
      const int64_t value = rank->value_or(-1);
      const auto base64 = entry.find_text("token_bytes");
      if (!base64) return base64.error();
      bytes.clear();
      if (value < 0 || !append_base64(base64->value_or(""), bytes) || bytes.empty()) {
        return fail(ErrorKind::invalid_input, "{}: a rank and token_bytes in base64 are needed", entry.place());
      }
      // The list is longer than the vocabulary.
      if (static_cast<size_t>(value) < size_ - specials_)
        set_bytes(vocabulary_, specials_ + static_cast<size_t>(value), bytes);
    }
    return {};
  }

  JsonValue root_;
  Vocabulary vocabulary_;
  size_t size_ = 0;
  size_t specials_ = 0;
};

}  // namespace

Result<Vocabulary> read_tiktoken(std::string_view text, const SideFiles& beside, std::optional<WordRule> words) {
  Vocabulary vocabulary;
  std::string last_token;
  if (auto status = read_ranks(text, vocabulary, last_token); !status) return std::move(status).error();
  VocabularySource& facts = vocabulary.facts;
  facts.model = "gpt2";
  facts.merges_by_rank = true;
  facts.whole_words = true;
  facts.normalization = Normalization::none;
  if (const RankVocabulary* known = find_rank_vocabulary(vocabulary.tokens.size(), last_token); known != nullptr) {
    apply_rank_vocabulary(*known, vocabulary);
  }
  if (words) facts.words = words;
  if (!facts.words) {
    return fail(
        ErrorKind::unsupported,
        "these {} tiktoken ranks are of no vocabulary that is known here, and ranks alone don't say how text is "
        "cut into words; a tokenizer.json beside them would",
        vocabulary.tokens.size());
  }
  if (auto status = apply_side_files(vocabulary, beside, /*has_added_tokens=*/false); !status) {
    return std::move(status).error();
  }
  return vocabulary;
}

Result<Vocabulary> read_tekken(std::string_view json, const SideFiles& beside) {
  const auto document = JsonDocument::parse(json, "tekken.json");
  if (!document) return document.error();
  return TekkenReader(document->root()).run(beside);
}

}  // namespace gale::text
