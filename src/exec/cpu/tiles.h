// Weights re-tiled so that each row owns one 32-bit lane of a vector: one load and decode feeds all columns, no sum
// crosses lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "format/tensor_type.h"

namespace gale::exec {

// A *tile row* holds `height` rows (8 or 16) of a weight over their whole length, block after block; every quantised
// type takes exactly the bytes that the same rows take in the file. Inside a block of 32 values (K quants: 8 such
// blocks behind their common head), with H = height, r = row in the tile and everything little endian:
//
//   Q4_0   f16 d[H] | nibbles
//   Q4_1   f16 d[H] | f16 m[H] | nibbles
//   Q5_0   f16 d[H] | u32 fifth[H] | nibbles
//   Q5_1   f16 d[H] | f16 m[H] | u32 fifth[H] | nibbles
//   Q8_0   f16 d[H] | u8 value + 128: [8 groups of 4 values][H][4]
//   Q4_K   f16 d[H] | f16 dmin[H] | u32 six[3][H] | 8 x nibbles
//   Q5_K   f16 d[H] | f16 dmin[H] | u32 six[3][H] | 8 x (u32 fifth[H] | nibbles)
//   Q6_K   f16 d[H] | 8 x (i8 scale[2][H] | u32 high[2][H] | nibbles)
//   F32    f32 [k][H]       F16, BF16   u16 [k][H]
//
//   nibbles: [4 groups g][H][4 bytes i]: low nibble = value 8 g + i, high nibble = value 8 g + 4 + i
//   fifth:   bit 8 i + s of the lane = fifth bit of value 4 s + i
//   high[h]: bits 8 i + 2 s and + 1 of the lane = bits 4 and 5 of value 16 h + 4 s + i
//   six:     number n (scale of sub-block j: n = j; its minimum: n = 8 + j) in word n / 5 at shift 6 (n % 5); number 15
//            in bits 30-31 of the three words, low bits first
//
// Rows past the end of the weight are zero.

// Whether there are kernels for a type: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K F16 BF16 F32.
bool has_matrix_kernel(format::TensorType type);

// Bytes of one tile row. `row_length` is a multiple of the type's block.
size_t tile_row_bytes(format::TensorType type, uint32_t height, size_t row_length);

// Re-tiles `rows` (1 .. height) consecutive rows as they stand in the file into one tile row.
void make_tile_row(format::TensorType type, uint32_t height, size_t row_length, const std::byte* file_rows,
                   uint32_t rows, std::byte* tile_row);

// Decodes row `row` of a tile row to floats [row_length], with the values of format::decode (used by embeddings).
void decode_tile_row(format::TensorType type, uint32_t height, size_t row_length, const std::byte* tile_row,
                     uint32_t row, float* out);

}  // namespace gale::exec
