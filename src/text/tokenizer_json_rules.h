// What the parts of a tokenizer.json around its model say: normalizer, pre-tokenizer, post-processor, decoder.
#pragma once

#include "text/json_document.h"
#include "text/vocabulary_files.h"

namespace gale::text {

struct TokenizerRules {
  bool byte_level = false;
  bool marks_spaces = false;          // spaces become U+2581
  bool splits_at_spaces = false;      // a word begins at each of them
  std::vector<WordPattern> patterns;  // texts are kept by the vocabulary
  std::string_view before, after;     // special tokens around a text
};

// Fills `rules`, and fields of the vocabulary that are the same there. Errors: a part that is not supported, by name.
Status read_tokenizer_rules(const JsonValue& root, Vocabulary& vocabulary, TokenizerRules& rules);

}  // namespace gale::text
