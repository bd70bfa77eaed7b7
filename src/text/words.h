// Pre-tokenizers: how text is cut into words before merging, one hand-written scanner per family of models.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/unicode.h"
#include "text/vocabulary.h"

namespace gale::text {

// What the name in tokenizer.ggml.pre stands for.
struct PreTokenizer {
  std::string_view name;
  WordRule rule = WordRule::fallback;
  bool whole_words = false;                           // a word that is a token is that token; merges are not asked
  bool adds_bos = false;                              // unless the file says otherwise
  bool has_bos = true;                                // false: the model has no BOS at all
  Normalization normalization = Normalization::none;  // of the models' own tokenizers; GGUF has no key for it
};

// nullptr: no such name. Knows "default", not the empty name.
const PreTokenizer* find_pre_tokenizer(std::string_view name);
// The first name with these properties; nullptr: GGUF has none.
const PreTokenizer* find_pre_tokenizer(WordRule rule, bool whole_words, Normalization normalization);

// Cuts text that went through repair_utf8. WordRule::spaces and patterns are not its business.
class WordScanner {
 public:
  WordScanner(WordRule rule, std::string_view text) : rule_(rule), text_(text), table_(&CharTable::instance()) {}
  // End of the word that begins at `begin` < text.size(); > begin.
  size_t next(size_t begin) const;

 private:
  WordRule rule_;
  std::string_view text_;
  const CharTable* table_;
};

}  // namespace gale::text
