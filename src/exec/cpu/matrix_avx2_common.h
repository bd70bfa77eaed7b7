// What the AVX2 matrix kernels share: the walk of 8 decoded weight vectors over the columns of a panel. Only for
// *_avx2.cc.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "exec/cpu/matrix_kernels.h"

namespace gale::exec {

// The K quants live in a file of their own. Null for other types.
MatrixKernel avx2_k_kernel(format::TensorType type, int columns);

// Internal linkage, so that no other translation unit can end up calling code compiled for AVX2.
namespace {

constexpr size_t kHeight = 8;  // rows of a tile: one per 32-bit lane
constexpr size_t kBlock = 32;  // values

template <int C>
struct PanelBlock {
  int8_t values[C][kBlock];
  float scale[C], sum[C];
  int32_t half_sum[C][2];
};
static_assert(sizeof(PanelBlock<3>) == 3 * 48);

// Accumulators of more columns live in memory: 8 weight vectors, the accumulators and the sums don't fit 16 registers.
constexpr int kRegisterColumns = 4;

// 8 vectors hold the weights of a block: byte 4 r + i of weights[s] is value 4 s + i of row r, without its offset.
using Weights = __m256i[8];

inline __m256i load(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline __m256 load_halves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// The four activations 4 s .. 4 s + 3 in every lane.
inline __m256i four(const int8_t* values, int s) {
  int32_t packed;
  std::memcpy(&packed, values + 4 * s, sizeof packed);
  return _mm256_set1_epi32(packed);
}

// Far enough ahead to hide DRAM behind some ten tiles; what lies there is the next tile row of the same thread.
template <size_t kBytes>
inline void prefetch(const std::byte* p) {
  constexpr size_t kAhead = 1280;
  for (size_t i = 0; i < kBytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p) + kAhead + i, _MM_HINT_T0);
}

inline void decode_nibbles(const std::byte* p, Weights weights) {
  const __m256i low = _mm256_set1_epi8(15);
  for (int g = 0; g < 4; ++g) {
    const __m256i packed = load(p + 32 * g);
    weights[2 * g] = _mm256_and_si256(packed, low);
    weights[2 * g + 1] = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low);
  }
}

// Bit 8 i + s of a lane becomes bit 4 of byte i.
template <int s>
inline __m256i fifth_bit(__m256i fifth) {
  const __m256i moved = s <= 4 ? _mm256_slli_epi32(fifth, 4 - s) : _mm256_srli_epi32(fifth, s - 4);
  return _mm256_and_si256(moved, _mm256_set1_epi8(16));
}

inline void decode_five_bits(const std::byte* fifth_bits, const std::byte* nibbles, Weights weights) {
  decode_nibbles(nibbles, weights);
  const __m256i fifth = load(fifth_bits);
  [&]<int... s>(std::integer_sequence<int, s...>) {
    ((weights[s] = _mm256_or_si256(weights[s], fifth_bit<s>(fifth))), ...);
  }
  (std::make_integer_sequence<int, 8>());
}

// Weights up to 15: 16-bit sums hold 8 products, 8 x 15 x 127 x 2 = 30,480.
inline __m256i dot_four_bits(const Weights weights, const int8_t* x) {
  __m256i even = _mm256_maddubs_epi16(weights[0], four(x, 0)), odd = _mm256_maddubs_epi16(weights[1], four(x, 1));
  for (int s = 2; s < 8; s += 2) {
    even = _mm256_add_epi16(even, _mm256_maddubs_epi16(weights[s], four(x, s)));
    odd = _mm256_add_epi16(odd, _mm256_maddubs_epi16(weights[s + 1], four(x, s + 1)));
  }
  return _mm256_madd_epi16(_mm256_add_epi16(even, odd), _mm256_set1_epi16(1));
}

// Weights up to 31: 16-bit sums hold 4 products, 4 x 31 x 127 x 2 = 31,496.
inline __m256i dot_five_bits(const Weights weights, const int8_t* x) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i even = _mm256_maddubs_epi16(weights[0], four(x, 0)), odd = _mm256_maddubs_epi16(weights[1], four(x, 1));
  for (int s = 2; s < 8; s += 2) {
    even = _mm256_add_epi16(even, _mm256_maddubs_epi16(weights[s], four(x, s)));
    odd = _mm256_add_epi16(odd, _mm256_maddubs_epi16(weights[s + 1], four(x, s + 1)));
  }
  return _mm256_add_epi32(_mm256_madd_epi16(even, ones), _mm256_madd_epi16(odd, ones));
}

// S0 + S1 of a column in every lane.
inline __m256i whole_sum(const int32_t half_sum[2]) {
  return _mm256_add_epi32(_mm256_set1_epi32(half_sum[0]), _mm256_set1_epi32(half_sum[1]));
}

// One pass over a tile row. Type describes the quantisation: Type::Head is what kBlocks blocks have in common (decoded
// from the kHeadBytes in front of them), Type::Block one block of 32 values, decoded once for all columns.
template <class Type, int C>
struct QuantisedKernel {
  static void run(const std::byte* tile, const std::byte* panel, size_t length, float* out) {
    auto* x = reinterpret_cast<const PanelBlock<C>*>(panel);
    __m256 acc[C];
    for (int c = 0; c < C; ++c) acc[c] = _mm256_setzero_ps();
    for (const PanelBlock<C>* end = x + length / kBlock; x < end;) {
      const typename Type::Head head(tile);
      tile += Type::kHeadBytes;
      for (int j = 0; j < Type::kBlocks; ++j, tile += Type::kBlockBytes, ++x) {
        prefetch<Type::kBlockBytes>(tile);
        const typename Type::Block block(tile, head, j);
        if constexpr (C <= kRegisterColumns) {
          [&]<int... c>(std::integer_sequence<int, c...>) {
            ((acc[c] = block.add(acc[c], x->values[c], x->scale[c], x->sum[c], x->half_sum[c])), ...);
          }
          (std::make_integer_sequence<int, C>());
        } else {
#pragma GCC unroll 1
          for (int c = 0; c < C; ++c) acc[c] = block.add(acc[c], x->values[c], x->scale[c], x->sum[c], x->half_sum[c]);
        }
      }
    }
    for (int c = 0; c < C; ++c) _mm256_storeu_ps(out + kHeight * c, acc[c]);
  }
};

template <class Type, template <class, int> class Kernel>
MatrixKernel for_columns(int columns) {
  static constexpr MatrixKernel kTable[kMaxKernelColumns] = {
      Kernel<Type, 1>::run, Kernel<Type, 2>::run, Kernel<Type, 3>::run, Kernel<Type, 4>::run,
      Kernel<Type, 5>::run, Kernel<Type, 6>::run, Kernel<Type, 7>::run, Kernel<Type, 8>::run};
  return columns >= 1 && columns <= kMaxKernelColumns ? kTable[columns - 1] : nullptr;
}

}  // namespace
}  // namespace gale::exec
