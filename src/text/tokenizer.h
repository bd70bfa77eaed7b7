// Text to tokens and back: byte-level BPE, BPE and Unigram over characters with spaces as U+2581.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace gale::text {

struct EncodeOptions {
  // Control tokens written in the text become those tokens. Only for text that the program made (templates), never for
  // what a user typed. User-defined tokens are always cut out.
  bool special = false;
  // Puts BOS (and EOS) where the model wants them; BOS is not doubled if the text starts with it (with `special`).
  bool add_bos_eos = false;
};

// A stretch of a text and who wrote it.
struct PromptPart {
  std::string_view text;
  bool special =
      false;  // written by the program (a template): control tokens in it count, if EncodeOptions::special says so
};

// Immutable after creation; safe to share between threads.
class Tokenizer {
 public:
  // Errors: an unknown model or pre-tokenizer (named), inconsistent array lengths, a merge or token id that doesn't
  // exist. A missing pre-tokenizer or "default" is used with a logged warning.
  static Result<Tokenizer> create(const VocabularySource& source);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  size_t size() const;
  // Any bytes are accepted. One rule for invalid UTF-8, documented in docs/tokenizers.md. Bytes that the vocabulary
  // can't spell, and those that are no UTF-8 where the vocabulary needs it, are counted in `*lost` (never lost
  // silently) and replaced as documented there.
  std::vector<Token> encode(std::string_view text, EncodeOptions options = {}, size_t* lost = nullptr) const;

  // The same for text that is put together from parts: tokens form across the borders as if it were one text, but
  // control tokens are recognised only in what the program wrote.
  std::vector<Token> encode(std::span<const PromptPart> parts, EncodeOptions options, size_t* lost = nullptr) const;

  // Bytes of one token as they appear in text. Control tokens give "" unless `special`. Out-of-range ids give "".
  std::string piece(Token token, bool special = false) const;
  // Concatenation of the pieces; the space that SentencePiece puts before the first word is taken away again.
  std::string decode(std::span<const Token> tokens, bool special = false) const;

  TokenKind kind(Token token) const;
  Token bos() const;  // -1: none
  Token eos() const;
  bool adds_bos() const;
  bool adds_eos() const;
  // A space is put before the text when encoding (SentencePiece), and taken away by decode.
  bool adds_space_prefix() const;
  // Tokens that end a turn: eos, eot, eom ids and the tokens whose text is known to end one (docs/tokenizers.md).
  // Sorted.
  const std::vector<Token>& end_tokens() const;
  bool ends_turn(Token token) const;
  // Exact text of a token in the vocabulary, as a file writes it ("<|im_end|>"); -1: no such token.
  Token find(std::string_view text) const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

// Turns a stream of tokens into text that is whole UTF-8 at every step: bytes of an unfinished character are held back.
// Invalid bytes become U+FFFD.
class StreamingDetokenizer {
 public:
  // `tokenizer` must outlive this. `continues`: text was written before, so a leading space is kept.
  explicit StreamingDetokenizer(const Tokenizer& tokenizer, bool continues = false);
  // Text that became complete with this token; may be empty.
  std::string push(Token token);
  // What is left at the end (an unfinished character becomes U+FFFD).
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool at_start_;
  std::string pending_;
};

// Watches a stream of text for stop strings, holding back text that might be the start of one.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);
  // Appends `text`; returns what may be shown now. After a match `stopped()` is true, the text before the match has
  // been returned and everything from the match on is dropped.
  std::string push(std::string_view text);
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace gale::text
