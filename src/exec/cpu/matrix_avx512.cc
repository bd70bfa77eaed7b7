// Matrix kernels and panel writer for AVX-512 with VNNI: tiles of 16 rows, each block decoded once for all columns.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms inside gcc 12's own intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "exec/cpu/matrix_kernels.h"

namespace gale::exec {
namespace {

using format::TensorType;
using enum TensorType;

constexpr size_t kHeight = 16;
constexpr size_t kVector = 64;           // bytes of one vector: a 32-bit lane for each row
constexpr size_t kHalves = 2 * kHeight;  // bytes of one half per row
// How far ahead of the block in work memory is asked for, and from how many columns on. With fewer columns a block
// takes less time than its bytes, so that the loads themselves keep the hardware's prefetcher ahead, and requests of
// our own only fill the miss buffers of the first-level cache (one column: 25 instead of 29 GB/s for one Zen 4 core).
// With more, loads come too rarely for it.
constexpr size_t kPrefetchBytes = 4096;
constexpr int kPrefetchColumns = 4;

__m512i load(const std::byte* at) {
  return _mm512_loadu_si512(at);
}
__m512 load_halves(const std::byte* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
__m512i broadcast_int(const std::byte* at) {
  int32_t value;
  std::memcpy(&value, at, sizeof value);
  return _mm512_set1_epi32(value);
}
__m512 broadcast_float(const std::byte* at) {
  float value;
  std::memcpy(&value, at, sizeof value);
  return _mm512_set1_ps(value);
}

// a | (b & mask)
__m512i or_masked(__m512i a, __m512i b, __m512i mask) {
  return _mm512_ternarylogic_epi32(a, b, mask, 0xf8);
}

// Weights of one block of 32 values: byte i of lane r of w[s] is value 4 s + i of row r.
struct Groups {
  __m512i w[8];
};

inline Groups decode_nibbles(const std::byte* at) {
  const __m512i mask = _mm512_set1_epi8(15);
  Groups groups;
  for (size_t g = 0; g < 4; ++g) {
    const __m512i packed = load(at + g * kVector);
    groups.w[2 * g] = _mm512_and_si512(packed, mask);
    groups.w[2 * g + 1] = _mm512_and_si512(_mm512_srli_epi16(packed, 4), mask);
  }
  return groups;
}

inline void add_fifth_bits(Groups& groups, __m512i fifth) {
  const __m512i bit = _mm512_set1_epi8(16);
  for (int s = 0; s < 8; ++s)
    groups.w[s] =
        or_masked(groups.w[s], s <= 4 ? _mm512_slli_epi32(fifth, 4 - s) : _mm512_srli_epi32(fifth, s - 4), bit);
}

// What each type needs of a block (32 values): its groups and factors. A super-block of kParts blocks starts with a
// head.
struct NoHead {
  explicit NoHead(const std::byte*) {}
};

struct Q4_0 {
  static constexpr size_t kParts = 1, kHeadBytes = 0, kPartBytes = 18 * kHeight;
  static constexpr int kOffset = 8;
  static constexpr bool kMinimum = false, kHalfScales = false;
  using Head = NoHead;
  static Groups groups(const std::byte* at) { return decode_nibbles(at + kHalves); }
  static __m512 scale(const Head&, const std::byte* at, size_t) { return load_halves(at); }
};

struct Q4_1 {
  static constexpr size_t kParts = 1, kHeadBytes = 0, kPartBytes = 20 * kHeight;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true, kHalfScales = false;
  using Head = NoHead;
  static Groups groups(const std::byte* at) { return decode_nibbles(at + 2 * kHalves); }
  static __m512 scale(const Head&, const std::byte* at, size_t) { return load_halves(at); }
  static __m512 minimum(const Head&, const std::byte* at, size_t) { return load_halves(at + kHalves); }
};

struct Q5_0 {
  static constexpr size_t kParts = 1, kHeadBytes = 0, kPartBytes = 22 * kHeight;
  static constexpr int kOffset = 16;
  static constexpr bool kMinimum = false, kHalfScales = false;
  using Head = NoHead;
  static Groups groups(const std::byte* at) {
    Groups groups = decode_nibbles(at + kHalves + kVector);
    add_fifth_bits(groups, load(at + kHalves));
    return groups;
  }
  static __m512 scale(const Head&, const std::byte* at, size_t) { return load_halves(at); }
};

struct Q5_1 {
  static constexpr size_t kParts = 1, kHeadBytes = 0, kPartBytes = 24 * kHeight;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true, kHalfScales = false;
  using Head = NoHead;
  static Groups groups(const std::byte* at) {
    Groups groups = decode_nibbles(at + 2 * kHalves + kVector);
    add_fifth_bits(groups, load(at + 2 * kHalves));
    return groups;
  }
  static __m512 scale(const Head&, const std::byte* at, size_t) { return load_halves(at); }
  static __m512 minimum(const Head&, const std::byte* at, size_t) { return load_halves(at + kHalves); }
};

struct Q8_0 {
  static constexpr size_t kParts = 1, kHeadBytes = 0, kPartBytes = 34 * kHeight;
  static constexpr int kOffset = 128;
  static constexpr bool kMinimum = false, kHalfScales = false;
  using Head = NoHead;
  static Groups groups(const std::byte* at) {
    Groups groups;
    for (size_t s = 0; s < 8; ++s) groups.w[s] = load(at + kHalves + s * kVector);
    return groups;
  }
  static __m512 scale(const Head&, const std::byte* at, size_t) { return load_halves(at); }
};

// Scales and minima of the eight sub-blocks, decoded together so that the loop over sub-blocks stays small.
struct KHead {
  __m512 scales[8], minima[8];  // d * sc, -(dmin * mn)
  explicit KHead(const std::byte* at) {
    const __m512i six = _mm512_set1_epi32(63);
    const __m512 d = load_halves(at), dmin = _mm512_sub_ps(_mm512_setzero_ps(), load_halves(at + kHalves));
    __m512i words[3];
    for (size_t w = 0; w < 3; ++w) words[w] = load(at + 2 * kHalves + w * kVector);
    const auto number = [&](int n) {
      return _mm512_cvtepi32_ps(
          _mm512_and_si512(_mm512_srli_epi32(words[n / 5], static_cast<unsigned>(6 * (n % 5))), six));
    };
    const __m512i last = _mm512_or_si512(_mm512_srli_epi32(words[0], 30),
                                         _mm512_or_si512(_mm512_slli_epi32(_mm512_srli_epi32(words[1], 30), 2),
                                                         _mm512_slli_epi32(_mm512_srli_epi32(words[2], 30), 4)));
    for (int j = 0; j < 8; ++j) {
      scales[j] = _mm512_mul_ps(d, number(j));
      minima[j] = _mm512_mul_ps(dmin, j < 7 ? number(8 + j) : _mm512_cvtepi32_ps(last));
    }
  }
};

struct Q4_K {
  static constexpr size_t kParts = 8, kHeadBytes = 16 * kHeight, kPartBytes = 16 * kHeight;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true, kHalfScales = false;
  using Head = KHead;
  static Groups groups(const std::byte* at) { return decode_nibbles(at); }
  static __m512 scale(const Head& head, const std::byte*, size_t part) { return head.scales[part]; }
  static __m512 minimum(const Head& head, const std::byte*, size_t part) { return head.minima[part]; }
};

struct Q5_K {
  static constexpr size_t kParts = 8, kHeadBytes = 16 * kHeight, kPartBytes = 20 * kHeight;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true, kHalfScales = false;
  using Head = KHead;
  static Groups groups(const std::byte* at) {
    Groups groups = decode_nibbles(at + kVector);
    add_fifth_bits(groups, load(at));
    return groups;
  }
  static __m512 scale(const Head& head, const std::byte*, size_t part) { return head.scales[part]; }
  static __m512 minimum(const Head& head, const std::byte*, size_t part) { return head.minima[part]; }
};

struct Q6_K {
  static constexpr size_t kParts = 8, kHeadBytes = 2 * kHeight, kPartBytes = 26 * kHeight;
  static constexpr int kOffset = 32;
  static constexpr bool kMinimum = false, kHalfScales = true;
  struct Head {
    __m512 d;
    explicit Head(const std::byte* at) : d(load_halves(at)) {}
  };
  static Groups groups(const std::byte* at) {
    const __m512i mask = _mm512_set1_epi8(48);
    Groups groups = decode_nibbles(at + 2 * kHeight + 2 * kVector);
    for (size_t half = 0; half < 2; ++half) {
      const __m512i high = load(at + 2 * kHeight + half * kVector);
      __m512i* w = groups.w + 4 * half;
      w[0] = or_masked(w[0], _mm512_slli_epi32(high, 4), mask);
      w[1] = or_masked(w[1], _mm512_slli_epi32(high, 2), mask);
      w[2] = or_masked(w[2], high, mask);
      w[3] = or_masked(w[3], _mm512_srli_epi32(high, 2), mask);
    }
    return groups;
  }
  static __m512 scale(const Head& head, const std::byte*, size_t) { return head.d; }
  // The scale of a half as a float: sums of up to 16 * 128 * 32 times it, and two of those together, are exact in
  // float.
  static __m512 half_scale(const std::byte* at, size_t half) {
    const __m128i scales = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + half * kHeight));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales));
  }
};

