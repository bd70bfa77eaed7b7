// Facts of a vocabulary that a model file or a tokenizer's own files hold, in the form that Tokenizer is made from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gale::text {

using Token = int32_t;

// Values are GGUF's (tokenizer.ggml.token_type).
enum class TokenKind : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// How text is cut into words before merging: one rule per family of models.
enum class WordRule {
  gpt2,
  digits_gpt2,  // every digit alone, then gpt2
  llama3,
  qwen2,
  qwen35,
  gpt4o,
  tekken,
  deepseek3,
  fallback,  // GGUF's "default"
  newlines,  // runs of newlines alone
  whole,     // no words: the text is merged as one
  spaces,    // a word begins at every space (not "gpt2")
  patterns,  // VocabularySource::patterns
};

// Unicode normalisation of ordinary text before it is cut into words.
enum class Normalization { none, nfc, nfd, nfkc, nfkd };

// Where the space is put that SentencePiece writes before a text.
enum class SpacePrefix {
  never,
  pieces,    // before all ordinary text that stands at the start or behind a special token
  start,     // before the text, if it begins with ordinary text
  segments,  // SentencePiece: at the start, even before a user-defined token, and behind control tokens
};

// What a special token does to the text around it.
struct AddedTokenRule {
  Token token = -1;
  bool strips_left = false;  // white space before it belongs to it
  bool strips_right = false;
  bool whole_word = false;  // found only where no letter, digit or underscore touches it
  bool normalized = false;  // a user-defined token that is looked for after normalisation
};

// One step that cuts words by a regular expression.
struct WordPattern {
  // What becomes of a match: a word of its own, dropped, the end of the word before, the start of the word behind, or
  // one word with neighbouring matches.
  enum class Matches { isolated, removed, merged_with_previous, merged_with_next, contiguous };
  std::string_view expression;  // PCRE2
  Matches matches = Matches::isolated;
  bool inverted = false;  // what lies between the matches is taken for the matches
};

// Views must stay valid as long as the Tokenizer lives (they point into the mapped file, or into a Vocabulary).
// Fields that are missing in GGUF files have the meaning that the model's name gives them there if they are not set.
struct VocabularySource {
  std::string_view model;          // tokenizer.ggml.model: "gpt2", "llama", "gemma4", "t5"
  std::string_view pre_tokenizer;  // tokenizer.ggml.pre; empty: the key is missing
  std::span<const std::string_view> tokens;
  std::span<const float> scores;             // empty, or one per token
  std::span<const int64_t> kinds;            // empty, or one TokenKind per token
  std::span<const std::string_view> merges;  // "left right", best first
  // -1: the vocabulary has none. Not set: the standard id of the model.
  std::optional<int64_t> bos, eos, eot, eom, unknown, padding;
  std::span<const int64_t> more_eos;  // further ids that end a turn (tokenizer.ggml.eos_token_ids)
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::optional<bool> remove_extra_whitespaces;  // runs of spaces become one, those at both ends none
  std::string_view charsmap;                     // normalisation rules in SentencePiece's precompiled form

  // What GGUF has no key for.
  bool merges_by_rank = false;      // "gpt2": what joins to a token merges, lowest id first (tiktoken)
  std::optional<WordRule> words;    // instead of the rule that pre_tokenizer names
  std::optional<bool> whole_words;  // a word that is a token is that token; merges are not asked
  std::span<const WordPattern> patterns;
  std::optional<Normalization> normalization;
  std::optional<SpacePrefix> space_prefix;  // instead of add_space_prefix
  bool prefix_unless_space = false;         // no space is put before a text that begins with one
  bool byte_fallback = true;                // not "gpt2": what is no token is spelled with the tokens <0x00> .. <0xFF>
  bool joins_unknown = false;               // not "gpt2": neighbouring unknown tokens become one
  std::span<const AddedTokenRule> added;
  bool exact_kinds = false;  // an ordinary token that reads like the end of a turn is not one
};

}  // namespace gale::text
