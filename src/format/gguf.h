// Reader of one GGUF file (versions 2 and 3, little endian): header, metadata, tensor table; every byte checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/checkpoint.h"

namespace gale::format {

struct GgufContents {
  Metadata metadata;            // views into `bytes`
  std::vector<Tensor> tensors;  // spans into `bytes`; `file` is left 0
};

// Parses a whole file that is in memory. `name` is used in messages. Nothing larger than the file is ever allocated.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
Result<GgufContents> parse_gguf(std::span<const std::byte> bytes, const std::string& name);

}  // namespace gale::format