// Where the integer sums of a block start: minus the offset of the weights times the sum of the activations.
//
// For one or two columns: 16-bit products of (-offset, 0) with the two halves of the sum, which fits in the lower.
template <class Type, int kColumns>
struct Starts {
  static_assert(kColumns <= 2);
  const std::byte* half_sums;

  __m512i operator()(size_t column, size_t half) const {
    const __m512i offset = _mm512_set1_epi32(-Type::kOffset & 0xffff);
    const std::byte* at = half_sums + 8 * column;
    const __m512i start = _mm512_dpwssd_epi32(_mm512_setzero_si512(), offset, broadcast_int(at + 4 * half));
    return Type::kHalfScales ? start : _mm512_dpwssd_epi32(start, offset, broadcast_int(at + 4));
  }
};

// For more: computed for all at once and sent through memory, from where a broadcast costs no arithmetic.
template <class Type, int kColumns>
requires(kColumns > 2 && Type::kOffset != 0) struct Starts<Type, kColumns> {
  alignas(64) int32_t value[16];  // of column c, from the end: a pair for the block (either) or for its two halves

  explicit Starts(const std::byte* half_sums) {
    // 64 bytes that end with the half sums (and the panel block); what else they hold is not used.
    __m512i sums = load(half_sums + 8 * kColumns - sizeof value);
    if constexpr (!Type::kHalfScales) sums = _mm512_add_epi32(sums, _mm512_shuffle_epi32(sums, _MM_PERM_CDAB));
    constexpr unsigned kShift = std::countr_zero(static_cast<unsigned>(Type::kOffset));
    static_assert(Type::kOffset == 1 << kShift);
    _mm512_store_si512(value, _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sums, kShift)));
    asm("" : "+m"(value));  // or the compiler would turn the broadcasts into permutes
  }
  __m512i operator()(size_t column, size_t half) const {
    return _mm512_set1_epi32(value[16 - 2 * kColumns + 2 * column + half]);
  }
};

