// The two ways to re-tile rows, which give the same bytes; make_tile_row chooses one by the processor.
#pragma once

#include "exec/cpu/tiles.h"

namespace gale::exec {

void make_tile_row_scalar(format::TensorType type, uint32_t height, size_t row_length, const std::byte* file_rows,
                          uint32_t rows, std::byte* tile_row);
#if defined(__x86_64__)
// Needs AVX2 and BMI2.
void make_tile_row_avx2(format::TensorType type, uint32_t height, size_t row_length, const std::byte* file_rows,
                        uint32_t rows, std::byte* tile_row);
#endif

// `static`: a copy of its own for each instruction set. The 16 six-bit numbers of a K quant (8 scales, then 8 minima)
// from the 12 bytes in the file to the three words of tiles.h.
struct SixWords {
  uint32_t word[3];
};
static inline SixWords repack_six(uint32_t a, uint32_t b, uint32_t c) {
  // Four bytes with a number each to 24 bits.
  const auto squeeze = [](uint32_t x) {
    return (x & 63) | (x >> 2 & 63u << 6) | (x >> 4 & 63u << 12) | (x >> 6 & 63u << 18);
  };
  const uint32_t p0 = squeeze(a), p1 = squeeze((c & 0x0f0f0f0f) | (a >> 2 & 0x30303030));
  const uint32_t p2 = squeeze(b), p3 = squeeze((c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030));
  const uint32_t last = p3 >> 18;
  return {{p0 | (p1 & 63) << 24 | last << 30,                      // numbers 0-4
           p1 >> 6 | (p2 & 0xfff) << 18 | (last >> 2) << 30,       // 5-9
           p2 >> 12 | (p3 & 0x3ffff) << 12 | (last >> 4) << 30}};  // 10-14
}

}  // namespace gale::exec
