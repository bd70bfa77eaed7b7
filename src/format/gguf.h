// Reader of one GGUF file (versions 2 and 3, little endian): header, metadata, tensor table; every byte checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/checkpoint.h"

namespace gale::format {

constexpr uint64_t default_gguf_alignment = 32;  // of tensor data, where the key general.alignment isn't there
constexpr size_t max_tensor_name_bytes = 63;     // names must fit 64 bytes with a closing zero

struct GgufContents {
  Metadata metadata;            // views into `bytes`
  std::vector<Tensor> tensors;  // spans into `bytes`; `file` is left 0
};

// Parses a whole file that is in memory. `name` is used in messages. Every length and count is compared with the bytes
// that are left before anything is allocated for it, so a lying header cannot make memory grow beyond a small multiple
// of the file (16 bytes per string that takes at least 8, 8 bytes per integer of an array).
// Gaps between tensors and bytes after the last one are accepted; tensors that overlap are not.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
Result<GgufContents> parse_gguf(std::span<const std::byte> bytes, const std::string& name);

}  // namespace gale::format
