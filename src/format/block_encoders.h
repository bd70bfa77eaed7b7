// One encoder per block type and instruction set; all instruction sets give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/tensor_type.h"

namespace gale::format {

// Reads `blocks` whole blocks of finite values and writes their bytes.
using BlockEncoder = void (*)(const float* values, size_t blocks, uint8_t* out);

// Null for types without an encoder that searches (plain numbers too).
BlockEncoder block_encoder(TensorType type);       // any processor
BlockEncoder block_encoder_avx2(TensorType type);  // compiled for AVX2

}  // namespace gale::format