template <class Type, int kColumns>
requires(Type::kOffset == 0) struct Starts<Type, kColumns> {
  explicit Starts(const std::byte*) {}
  __m512i operator()(size_t, size_t) const { return _mm512_setzero_si512(); }
};

// Decoded weights of one block times columns kFirst .. kLast - 1 of kColumns.
template <class Type, int kColumns, size_t kFirst, size_t kLast>
[[gnu::always_inline]] inline void multiply_block(const Groups& groups, const Starts<Type, kColumns>& starts, __m512 d,
                                                  __m512 minimum, const std::byte* at, const std::byte* x,
                                                  __m512* acc) {
  constexpr size_t kC = kColumns, kCount = kLast - kFirst, kHalfCount = Type::kHalfScales ? 2 : 1;
  __m512i dot[kHalfCount][kCount];
  for (size_t half = 0; half < kHalfCount; ++half)
    for (size_t c = 0; c < kCount; ++c) dot[half][c] = starts(kFirst + c, half);
  for (size_t s = 0; s < 8; ++s)
    for (size_t c = 0; c < kCount; ++c) {
      __m512i& sum = dot[s * kHalfCount / 8][c];
      sum = _mm512_dpbusd_epi32(sum, groups.w[s], broadcast_int(x + 32 * (kFirst + c) + 4 * s));
    }
  for (size_t c = 0; c < kCount; ++c) {
    __m512 sum = _mm512_cvtepi32_ps(dot[0][c]);
    if constexpr (Type::kHalfScales)
      sum = _mm512_fmadd_ps(Type::half_scale(at, 1), _mm512_cvtepi32_ps(dot[1][c]),
                            _mm512_mul_ps(Type::half_scale(at, 0), sum));
    __m512& a = acc[kFirst + c];
    a = _mm512_fmadd_ps(_mm512_mul_ps(d, broadcast_float(x + 32 * kC + 4 * (kFirst + c))), sum, a);
    if constexpr (Type::kMinimum) a = _mm512_fmadd_ps(minimum, broadcast_float(x + 36 * kC + 4 * (kFirst + c)), a);
  }
}

