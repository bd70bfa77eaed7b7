// The tensors of Hugging Face files under the names, shapes and values of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "format/hugging_face_config.h"
#include "format/safetensors.h"
#include "format/tensor.h"

namespace gale::format {

// One file of a model; tensors refer to it by its place in the list.
struct StoredFile {
  std::string path;
  std::vector<StoredTensor> tensors;
};

// Joins quantised weights with their scales, gives names by the table of the family, and says how the values are made
// where the file doesn't hold them. Tensors that no table knows keep their names; numbers that only matter to
// activations and caches in FP8 are left out. Errors name the file and the tensor.
Result<std::vector<Tensor>> join_tensors(const std::vector<StoredFile>& files, const HuggingFaceSettings& settings);

}  // namespace gale::format
