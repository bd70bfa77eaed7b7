// Writer of GGUF files (version 3): header and table first, then the tensors, each at a place that is known beforehand.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "format/metadata.h"
#include "format/tensor_type.h"

namespace gale::format {

// What the table of a file says about a tensor.
struct TensorEntry {
  std::string name;
  TensorType type = TensorType::f32;
  std::array<uint64_t, 4> shape{1, 1, 1, 1};  // contiguous dimension first
  int dimensions = 1;
};

// Everything of a file that stands before the data of its tensors, and where those lie.
struct GgufLayout {
  std::string header;             // without the padding behind it
  std::vector<uint64_t> offsets;  // of each tensor from the start of the file
  std::vector<uint64_t> bytes;    // of each tensor, without padding
  uint64_t file_bytes = 0;        // with the padding of the last tensor
};

// Keys in their order and with the types they have; the alignment is that of the key general.alignment, 32 without it.
// Errors name the key or tensor: an empty or too long name, one name for two tensors, a shape that does not fit the
// type.
Result<GgufLayout> layout_gguf(const Metadata& metadata, std::span<const TensorEntry> tensors);

class GgufWriter {
 public:
  // Creates the file (see OutputFile: it has its name only after finish()) and writes what stands before the data.
  static Result<GgufWriter> create(const std::string& path, const Metadata& metadata,
                                   std::span<const TensorEntry> tensors);

  // Part of the data of a tensor. Several threads may write at once; every byte has to be written once.
  Status write(size_t tensor, uint64_t offset, std::span<const std::byte> bytes);
  uint64_t file_bytes() const { return layout_.file_bytes; }
  // Error: io, or bytes that nobody wrote.
  Status finish();

 private:
  GgufWriter(OutputFile file, GgufLayout layout);
  OutputFile file_;
  GgufLayout layout_;
  std::unique_ptr<std::atomic<uint64_t>> missing_bytes_;  // of tensors, not written yet
};

}  // namespace gale::format
