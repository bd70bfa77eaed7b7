// Reader of one safetensors file: the table of tensors in its header; every byte checked.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/recipe.h"

namespace gale::format {

// A tensor as the file lists it: the contiguous dimension comes last. A single number has no dimensions.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::array<uint64_t, 8> shape{};
  uint32_t dimensions = 0;
  std::span<const std::byte> bytes;  // exactly values() * the size of a value, at any alignment; may be empty

  std::span<const uint64_t> sizes() const { return std::span(shape).first(dimensions); }
  uint64_t values() const { return bytes.size() / stored_type_info(type).bytes; }
};

// "BF16 [64, 96]", for messages.
std::string describe(const StoredTensor& tensor);

// Parses a whole file that is in memory; `name` is used in messages. The tensors come in the order of their data. The
// header takes memory of a small multiple of its size, which cannot be more than that of the file.
// Gaps between tensors and bytes after the last one are accepted; tensors that overlap are not.
// Format: https://github.com/huggingface/safetensors#format
Result<std::vector<StoredTensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

}  // namespace gale::format