// Bytes: those of the tile row and the panel. Operations: 2 per value and column.
template <class Type, int kColumns>
void multiply_int8(const std::byte* tile_row, const std::byte* panel, size_t length, float* out) {
  constexpr size_t kC = kColumns;
  // Two sums for each of many columns don't fit in the registers beside the weights: such blocks are taken in two
  // batches.
  constexpr size_t kFirstBatch = Type::kHalfScales && kC > 5 ? (kC + 1) / 2 : kC;
  __m512 acc[kC];
  for (size_t c = 0; c < kC; ++c) acc[c] = _mm512_setzero_ps();
  const std::byte* at = tile_row;
  const std::byte* x = panel;
  for (const std::byte* end = panel + length / 32 * kC * 48; x != end;) {
    const typename Type::Head head(at);
    at += Type::kHeadBytes;
    for (size_t part = 0; part < Type::kParts; ++part, at += Type::kPartBytes, x += kC * 48) {
      if constexpr (kColumns >= kPrefetchColumns) {
        for (size_t line = 0; line < Type::kPartBytes; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(at + kPrefetchBytes + line), _MM_HINT_T0);
      }
      const Starts<Type, kColumns> starts{x + 40 * kC};  // first: gcc keeps nothing in registers across its asm
      const Groups groups = Type::groups(at);
      const __m512 d = Type::scale(head, at, part);
      __m512 minimum = _mm512_setzero_ps();
      if constexpr (Type::kMinimum) minimum = Type::minimum(head, at, part);
      multiply_block<Type, kColumns, 0, kFirstBatch>(groups, starts, d, minimum, at, x, acc);
      if constexpr (kFirstBatch < kC)
        multiply_block<Type, kColumns, kFirstBatch, kC>(groups, starts, d, minimum, at, x, acc);
    }
  }
  for (size_t c = 0; c < kC; ++c) _mm512_storeu_ps(out + kHeight * c, acc[c]);
}

struct F32 {
  static constexpr size_t kBytes = 4 * kHeight;
  static __m512 weights(const std::byte* at) { return _mm512_loadu_ps(at); }
};
struct F16 {
  static constexpr size_t kBytes = 2 * kHeight;
  static __m512 weights(const std::byte* at) { return load_halves(at); }
};
struct Bf16 {
  static constexpr size_t kBytes = 2 * kHeight;
  static __m512 weights(const std::byte* at) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
};

template <class Type, int kColumns>
void multiply_float(const std::byte* tile_row, const std::byte* panel, size_t length, float* out) {
  constexpr size_t kC = kColumns;
  __m512 acc[kC];
  for (size_t c = 0; c < kC; ++c) acc[c] = _mm512_setzero_ps();
  const std::byte* x = panel;
  for (size_t k = 0; k < length; ++k, tile_row += Type::kBytes, x += 4 * kC) {
    if (k % (64 / Type::kBytes) == 0)
      _mm_prefetch(reinterpret_cast<const char*>(tile_row + kPrefetchBytes), _MM_HINT_T0);
    const __m512 w = Type::weights(tile_row);
    for (size_t c = 0; c < kC; ++c) acc[c] = _mm512_fmadd_ps(w, broadcast_float(x + 4 * c), acc[c]);
  }
  for (size_t c = 0; c < kC; ++c) _mm512_storeu_ps(out + kHeight * c, acc[c]);
}

