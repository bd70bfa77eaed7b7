// What the AVX2 matrix kernels share: the walk of 8 decoded weight vectors over the columns of a panel. Only for
// *_avx2.cc.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
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

using Values = int8_t[kBlock];

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

// Calls f with the constants 0 .. n - 1.
template <int n, class F>
[[gnu::always_inline]] inline void unrolled(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, n>());
}

// Keeps the compiler from finishing one column before it starts the next: weights in two registers and one running sum
// per column is the order that fits the registers and the out-of-order window; it costs no instruction.
inline void pin(__m256i& sum) {
  asm volatile("" : "+x"(sum));
}

// Makes the compiler read a value back from where it stands, instead of holding it in one of the 16 registers or
// recomputing it.
template <class T>
inline void keep_in_memory(T& value) {
  asm volatile("" : "+m"(value));
}

// Weights of eight values 8 g + 4 h + i: byte 4 r + i of half h is that of row r, without its offset.
struct Group {
  __m256i first, second;
};

inline Group nibble_group(const std::byte* nibbles, int g) {
  const __m256i low = _mm256_set1_epi8(15), packed = load(nibbles + 32 * g);
  return {_mm256_and_si256(packed, low), _mm256_and_si256(_mm256_srli_epi16(packed, 4), low)};
}

// Bit 8 i + s of a lane becomes bit 4 of byte i.
template <int s>
inline __m256i fifth_bit(__m256i fifth) {
  const __m256i moved =
      s <= 4 ? _mm256_slli_epi32(fifth, s <= 4 ? 4 - s : 0) : _mm256_srli_epi32(fifth, s > 4 ? s - 4 : 0);
  return _mm256_and_si256(moved, _mm256_set1_epi8(16));
}

// 16-bit sums of pairs of products.
inline __m256i multiply(const Group& weights, const int8_t* x) {
  return _mm256_add_epi16(_mm256_maddubs_epi16(weights.first, four(x, 0)),
                          _mm256_maddubs_epi16(weights.second, four(x, 1)));
}

// u.x of N columns. Weights up to 15: 16-bit sums hold 8 products, 8 x 15 x 127 x 2 = 30,480.
template <int N>
[[gnu::always_inline]] inline void dots_four_bits(const std::byte* nibbles, const Values* x, __m256i* dots) {
  unrolled<4>([&](auto g) __attribute__((always_inline)) {
    const Group weights = nibble_group(nibbles, g);
    unrolled<N>([&](auto c) __attribute__((always_inline)) {
      const __m256i product = multiply(weights, x[c] + 8 * g);
      dots[c] = g ? _mm256_add_epi16(dots[c], product) : product;
      pin(dots[c]);
    });
  });
  for (int c = 0; c < N; ++c) dots[c] = _mm256_madd_epi16(dots[c], _mm256_set1_epi16(1));
}

// Weights up to 31: 16-bit sums hold 4 products, 4 x 31 x 127 x 2 = 31,496. The sums of the first half wait in memory.
template <int N>
[[gnu::always_inline]] inline void dots_five_bits(const std::byte* fifth_bits, const std::byte* nibbles,
                                                  const Values* x, __m256i* dots) {
  const __m256i ones = _mm256_set1_epi16(1), fifth = load(fifth_bits);
  __m256i sums[N];
  unrolled<4>([&](auto g) __attribute__((always_inline)) {
    Group weights = nibble_group(nibbles, g);
    weights.first = _mm256_or_si256(weights.first, fifth_bit<2 * g>(fifth));
    weights.second = _mm256_or_si256(weights.second, fifth_bit<2 * g + 1>(fifth));
    unrolled<N>([&](auto c) __attribute__((always_inline)) {
      const __m256i product = multiply(weights, x[c] + 8 * g);
      sums[c] = g % 2 ? _mm256_add_epi16(sums[c], product) : product;
      pin(sums[c]);
      if constexpr (g == 1) {
        dots[c] = sums[c];
        if constexpr (N > 4) keep_in_memory(dots[c]);
      }
    });
  });
  for (int c = 0; c < N; ++c)
    dots[c] = _mm256_add_epi32(_mm256_madd_epi16(dots[c], ones), _mm256_madd_epi16(sums[c], ones));
}

// S0 + S1: what types with an offset subtract, times the offset. They add its negative: clang turns the subtraction of
// a broadcast into a slower negation before it.
inline int32_t whole_sum(const int32_t half_sum[2]) {
  return half_sum[0] + half_sum[1];
}

// One pass over a tile row. Type describes the quantisation: Type::Head is what kBlocks blocks have in common (decoded
// from the kHeadBytes in front of them), Type::Block one block of 32 values. Its dots<N>() are the integers of N
// columns (at most kTogether: what fits the registers), its add() finishes a column, with what its offset() makes of
// the half sums.
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
        // One column takes about as long as its bytes: the hardware's own prefetcher keeps up, and requests would only
        // fill the miss buffers (24 instead of 28 GB/s for one Zen 4 core).
        if constexpr (C > 1) prefetch<Type::kBlockBytes>(tile);
        // Integer units have nothing else to do; from memory the broadcast is free.
        int32_t offsets[C];
        for (int c = 0; c < C; ++c) {
          offsets[c] = Type::Block::offset(x->half_sum[c]);
          if constexpr (Type::kOffset) keep_in_memory(offsets[c]);
        }
        add<0>(typename Type::Block(tile, head, j), *x, offsets, acc);
      }
    }
    for (int c = 0; c < C; ++c) _mm256_storeu_ps(out + kHeight * c, acc[c]);
  }

 private:
  // Columns kFirst and up, in the fewest passes and evenly spread over them.
  template <int kFirst>
  [[gnu::always_inline]] static void add(const typename Type::Block& block, const PanelBlock<C>& x,
                                         const int32_t* offsets, __m256* acc) {
    constexpr int kLeft = C - kFirst, kPasses = (kLeft + Type::kTogether - 1) / Type::kTogether;
    constexpr int N = (kLeft + kPasses - 1) / kPasses;
    __m256i dots[N];
    block.template dots<N>(x.values + kFirst, dots);
    unrolled<N>([&](auto i) __attribute__((always_inline)) {
      constexpr int c = kFirst + i;
      acc[c] = block.add(acc[c], dots[i], x.scale[c], x.sum[c], offsets[c]);
      if constexpr (C > Type::kRegisterColumns) keep_in_memory(acc[c]);
    });
    if constexpr (kFirst + N < C) add<kFirst + N>(block, x, offsets, acc);
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
