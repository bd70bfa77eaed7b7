// Everything a Tokenizer knows, as tables; filled once when it is created.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/normalization.h"
#include "text/regex_words.h"
#include "text/special_tokens.h"
#include "text/token_table.h"
#include "text/unigram.h"
#include "text/vocabulary.h"
#include "text/words.h"

namespace gale::text {

// Whether merging the bytes of a token gives that token. Found out when first needed, by any thread: all find the same.
enum class Whole : uint8_t { unknown, yes, no };

// What tokens are spelled with.
enum class Alphabet {
  bytes,       // a token is a string of bytes
  characters,  // a token is UTF-8 with spaces as U+2581, or one byte by the name of <0xAB>
};

// How the symbols of a word become tokens.
enum class Joining {
  merges,   // listed pairs, the best of the list first
  unions,   // pairs whose union is a token, the token of the best priority first
  unigram,  // no pairs: the cutting of the word whose tokens have the best sum of scores
};

struct TokenizerData {
  Alphabet alphabet = Alphabet::bytes;
  Joining joining = Joining::merges;
  SpacePrefix space_prefix = SpacePrefix::never;
  bool prefix_unless_space = false;
  bool whole_words = false;
  bool byte_fallback = true;
  bool joins_unknown = false;
  bool adds_bos = false;
  bool adds_eos = false;
  WordRule rule = WordRule::fallback;
  RegexWords patterns;  // of WordRule::patterns
  Normalizer normalizer;
  Token bos = -1, eos = -1, unknown = -1;
  std::vector<Token> end_tokens;  // sorted

  std::vector<std::string_view> texts;  // as the file writes them
  // What the tables look for. Alphabet::bytes: the bytes a token stands for (in `bytes`); else the text of the file.
  std::vector<std::string_view> keys;
  std::vector<char> bytes;
  std::vector<TokenKind> kinds;
  std::vector<bool> shown;  // control tokens that are part of the visible text (channel marks of harmony models)
  size_t longest_key = 0;
  TokenTable table;
  TokenTable off_alphabet;  // Alphabet::bytes: by `texts`, tokens whose text isn't made of the 256 byte characters

  MergeTable merges;                 // Joining::merges
  std::vector<uint32_t> priorities;  // Joining::unions: of each token, lowest first
  Unigram unigram;                   // Joining::unigram
  std::array<Token, 256> byte_tokens{};
  // Alphabet::characters: some token holds this byte followed by U+2581; these two bytes side by side (first * 256 +
  // second).
  std::array<bool, 256> joins_space{};
  std::vector<bool> joins_bytes;
  std::vector<Token> replacement;  // Alphabet::bytes: U+FFFD, if the vocabulary can spell it
  SpecialTokens specials;
  SpecialTokens normalized_specials;  // looked for after normalisation
  std::unique_ptr<std::atomic<Whole>[]> whole;

  TokenKind kind(Token token) const { return kinds[static_cast<size_t>(token)]; }
  // May ordinary text become this token? Never a control token, however the merges are made.
  bool spellable(Token token) const {
    const TokenKind k = kind(token);
    return k != TokenKind::control && k != TokenKind::unknown && (alphabet == Alphabet::bytes || k != TokenKind::byte);
  }
  // Token with exactly these bytes that ordinary text may become; -1: none.
  Token find_spellable(std::string_view key) const {
    const Token token = key.size() <= longest_key ? table.find(key, keys) : -1;
    return token >= 0 && spellable(token) ? token : -1;
  }
};

Status fill_tokenizer_data(const VocabularySource& source, TokenizerData& data);

// Sets end_tokens, and the kinds of end tokens that the file marks wrongly.
void find_end_tokens(const VocabularySource& source, TokenizerData& data);

// Token of exactly this text as a file writes it; -1: none.
Token find_token(const TokenizerData& data, std::string_view text);

// Tokens of ordinary, normalised text (no special tokens in it), appended. `prefix`: a space goes first. Returns the
// number of bytes lost.
size_t encode_ordinary(const TokenizerData& data, std::string_view text, bool prefix, std::vector<Token>& out);

}  // namespace gale::text
