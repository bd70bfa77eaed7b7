// Changes that a tokenizer makes to ordinary text before it looks for words: Unicode normal forms, the replacement
// tables of SentencePiece models, superfluous spaces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/vocabulary.h"

namespace gale::text {

// SentencePiece's precompiled_charsmap: a double-array trie of texts, and what each of them is replaced by.
class Charsmap {
 public:
  // `bytes` must outlive this. Errors: sizes that don't fit.
  Status read(std::string_view bytes);
  bool empty() const { return trie_.empty(); }
  // Replaces all that the table has, longest match first.
  void apply(std::string_view text, std::string& out) const;

 private:
  uint32_t unit(size_t at) const;
  // Length of the longest text of the table that `text` begins with (0: none), and what stands for it.
  size_t match(std::string_view text, std::string_view& replacement) const;

  std::string_view trie_;     // little-endian 32-bit units
  std::string_view strings_;  // ended by zero bytes
};

class Normalizer {
 public:
  Status create(const VocabularySource& source, Normalization form);
  bool changes_text() const { return form_ != Normalization::none || !charsmap_.empty() || single_spaces_; }
  // The text as the tokenizer sees it: `text` itself, or a view of `storage`. Any bytes; what is no UTF-8 stays.
  std::string_view apply(std::string_view text, std::string& storage) const;

 private:
  Normalization form_ = Normalization::none;
  Charsmap charsmap_;
  bool single_spaces_ = false;
};

}  // namespace gale::text
