// Models as Hugging Face directories: finds the files, and gives tensors and settings the form that GGUF files have.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "format/json.h"

namespace gale::format {

// A directory, or a file that is a safetensors file by its name or its first bytes.
bool is_hugging_face(const std::string& path);

// See Checkpoint::open. Symbolic links are followed, so that snapshots of a hub cache can be opened.
Result<Checkpoint::Contents> open_hugging_face(const std::string& path);

// A tensor and the file that an index says it is in.
struct IndexEntry {
  std::string tensor;
  std::string file;  // a plain name: files elsewhere than beside the index are refused
};
// Reads the weight_map of a model.safetensors.index.json; `name` is used in messages. Sorted by file.
Result<std::vector<IndexEntry>> read_index(const Json& index, const std::string& name);

}  // namespace gale::format
