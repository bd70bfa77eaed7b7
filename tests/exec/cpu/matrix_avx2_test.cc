// Tests of the AVX2 matrix kernels at the edge of their 16-bit sums: largest weights, scales and activations, against
// products counted by hand.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "exec/cpu/matrix_kernels.h"
#include "exec/cpu/tiles.h"

namespace gale::exec {
namespace {

#if defined(__x86_64__)

using format::TensorType;

struct Extreme {
  TensorType type;
  size_t block;    // values
  bool minimum;    // the f16 d[8] are followed by as many minima
  int scale_byte;  // Q6_K: its sixteen 8-bit scales
  long largest;    // a weight with all bits set, without d
};

const Extreme kExtremes[] = {
    {TensorType::q4_0, 32, false, 0, 15 - 8},
    {TensorType::q4_1, 32, true, 0, 15},
    {TensorType::q5_0, 32, false, 0, 31 - 16},
    {TensorType::q5_1, 32, true, 0, 31},
    {TensorType::q8_0, 32, false, 0, 255 - 128},
    {TensorType::q4_k, 256, true, 0, 63L * 15},
    {TensorType::q5_k, 256, true, 0, 63L * 31},
    {TensorType::q6_k, 256, false, -128, -128L * (63 - 32)},
    {TensorType::q6_k, 256, false, 127, 127L * (63 - 32)},
};

// Tiles of one block whose bits are all set, with d = 1 and minimum = 0.
std::vector<std::byte> largest_tile(const Extreme& extreme, size_t length) {
  std::vector<std::byte> tile(tile_row_bytes(extreme.type, 8, length), std::byte{0xff});
  const uint16_t one = 0x3c00, zero = 0;
  const size_t blocks = length / extreme.block, bytes = tile.size() / blocks;
  for (size_t b = 0; b < blocks; ++b) {
    std::byte* p = tile.data() + b * bytes;
    for (size_t r = 0; r < 8; ++r) {
      std::memcpy(p + 2 * r, &one, 2);
      if (extreme.minimum) std::memcpy(p + 16 + 2 * r, &zero, 2);
    }
    if (extreme.scale_byte != 0)
      for (size_t j = 0; j < 8; ++j) std::memset(p + 16 + j * 8 * 26, extreme.scale_byte, 16);
  }
  return tile;
}

TEST(MatrixAvx2, SumsHoldTheLargestProducts) {
  if (detect_isa() < Isa::avx2) GTEST_SKIP() << "this processor has no AVX2";
  for (const Extreme& extreme : kExtremes)
    for (int columns = 1; columns <= kMaxKernelColumns; ++columns) {
      const size_t length = 512, count = static_cast<size_t>(columns);
      const auto tile = largest_tile(extreme, length);
      std::vector<std::byte> panel(panel_bytes(PanelKind::int8, length, columns));
      for (std::byte* block = panel.data(); block < panel.data() + panel.size(); block += 48 * count)
        for (size_t c = 0; c < count; ++c) {
          const int value = c % 2 ? -127 : 127;
          const float scale = 1, sum = static_cast<float>(32 * value);
          const int32_t half_sum[2] = {16 * value, 16 * value};
          std::memset(block + 32 * c, value, 32);
          std::memcpy(block + 32 * count + 4 * c, &scale, 4);
          std::memcpy(block + 36 * count + 4 * c, &sum, 4);
          std::memcpy(block + 40 * count + 8 * c, half_sum, 8);
        }
      std::vector<float> out(8 * count);
      avx2_matrix_kernels().kernel(extreme.type, columns)(tile.data(), panel.data(), length, out.data());
      for (size_t i = 0; i < out.size(); ++i) {
        // Exact as a float: odd factors below 2^24 times powers of two.
        const long expected = extreme.largest * (i / 8 % 2 ? -127 : 127) * static_cast<long>(length);
        EXPECT_EQ(out[i], static_cast<float>(expected))
            << format::type_name(extreme.type) << " scale " << extreme.scale_byte << " columns " << columns
            << " column " << i / 8 << " row " << i % 8;
      }
    }
}

#endif

}  // namespace
}  // namespace gale::exec
