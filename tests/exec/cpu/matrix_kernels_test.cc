// Tests of matrix kernels: all instruction sets and tile heights give the same bits, which are the product they should
// be.
#include "exec/cpu/matrix_kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "exec/cpu/kernel_data.h"
#include "exec/cpu/tiles.h"

namespace gale::exec {
namespace {

using namespace testing;

std::vector<const MatrixKernels*> all_kernels() {
  std::vector<const MatrixKernels*> all = {&scalar_matrix_kernels(), &scalar_matrix_kernels_16()};
#if defined(__x86_64__)
  if (detect_isa() >= Isa::avx2) all.push_back(&avx2_matrix_kernels());
  if (detect_isa() >= Isa::avx512) all.push_back(&avx512_matrix_kernels());
#endif
  return all;
}

std::string label(const MatrixKernels& kernels) {
  return fmt::format("{} x {}", name(kernels.isa), kernels.height);
}

using Bytes = std::vector<std::byte>;

Bytes make_panel(const MatrixKernels& kernels, PanelKind kind, const std::vector<std::vector<float>>& columns) {
  const size_t length = columns[0].size();
  Bytes panel(panel_bytes(kind, length, static_cast<int>(columns.size())), std::byte{0xee});
  for (size_t c = 0; c < columns.size(); ++c)
    kernels.panel_writer(kind)(columns[c].data(), length, static_cast<int>(columns.size()), static_cast<int>(c),
                               panel.data());
  return panel;
}

// [columns][rows] of a weight of whole file rows; `panel` may come from any instruction set.
std::vector<float> multiply(const MatrixKernels& kernels, TensorType type, const Bytes& file, size_t rows,
                            size_t length, const Bytes& panel, int columns) {
  const size_t height = kernels.height, row_bytes = file.size() / rows;
  std::vector<float> out(static_cast<size_t>(columns) * rows);
  Bytes tile(tile_row_bytes(type, kernels.height, length));
  std::vector<float> part(height * static_cast<size_t>(columns));
  const MatrixKernel kernel = kernels.kernel(type, columns);
  EXPECT_NE(kernel, nullptr);
  if (kernel == nullptr) return out;
  for (size_t row = 0; row < rows; row += height) {
    const size_t here = std::min(height, rows - row);
    make_tile_row(type, kernels.height, length, file.data() + row * row_bytes, static_cast<uint32_t>(here),
                  tile.data());
    std::fill(part.begin(), part.end(), -1.0f);
    kernel(tile.data(), panel.data(), length, part.data());
    for (size_t c = 0; c < static_cast<size_t>(columns); ++c)
      for (size_t r = 0; r < here; ++r) out[c * rows + row + r] = part[c * height + r];
  }
  return out;
}

void expect_same(const std::vector<float>& expected, const std::vector<float>& got, size_t rows,
                 const std::string& what) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(same_float(expected[i], got[i]))
        << what << ": column " << i / rows << " row " << i % rows << ": " << got[i] << " for " << expected[i];
}

bool is_k_quant(TensorType type) {
  return format::type_info(type)->values_per_block == 256;
}

// Every type, instruction set and column count, with one kind of data.
void expect_all_agree(uint32_t seed, size_t length, size_t rows, Scales scales, Quants quants, Inputs inputs) {
  Rng rng(seed);
  const auto kernels = all_kernels();
  for (const TensorType type : kKernelTypes) {
    if (length % format::type_info(type)->values_per_block != 0) continue;
    const Bytes file = random_weights(rng, type, rows * length, scales, quants);
    std::vector<std::vector<float>> columns(kMaxKernelColumns);
    for (auto& column : columns) column = random_inputs(rng, length, inputs);
    for (int count = 1; count <= kMaxKernelColumns; ++count) {
      const std::vector<std::vector<float>> used(columns.begin(), columns.begin() + count);
      const Bytes panel = make_panel(*kernels[0], panel_kind(type), used);
      const auto expected = multiply(*kernels[0], type, file, rows, length, panel, count);
      for (size_t i = 1; i < kernels.size(); ++i) {
        const std::string what =
            fmt::format("{} {} length {} columns {} scales {} quants {} inputs {} seed {}", label(*kernels[i]),
                        format::type_name(type), length, count, static_cast<int>(scales), static_cast<int>(quants),
                        static_cast<int>(inputs), seed);
        expect_same(expected, multiply(*kernels[i], type, file, rows, length, panel, count), rows, what);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(MatrixKernels, AllAgreeOnEveryLength) {
  uint32_t seed = 100;
  for (const size_t length : {32, 64, 96, 256, 288, 512, 576, 768, 1536, 2048}) {
    expect_all_agree(++seed, length, 19, Scales::ordinary, Quants::random, Inputs::ordinary);
    if (HasFatalFailure()) return;
  }
}

TEST(MatrixKernels, AllAgreeOnAdversarialData) {
  uint32_t seed = 200;
  for (const Scales scales : kAllScales)
    for (const Quants quants : kAllQuants)
      for (const Inputs inputs : kAllInputs) {
        expect_all_agree(++seed, 256, 16, scales, quants, inputs);
        if (HasFatalFailure()) return;
      }
}

TEST(MatrixKernels, AllAgreeOnRandomCases) {
  Rng rng(300);
  const auto pick = [&](const auto& list) { return list[rng() % std::size(list)]; };
  for (int round = 0; round < 40; ++round) {
    const size_t length = rng() % 2 ? 32 * (1 + rng() % 20) : 256 * (1 + rng() % 4);
    expect_all_agree(static_cast<uint32_t>(rng()), length, 1 + rng() % 40, pick(kAllScales), pick(kAllQuants),
                     pick(kAllInputs));
    if (HasFatalFailure()) return;
  }
}

// Any int8 may stand in a panel as far as kernels are concerned, -128 included.
TEST(MatrixKernels, AllAgreeOnAnyPanelBytes) {
  Rng rng(400);
  const auto kernels = all_kernels();
  const size_t length = 256, rows = 16;
  for (const TensorType type : kKernelTypes) {
    if (panel_kind(type) != PanelKind::int8) continue;
    for (const int fill : {-128, 127, 0})
      for (int count = 1; count <= kMaxKernelColumns; ++count) {
        const size_t n = static_cast<size_t>(count);
        const Bytes file =
            random_weights(rng, type, rows * length, Scales::ordinary, fill ? Quants::all_ones : Quants::random);
        Bytes panel(panel_bytes(PanelKind::int8, length, count));
        for (std::byte* block = panel.data(); block < panel.data() + panel.size(); block += 48 * n)
          for (size_t c = 0; c < n; ++c) {
            int32_t half_sum[2] = {0, 0};
            for (size_t i = 0; i < 32; ++i) {
              const int8_t value = static_cast<int8_t>(fill ? fill : static_cast<int>(rng() % 256) - 128);
              std::memcpy(block + 32 * c + i, &value, 1);
              half_sum[i / 16] += value;
            }
            const float scale = 0.01f, sum = scale * static_cast<float>(half_sum[0] + half_sum[1]);
            std::memcpy(block + 32 * n + 4 * c, &scale, 4);
            std::memcpy(block + 36 * n + 4 * c, &sum, 4);
            std::memcpy(block + 40 * n + 8 * c, half_sum, 8);
          }
        const auto expected = multiply(*kernels[0], type, file, rows, length, panel, count);
        for (size_t i = 1; i < kernels.size(); ++i) {
          expect_same(
              expected, multiply(*kernels[i], type, file, rows, length, panel, count), rows,
              fmt::format("{} {} columns {} fill {}", label(*kernels[i]), format::type_name(type), count, fill));
          if (HasFatalFailure()) return;
        }
      }
  }
}

// Against double arithmetic on decoded weights and the values that the panel stands for.
TEST(MatrixKernels, GiveTheProduct) {
  Rng rng(500);
  const size_t rows = 16;
  for (const TensorType type : kKernelTypes)
    for (const size_t length : {256, 768, 2048}) {
      const Bytes file = random_weights(rng, type, rows * length, Scales::ordinary, Quants::random);
      std::vector<float> weights(rows * length);
      ASSERT_TRUE(format::decode(type, file, weights).ok());
      const std::vector<std::vector<float>> columns = {random_inputs(rng, length, Inputs::ordinary),
                                                       random_inputs(rng, length, Inputs::ties),
                                                       random_inputs(rng, length, Inputs::extreme)};
      for (const MatrixKernels* kernels : all_kernels()) {
        const PanelKind kind = panel_kind(type);
        const Bytes panel = make_panel(*kernels, kind, columns);
        const auto got = multiply(*kernels, type, file, rows, length, panel, 3);
        for (size_t c = 0; c < 3; ++c) {
          std::vector<double> x(columns[c].begin(), columns[c].end());
          if (kind == PanelKind::int8)
            for (size_t k = 0; k < length; ++k) {
              const std::byte* block = panel.data() + k / 32 * 3 * 48;
              float scale;
              std::memcpy(&scale, block + 32 * 3 + 4 * c, 4);
              const double value = static_cast<double>(scale) * static_cast<int8_t>(block[32 * c + k % 32]);
              ASSERT_LE(std::abs(value - x[k]), 0.5001 * static_cast<double>(scale));
              x[k] = value;
            }
          for (size_t r = 0; r < rows; ++r) {
            double expected = 0, size = 0, minima = 0;
            for (size_t k = 0; k < length; ++k) {
              expected += static_cast<double>(weights[r * length + k]) * x[k];
              size += std::abs(static_cast<double>(weights[r * length + k]) * x[k]);
              minima += std::abs(x[k]);
            }
            // Each of length / 32 blocks (or length values) adds at most a few roundings of the running sum. A minimum
            // is multiplied by the sum of its block apart from the rest, so terms as large as 0.01 * 63 may cancel.
            const double steps =
                4.0 * (kind == PanelKind::int8 ? static_cast<double>(length) / 32 : static_cast<double>(length));
            const double bound = steps * 6e-8 * (size + 0.7 * (is_k_quant(type) ? minima : 0.02 * minima));
            ASSERT_TRUE(std::abs(static_cast<double>(got[c * rows + r]) - expected) <= bound)
                << label(*kernels) << " " << format::type_name(type) << " length " << length << " column " << c
                << " row " << r << ": " << got[c * rows + r] << " for " << expected;
          }
        }
      }
    }
}

TEST(MatrixKernels, PanelWritersAgree) {
  const auto kernels = all_kernels();
  for (uint32_t seed = 600; seed < 660; ++seed) {
    Rng rng(seed);
    for (const Inputs inputs : kAllInputs)
      for (const PanelKind kind : {PanelKind::int8, PanelKind::float32}) {
        const size_t length = 32 * (1 + rng() % 40);
        std::vector<std::vector<float>> columns(1 + rng() % kMaxKernelColumns);
        for (auto& column : columns) column = random_inputs(rng, length, inputs);
        const Bytes expected = make_panel(*kernels[0], kind, columns);
        for (size_t i = 1; i < kernels.size(); ++i) {
          const Bytes got = make_panel(*kernels[i], kind, columns);
          const size_t block = 48 * columns.size();
          for (size_t at = 0; at < got.size(); at += 4) {
            uint32_t a, b;
            std::memcpy(&a, expected.data() + at, 4);
            std::memcpy(&b, got.data() + at, 4);
            const bool is_float =
                kind == PanelKind::float32 || (at % block >= 32 * columns.size() && at % block < 40 * columns.size());
            ASSERT_TRUE(a == b || (is_float && same_float(std::bit_cast<float>(a), std::bit_cast<float>(b))))
                << label(*kernels[i]) << " kind " << static_cast<int>(kind) << " inputs " << static_cast<int>(inputs)
                << " seed " << seed << " offset " << at % block << " of block " << at / block << " (" << columns.size()
                << " columns)";
          }
        }
      }
  }
}

TEST(MatrixKernels, PanelOfKnownValues) {
  std::vector<float> x(64, 0.0f);
  x[0] = 254.0f, x[1] = 1.0f, x[2] = 3.0f, x[3] = -5.0f,
  x[31] = -254.0f;  // scale 2: 127, 0.5 -> 0, 1.5 -> 2, -2.5 -> -2
  for (const MatrixKernels* kernels : all_kernels()) {
    const Bytes panel = make_panel(*kernels, PanelKind::int8, {x});
    int8_t values[32];
    float scale, sum;
    int32_t half_sum[2];
    std::memcpy(values, panel.data(), 32);
    std::memcpy(&scale, panel.data() + 32, 4);
    std::memcpy(&sum, panel.data() + 36, 4);
    std::memcpy(half_sum, panel.data() + 40, 8);
    EXPECT_EQ(scale, 2.0f) << label(*kernels);
    EXPECT_EQ(values[0], 127);
    EXPECT_EQ(values[1], 0);
    EXPECT_EQ(values[2], 2);
    EXPECT_EQ(values[3], -2);
    EXPECT_EQ(values[31], -127);
    EXPECT_EQ(half_sum[0], 127);
    EXPECT_EQ(half_sum[1], -127);
    EXPECT_EQ(sum, 0.0f);
    for (size_t at = 48; at < 96; ++at) EXPECT_EQ(panel[at], std::byte{0}) << label(*kernels) << " " << at;
  }
}

// An infinity or NaN may not vanish in the quantisation: it would turn a broken activation into a plausible answer.
TEST(MatrixKernels, NonFiniteInputsReachTheResult) {
  Rng rng(700);
  for (const MatrixKernels* kernels : all_kernels())
    for (const TensorType type : kKernelTypes)
      for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
        std::vector<float> x = random_inputs(rng, 512, Inputs::ordinary);
        x[300] = bad;
        const Bytes file = random_weights(rng, type, 16 * 512, Scales::ordinary, Quants::random);
        const auto got = multiply(*kernels, type, file, 16, 512, make_panel(*kernels, panel_kind(type), {x}), 1);
        for (const float value : got)
          EXPECT_FALSE(std::isfinite(value)) << label(*kernels) << " " << format::type_name(type);
      }
}

TEST(MatrixKernels, TablesAreComplete) {
  for (const MatrixKernels* kernels : all_kernels()) {
    EXPECT_TRUE(kernels->height == 8 || kernels->height == 16);
    for (int columns = 1; columns <= kMaxKernelColumns; ++columns) {
      for (const TensorType type : kKernelTypes)
        EXPECT_NE(kernels->kernel(type, columns), nullptr) << label(*kernels) << " " << format::type_name(type);
      for (const TensorType type : {TensorType::iq4_nl, TensorType::q2_k, TensorType::i8, static_cast<TensorType>(999)})
        EXPECT_EQ(kernels->kernel(type, columns), nullptr) << label(*kernels) << " " << format::type_name(type);
    }
  }
  EXPECT_EQ(matrix_kernels(Isa::scalar).isa, Isa::scalar);
  EXPECT_EQ(matrix_kernels(Isa::scalar).height, 8u);
  EXPECT_EQ(panel_bytes(PanelKind::int8, 96, 5), 3u * 5 * 48);
  EXPECT_EQ(panel_bytes(PanelKind::float32, 96, 5), 96u * 5 * 4);
}

}  // namespace
}  // namespace gale::exec
