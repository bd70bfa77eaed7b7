// One decoder per block type: turns the bytes of one block into floats, exactly as the format defines the values.
#pragma once

#include <cstdint>

#include "format/tensor_type.h"

namespace gale::format {

// Reads one block (TypeInfo::bytes_per_block bytes, any alignment) and writes TypeInfo::values_per_block floats.
using BlockDecoder = void (*)(const uint8_t* block, float* out);

// The decoder of a type; null for types that decode() does not know.
BlockDecoder block_decoder(TensorType type);

}  // namespace gale::format
