// A named tensor of a model, and its rows: as they stand in the file, or made from what stands there.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/tensor_type.h"

namespace gale::format {

struct Recipe;

// `shape` lists the contiguous dimension first, as GGUF does: a weight of a linear layer is {in, out}, that is `out`
// rows of `in` values.
struct Tensor {
  // `file` of a tensor whose bytes are in no file but belong to the checkpoint.
  static constexpr uint32_t kNoFile = UINT32_MAX;

  std::string name;
  TensorType type = TensorType::f32;  // of the values as rows() gives them
  std::array<uint64_t, 4> shape{1, 1, 1, 1};
  int dimensions = 1;
  std::span<const std::byte> bytes;      // exactly byte_size() bytes, at any alignment; empty if there is a recipe
  std::shared_ptr<const Recipe> recipe;  // how the values are made; null: they are `bytes`
  uint32_t file = 0;                     // index into Checkpoint::files()

  uint64_t row_length() const { return shape[0]; }
  uint64_t rows() const { return shape[1] * shape[2] * shape[3]; }
  uint64_t values() const { return shape[0] * rows(); }  // checked against overflow when the file was read
  // Of all values as rows() gives them.
  uint64_t byte_size() const { return bytes_of(type, values()).value_or(0); }
  uint64_t row_bytes() const { return bytes_of(type, shape[0]).value_or(0); }

  // What lies in the file: `bytes`, or what the recipe starts from, rows() equal parts in about the order of the rows.
  std::span<const std::byte> stored() const;

  // `count` rows (at least one, inside the tensor) from `first` on: a view of the file, or made in `buffer`, which
  // grows as needed. Cannot fail: all that could go wrong was checked when the file was opened. Threads may call this
  // at once with buffers of their own.
  std::span<const std::byte> rows(uint64_t first, uint64_t count, std::vector<std::byte>& buffer) const;
};

// Decodes `count` rows from `first` on to floats: decode() of Tensor::rows(). The error names the tensor.
Status decode_rows(const Tensor& tensor, uint64_t first, uint64_t count, std::vector<std::byte>& buffer,
                   std::span<float> out);

}  // namespace gale::format
