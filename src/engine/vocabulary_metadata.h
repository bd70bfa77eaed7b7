// Vocabularies as the keys and values of GGUF, both ways.
#pragma once

#include <optional>

#include "base/result.h"
#include "format/checkpoint.h"
#include "text/vocabulary_files.h"

namespace gale::engine {

// The vocabulary that the metadata of a model file holds, with its chat templates; nullopt if it has none
// ("no_vocab"). Texts stay views into the file. Errors name the key.
Result<std::optional<text::Vocabulary>> read_vocabulary(const format::Metadata& metadata);

// The same of a model, from its metadata or from the directory that it lies in.
Result<std::optional<text::Vocabulary>> read_vocabulary(const format::Checkpoint& checkpoint);

// Writes the keys tokenizer.* of a GGUF file. `vocabulary` keeps texts that are made for this, and must outlive the
// metadata. Errors: what GGUF has no way to say.
Status write_vocabulary(text::Vocabulary& vocabulary, format::Metadata& metadata);

}  // namespace gale::engine