template <class Type>
MatrixKernel choose_int8(int columns) {
  constexpr auto kTable = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<MatrixKernel, kMaxKernelColumns>{multiply_int8<Type, kIndex + 1>...};
  }
  (std::make_index_sequence<kMaxKernelColumns>());
  return kTable[static_cast<size_t>(columns - 1)];
}

template <class Type>
MatrixKernel choose_float(int columns) {
  constexpr auto kTable = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<MatrixKernel, kMaxKernelColumns>{multiply_float<Type, kIndex + 1>...};
  }
  (std::make_index_sequence<kMaxKernelColumns>());
  return kTable[static_cast<size_t>(columns - 1)];
}

MatrixKernel choose_kernel(TensorType type, int columns) {
  switch (type) {
    case f32:
      return choose_float<F32>(columns);
    case f16:
      return choose_float<F16>(columns);
    case bf16:
      return choose_float<Bf16>(columns);
    case q4_0:
      return choose_int8<Q4_0>(columns);
    case q4_1:
      return choose_int8<Q4_1>(columns);
    case q5_0:
      return choose_int8<Q5_0>(columns);
    case q5_1:
      return choose_int8<Q5_1>(columns);
    case q8_0:
      return choose_int8<Q8_0>(columns);
    case q4_k:
      return choose_int8<Q4_K>(columns);
    case q5_k:
      return choose_int8<Q5_K>(columns);
    case q6_k:
      return choose_int8<Q6_K>(columns);
    default:
      return nullptr;
  }
}

__m512i magnitudes(const float* x) {
  return _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(0x7fffffff));
}

// Largest magnitude of each of four blocks. As integers magnitudes order alike, and a NaN is above all of them.
__m128i largest_of_four(const float* x) {
  __m512i m[4];
  for (int i = 0; i < 4; ++i) m[i] = _mm512_max_epu32(magnitudes(x + 32 * i), magnitudes(x + 32 * i + 16));
  const __m512i a = _mm512_max_epu32(_mm512_unpacklo_epi32(m[0], m[1]), _mm512_unpackhi_epi32(m[0], m[1]));
  const __m512i b = _mm512_max_epu32(_mm512_unpacklo_epi32(m[2], m[3]), _mm512_unpackhi_epi32(m[2], m[3]));
  const __m512i c = _mm512_max_epu32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  const __m256i d = _mm256_max_epu32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
  return _mm_max_epu32(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));
}

// 16 values times the factor, to the nearest integers.
__m512i quantise(const float* x, float factor) {
  return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(factor)));
}

// Two blocks: 64 bytes.
__m512i quantise_two(const float* x, const float* factor) {
  const __m512i first = _mm512_packs_epi32(quantise(x, factor[0]), quantise(x + 16, factor[0]));
  const __m512i second = _mm512_packs_epi32(quantise(x + 32, factor[1]), quantise(x + 48, factor[1]));
  // A quarter of the packed vector holds four values each of the first and second halves of both blocks.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, _mm512_packs_epi16(first, second));
}

// Sums of each 16 of 64 int8 values.
__m128i sums_of_16(__m512i values) {
  const __m512i eights = _mm512_sad_epu8(_mm512_xor_si512(values, _mm512_set1_epi8(-128)), _mm512_setzero_si512());
  const __m512i both = _mm512_add_epi32(eights, _mm512_shuffle_epi32(eights, _MM_PERM_BADC));
  const __m128i sums = _mm512_castsi512_si128(
      _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), both));
  return _mm_sub_epi32(sums, _mm_set1_epi32(16 * 128));
}

constexpr size_t kChunk = 16;  // blocks that the panel writer takes through its stages together: their latency is long

