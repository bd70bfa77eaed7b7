// A model file as everything above sees it: named tensors and metadata, whatever the container was.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "format/metadata.h"
#include "format/tensor_type.h"

namespace gale::format {

// A tensor inside a mapped file. `shape` lists the contiguous dimension first, as GGUF does: a weight of a linear layer
// is {in, out}, that is `out` rows of `in` values.
struct Tensor {
  std::string name;
  TensorType type = TensorType::f32;
  std::array<uint64_t, 4> shape{1, 1, 1, 1};
  int dimensions = 1;
  std::span<const std::byte> bytes;  // exactly bytes_of(type, values())
  uint32_t file = 0;                 // index into Checkpoint::files()

  uint64_t row_length() const { return shape[0]; }
  uint64_t rows() const { return shape[1] * shape[2] * shape[3]; }
  uint64_t values() const { return shape[0] * rows(); }  // checked against overflow when the file was read
};

class Checkpoint {
 public:
  // Opens a GGUF file (also one part of a split file: the others are found beside it) of version 2 or 3.
  // Errors name the file, the field or tensor, and what is wrong.
  static Result<Checkpoint> open(const std::string& path);

  const Metadata& metadata() const { return metadata_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // file order
  const Tensor* find(std::string_view name) const;                 // null: not there
  const std::vector<MappedFile>& files() const { return files_; }
  // Hints for the pages of one tensor (or a part of its bytes).
  void will_read(const Tensor& tensor) const { files_[tensor.file].will_read(tensor.bytes); }
  void release(const Tensor& tensor, std::span<const std::byte> part) const { files_[tensor.file].release(part); }
  // Gives all pages of the files back (what is touched again is mapped again).
  void release_all() const {
    for (const MappedFile& file : files_) file.release(file.bytes());
  }
  uint64_t total_bytes() const;  // sum of the files' sizes

 private:
  std::vector<MappedFile> files_;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, size_t> index_;  // keys are views of the names in tensors_
};

}  // namespace gale::format
