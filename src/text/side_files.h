// What the files beside a tokenizer's add to its vocabulary.
#pragma once

#include "text/json_document.h"
#include "text/vocabulary_files.h"

namespace gale::text {

// Highest id that a vocabulary of `count` entries may hold: ids with wide gaps would fill the memory.
constexpr int64_t highest_id(size_t count) {
  return static_cast<int64_t>(count) * 2 + 20'000;
}

// An entry of added_tokens (tokenizer.json) or added_tokens_decoder (tokenizer_config.json).
Status add_token(Vocabulary& vocabulary, int64_t id, const JsonValue& entry);

// Added tokens, ids and flags, chat template. `has_added_tokens`: the vocabulary knows its added tokens already.
Status apply_side_files(Vocabulary& vocabulary, const SideFiles& beside, bool has_added_tokens);

}  // namespace gale::text
