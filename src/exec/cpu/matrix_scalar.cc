// The portable matrix kernels and panel writer, which define the bits that all instruction sets must give.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "exec/cpu/matrix_kernels.h"
#include "exec/cpu/tile_layout.h"

namespace gale::exec {
namespace {

using format::TensorType;
using tile_detail::load;
using enum TensorType;

// One block of a panel, see matrix_kernels.h.
template <int kColumns>
struct PanelBlock {
  int8_t values[kColumns][32];
  float scale[kColumns], sum[kColumns];
  int32_t half_sum[kColumns][2];
};
static_assert(sizeof(PanelBlock<3>) == 3 * 48);

int dot16(const uint8_t* u, const int8_t* x) {
  int sum = 0;
  for (int i = 0; i < 16; ++i) sum += u[i] * x[i];
  return sum;
}

// Bytes: those of the tile row and the panel. Operations: 2 per value and column.
template <TensorType kType, int kHeight, int kColumns>
void multiply_int8(const std::byte* tile_row, const std::byte* panel, size_t length, float* out) {
  float acc[kColumns][kHeight] = {};
  for (size_t b = 0; b < length / 32; ++b) {
    const auto x = load<PanelBlock<kColumns>>(panel + b * sizeof(PanelBlock<kColumns>));
    for (int r = 0; r < kHeight; ++r) {
      RowBlock w;
      read_row_block<kType>(tile_row, kHeight, b, r, w);
      for (int c = 0; c < kColumns; ++c) {
        int dot[2];
        for (int half = 0; half < 2; ++half) {
          dot[half] = dot16(w.u + 16 * half, x.values[c] + 16 * half) - stored_offset(kType) * x.half_sum[c][half];
          if constexpr (kType == q6_k) dot[half] *= w.half_scale[half];
        }
        float& a = acc[c][r];
        a = std::fma(w.d * x.scale[c], static_cast<float>(dot[0] + dot[1]), a);
        if constexpr (has_minimum(kType)) a = std::fma(w.minimum, x.sum[c], a);
      }
    }
  }
  std::memcpy(out, acc, sizeof acc);
}

template <TensorType kType, int kHeight, int kColumns>
void multiply_float(const std::byte* tile_row, const std::byte* panel, size_t length, float* out) {
  float acc[kColumns][kHeight] = {};
  for (size_t k = 0; k < length; ++k) {
    float x[kColumns];
    std::memcpy(x, panel + k * sizeof x, sizeof x);
    for (int r = 0; r < kHeight; ++r) {
      const float w = read_plain<kType>(tile_row, kHeight, k, r);
      for (int c = 0; c < kColumns; ++c) acc[c][r] = std::fma(w, x[c], acc[c][r]);
    }
  }
  std::memcpy(out, acc, sizeof acc);
}

template <TensorType kType, int kHeight>
MatrixKernel choose_columns(int columns) {
  constexpr auto kTable = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
    if constexpr (is_plain(kType))
      return std::array<MatrixKernel, kMaxKernelColumns>{multiply_float<kType, kHeight, kIndex + 1>...};
    else
      return std::array<MatrixKernel, kMaxKernelColumns>{multiply_int8<kType, kHeight, kIndex + 1>...};
  }
  (std::make_index_sequence<kMaxKernelColumns>());
  return kTable[static_cast<size_t>(columns - 1)];
}

template <int kHeight>
MatrixKernel choose_kernel(TensorType type, int columns) {
  switch (type) {
    case f32:
      return choose_columns<f32, kHeight>(columns);
    case f16:
      return choose_columns<f16, kHeight>(columns);
    case bf16:
      return choose_columns<bf16, kHeight>(columns);
    case q4_0:
      return choose_columns<q4_0, kHeight>(columns);
    case q4_1:
      return choose_columns<q4_1, kHeight>(columns);
    case q5_0:
      return choose_columns<q5_0, kHeight>(columns);
    case q5_1:
      return choose_columns<q5_1, kHeight>(columns);
    case q8_0:
      return choose_columns<q8_0, kHeight>(columns);
    case q4_k:
      return choose_columns<q4_k, kHeight>(columns);
    case q5_k:
      return choose_columns<q5_k, kHeight>(columns);
    case q6_k:
      return choose_columns<q6_k, kHeight>(columns);
    default:
      return nullptr;
  }
}

// To the nearest integer, ties to even: the addition leaves no room for a fraction. |x| < 2^22.
float round_to_even(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  return (x + kShift) - kShift;
}

void write_int8(const float* x, size_t length, int columns, int column, std::byte* panel) {
  const size_t n = static_cast<size_t>(columns), c = static_cast<size_t>(column);
  for (size_t b = 0; b < length / 32; ++b, x += 32) {
    uint32_t largest_bits = 0;  // magnitudes order as integers do, and a NaN is above all of them
    for (int i = 0; i < 32; ++i) largest_bits = std::max(largest_bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffff);
    const float largest = std::bit_cast<float>(largest_bits);
    const bool finite = std::isfinite(largest);
    const float inverse = 127.0f / largest;
    const bool usable = finite && std::isfinite(inverse);

    int8_t values[32] = {};
    int32_t half_sum[2] = {0, 0};
    if (usable) {
      for (int i = 0; i < 32; ++i) {
        values[i] = static_cast<int8_t>(round_to_even(x[i] * inverse));
        half_sum[i / 16] += values[i];
      }
    }
    const float scale = finite && !usable ? 0.0f : largest / 127.0f;
    const float sum = scale * static_cast<float>(half_sum[0] + half_sum[1]);  // NaN if not finite

    std::byte* block = panel + b * n * sizeof(PanelBlock<1>);
    std::memcpy(block + 32 * c, values, sizeof values);
    std::memcpy(block + 32 * n + 4 * c, &scale, sizeof scale);
    std::memcpy(block + 36 * n + 4 * c, &sum, sizeof sum);
    std::memcpy(block + 40 * n + 8 * c, half_sum, sizeof half_sum);
  }
}

void write_float(const float* x, size_t length, int columns, int column, std::byte* panel) {
  for (size_t k = 0; k < length; ++k)
    std::memcpy(panel + (k * static_cast<size_t>(columns) + static_cast<size_t>(column)) * sizeof(float), x + k,
                sizeof(float));
}

PanelWriter choose_writer(PanelKind kind) {
  return kind == PanelKind::int8 ? write_int8 : write_float;
}

}  // namespace

const MatrixKernels& scalar_matrix_kernels() {
  static constexpr MatrixKernels kKernels{Isa::scalar, 8, choose_kernel<8>, choose_writer};
  return kKernels;
}

const MatrixKernels& scalar_matrix_kernels_16() {
  static constexpr MatrixKernels kKernels{Isa::scalar, 16, choose_kernel<16>, choose_writer};
  return kKernels;
}

}  // namespace gale::exec
