// Tests of tiles: plain and vector writers give the same bytes, and reading a tile gives back what the file says.
#include "exec/cpu/tiles.h"

#include <gtest/gtest.h>

#include "base/cpu.h"
#include "exec/cpu/kernel_data.h"
#include "exec/cpu/tile_writers.h"

namespace gale::exec {
namespace {

using namespace testing;

TEST(Tiles, KnowTypesAndSizes) {
  for (const TensorType type : kKernelTypes) {
    EXPECT_TRUE(has_matrix_kernel(type)) << format::type_name(type);
    for (const uint32_t height : {8u, 16u})
      EXPECT_EQ(tile_row_bytes(type, height, 512), height * *format::bytes_of(type, 512)) << format::type_name(type);
  }
  for (const TensorType type : {TensorType::q2_k, TensorType::q3_k, TensorType::iq4_nl, TensorType::i32,
                                TensorType::mxfp4, static_cast<TensorType>(999)})
    EXPECT_FALSE(has_matrix_kernel(type)) << format::type_name(type);
}

TEST(Tiles, DecodeToWhatTheFileSays) {
  Rng rng(1);
  for (const TensorType type : kKernelTypes)
    for (const uint32_t height : {8u, 16u})
      for (const Scales scales : kAllScales)
        for (const Quants quants : kAllQuants) {
          const size_t length = 768;
          const auto file = random_weights(rng, type, height * length, scales, quants);
          std::vector<float> expected(height * length), got(length);
          ASSERT_TRUE(format::decode(type, file, expected).ok());
          std::vector<std::byte> tile(tile_row_bytes(type, height, length));
          make_tile_row(type, height, length, file.data(), height, tile.data());
          for (uint32_t row = 0; row < height; ++row) {
            decode_tile_row(type, height, length, tile.data(), row, got.data());
            for (size_t k = 0; k < length; ++k)
              ASSERT_TRUE(same_float(got[k], expected[row * length + k]) ||
                          (got[k] == 0 && expected[row * length + k] == 0))
                  << format::type_name(type) << " height " << height << " row " << row << " value " << k << ": "
                  << got[k] << " for " << expected[row * length + k];
          }
        }
}

// The tile layout is a contract between files: one hand-made case of each piece.
TEST(Tiles, LayoutOfNibblesAndFifthBits) {
  std::vector<std::byte> file(8 * 22, std::byte{0});  // 8 rows of one Q5_0 block
  std::byte* row3 = file.data() + 3 * 22;
  row3[2] = std::byte{1 << 6};    // fifth bit of value 6
  row3[6 + 6] = std::byte{0xa5};  // value 6: low nibble 5; value 22: 10
  std::vector<std::byte> tile(8 * 22, std::byte{0xee});
  make_tile_row(TensorType::q5_0, 8, 32, file.data(), 8, tile.data());
  std::vector<std::byte> expected(8 * 22, std::byte{0});
  expected[2 * 8 + 4 * 3 + 2] = std::byte{1 << 1};          // value 6 = 4 s + i with s = 1, i = 2
  expected[6 * 8 + 4 * 3 + 2] = std::byte{0x50};            // 6 = 8 g + 4 + i: group 0, byte 2, high nibble
  expected[6 * 8 + 2 * 32 + 4 * 3 + 2] |= std::byte{0xa0};  // 22 = 16 + 4 + 2: group 2, byte 2, high nibble
  EXPECT_EQ(tile, expected);
}

TEST(Tiles, RowsPastTheEndAreZero) {
  Rng rng(2);
  for (const TensorType type : kKernelTypes)
    for (const uint32_t height : {8u, 16u})
      for (uint32_t rows = 1; rows < height; ++rows) {
        const auto file = random_weights(rng, type, rows * 256, Scales::ordinary, Quants::random);
        std::vector<std::byte> tile(tile_row_bytes(type, height, 256), std::byte{0xee});
        make_tile_row(type, height, 256, file.data(), rows, tile.data());
        std::vector<float> expected(rows * 256), got(256);
        ASSERT_TRUE(format::decode(type, file, expected).ok());
        for (uint32_t row = 0; row < height; ++row) {
          decode_tile_row(type, height, 256, tile.data(), row, got.data());
          for (size_t k = 0; k < 256; ++k)
            ASSERT_EQ(got[k], row < rows ? expected[row * 256 + k] : 0.0f) << format::type_name(type) << " row " << row;
        }
      }
}

#if defined(__x86_64__)
TEST(Tiles, WritersAgree) {
  if (detect_isa() < Isa::avx2) GTEST_SKIP() << "no AVX2";
  Rng rng(3);
  for (const TensorType type : kKernelTypes)
    for (const uint32_t height : {8u, 16u})
      for (uint32_t rows = 1; rows <= height; ++rows)
        for (const size_t blocks : {1, 2, 3, 7, 9}) {
          const size_t length = blocks * format::type_info(type)->values_per_block;
          auto file = random_weights(rng, type, rows * length, Scales::ordinary, Quants::random);
          for (auto& byte : file) byte = static_cast<std::byte>(rng());
          const size_t bytes = tile_row_bytes(type, height, length);
          std::vector<std::byte> plain(bytes + 64, std::byte{0xee}), vector(bytes + 64, std::byte{0xee});
          make_tile_row_scalar(type, height, length, file.data(), rows, plain.data());
          make_tile_row_avx2(type, height, length, file.data(), rows, vector.data());
          ASSERT_EQ(plain, vector) << format::type_name(type) << " height " << height << " rows " << rows << " length "
                                   << length;
        }
}
#endif

}  // namespace
}  // namespace gale::exec