// `count` (1 .. kChunk) blocks at `x`, readable up to the next multiple of four, to panel blocks of n columns, column
// c.
void write_chunk(const float* x, size_t count, size_t n, size_t c, std::byte* panel) {
  alignas(64) uint32_t bits[kChunk] = {};
  for (size_t i = 0; i < count; i += 4)
    _mm_store_si128(reinterpret_cast<__m128i*>(bits + i), largest_of_four(x + 32 * i));

  alignas(64) float factors[kChunk], scales[kChunk], sums[kChunk];
  alignas(64) int32_t half_sums[kChunk][2] = {};
  const __m512i infinity = _mm512_set1_epi32(0x7f800000), max_bits = _mm512_load_si512(bits);
  const __m512 max = _mm512_castsi512_ps(max_bits), limit = _mm512_set1_ps(127.0f);
  const __m512 inverse = _mm512_div_ps(limit, max);
  const __mmask16 finite = _mm512_cmplt_epu32_mask(max_bits, infinity);
  const __mmask16 usable = _mm512_mask_cmplt_epu32_mask(finite, _mm512_castps_si512(inverse), infinity);
  // 0 for blocks that count as zero; what is not finite stays so.
  const __m512 scale = _mm512_maskz_div_ps(static_cast<__mmask16>(usable | ~finite), max, limit);
  _mm512_store_ps(factors, _mm512_maskz_mov_ps(usable, inverse));
  _mm512_store_ps(scales, scale);

  float clean[kChunk * 32];
  if (finite != 0xffff) [[unlikely]] {
    for (size_t i = 0; i < round_up<size_t>(count, 4) * 32; ++i) clean[i] = finite >> (i / 32) & 1 ? x[i] : 0.0f;
    x = clean;
  }
  for (size_t i = 0; i < count; i += 2) {
    const __m512i values = quantise_two(x + 32 * i, factors + i);
    std::byte* to = panel + i * n * 48 + 32 * c;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(values));
    if (i + 1 < count)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + n * 48), _mm512_extracti64x4_epi64(values, 1));
    _mm_store_si128(reinterpret_cast<__m128i*>(half_sums[i]), sums_of_16(values));
  }

  const __m512i first = _mm512_load_si512(half_sums), second = _mm512_load_si512(half_sums + kChunk / 2);
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  const __m512i total =
      _mm512_add_epi32(_mm512_permutex2var_epi32(first, even, second), _mm512_permutex2var_epi32(first, odd, second));
  _mm512_store_ps(sums, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(total)));
  for (size_t i = 0; i < count; ++i, panel += n * 48) {
    std::memcpy(panel + 32 * n + 4 * c, scales + i, 4);
    std::memcpy(panel + 36 * n + 4 * c, sums + i, 4);
    std::memcpy(panel + 40 * n + 8 * c, half_sums + i, 8);
  }
}

void write_int8(const float* x, size_t length, int columns, int column, std::byte* panel) {
  const size_t n = static_cast<size_t>(columns), c = static_cast<size_t>(column);
  size_t blocks = length / 32;
  for (; blocks >= kChunk; blocks -= kChunk, x += kChunk * 32, panel += kChunk * n * 48)
    write_chunk(x, kChunk, n, c, panel);
  if (blocks % 4 == 0) {
    if (blocks > 0) write_chunk(x, blocks, n, c, panel);
    return;
  }
  float rest[kChunk * 32] = {};
  std::memcpy(rest, x, blocks * 32 * sizeof(float));
  write_chunk(rest, blocks, n, c, panel);
}

void write_float(const float* x, size_t length, int columns, int column, std::byte* panel) {
  const size_t n = static_cast<size_t>(columns);
  if (n == 1) {
    std::memcpy(panel, x, length * sizeof(float));
    return;
  }
  std::byte* to = panel + static_cast<size_t>(column) * sizeof(float);
  for (size_t k = 0; k < length; ++k, to += n * sizeof(float)) std::memcpy(to, x + k, sizeof(float));
}

PanelWriter choose_writer(PanelKind kind) {
  return kind == PanelKind::int8 ? write_int8 : write_float;
}

}  // namespace

const MatrixKernels& avx512_matrix_kernels() {
  static constexpr MatrixKernels kKernels{Isa::avx512, kHeight, choose_kernel, choose_writer};
  return kKernels;
}

}  // namespace gale::exec
