// Matrix kernels for AVX2: tiles of 8 rows, products by maddubs with 16-bit sums; the block quants, plain floats and
// the panel writers.
#include <algorithm>
#include <cstring>
#include <limits>

#include "exec/cpu/matrix_avx2_common.h"

namespace gale::exec {
namespace {

using format::TensorType;

struct NoHead {
  explicit NoHead(const std::byte*) {}
};

struct Q4_0 {
  using Head = NoHead;
  static constexpr int kBlocks = 1, kTogether = 8, kRegisterColumns = 6;
  static constexpr bool kOffset = true;
  static constexpr size_t kHeadBytes = 0, kBlockBytes = kHeight * 18;
  struct Block {
    const std::byte* p;
    Block(const std::byte* p, const Head&, int) : p(p) {}
    template <int N>
    [[gnu::always_inline]] void dots(const Values* x, __m256i* dots) const {
      dots_four_bits<N>(p + 2 * kHeight, x, dots);
    }
    static int32_t offset(const int32_t half_sum[2]) { return -8 * whole_sum(half_sum); }
    [[gnu::always_inline]] __m256 add(__m256 acc, __m256i dot, float scale, float, int32_t offset) const {
      dot = _mm256_add_epi32(dot, _mm256_set1_epi32(offset));
      return _mm256_fmadd_ps(_mm256_mul_ps(load_halves(p), _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(dot), acc);
    }
  };
};

struct Q4_1 {
  using Head = NoHead;
  static constexpr int kBlocks = 1, kTogether = 8, kRegisterColumns = 6;
  static constexpr bool kOffset = false;
  static constexpr size_t kHeadBytes = 0, kBlockBytes = kHeight * 20;
  struct Block {
    const std::byte* p;
    Block(const std::byte* p, const Head&, int) : p(p) {}
    template <int N>
    [[gnu::always_inline]] void dots(const Values* x, __m256i* dots) const {
      dots_four_bits<N>(p + 4 * kHeight, x, dots);
    }
    static int32_t offset(const int32_t*) { return 0; }
    [[gnu::always_inline]] __m256 add(__m256 acc, __m256i dot, float scale, float sum, int32_t) const {
      acc = _mm256_fmadd_ps(_mm256_mul_ps(load_halves(p), _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(dot), acc);
      return _mm256_fmadd_ps(load_halves(p + 2 * kHeight), _mm256_set1_ps(sum), acc);
    }
  };
};

struct Q5_0 {
  using Head = NoHead;
  static constexpr int kBlocks = 1, kTogether = 8, kRegisterColumns = 6;
  static constexpr bool kOffset = true;
  static constexpr size_t kHeadBytes = 0, kBlockBytes = kHeight * 22;
  struct Block {
    const std::byte* p;
    Block(const std::byte* p, const Head&, int) : p(p) {}
    template <int N>
    [[gnu::always_inline]] void dots(const Values* x, __m256i* dots) const {
      dots_five_bits<N>(p + 2 * kHeight, p + 6 * kHeight, x, dots);
    }
    static int32_t offset(const int32_t half_sum[2]) { return -16 * whole_sum(half_sum); }
    [[gnu::always_inline]] __m256 add(__m256 acc, __m256i dot, float scale, float, int32_t offset) const {
      dot = _mm256_add_epi32(dot, _mm256_set1_epi32(offset));
      return _mm256_fmadd_ps(_mm256_mul_ps(load_halves(p), _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(dot), acc);
    }
  };
};

struct Q5_1 {
  using Head = NoHead;
  static constexpr int kBlocks = 1, kTogether = 8, kRegisterColumns = 6;
  static constexpr bool kOffset = false;
  static constexpr size_t kHeadBytes = 0, kBlockBytes = kHeight * 24;
  struct Block {
    const std::byte* p;
    Block(const std::byte* p, const Head&, int) : p(p) {}
    template <int N>
    [[gnu::always_inline]] void dots(const Values* x, __m256i* dots) const {
      dots_five_bits<N>(p + 4 * kHeight, p + 8 * kHeight, x, dots);
    }
    static int32_t offset(const int32_t*) { return 0; }
    [[gnu::always_inline]] __m256 add(__m256 acc, __m256i dot, float scale, float sum, int32_t) const {
      acc = _mm256_fmadd_ps(_mm256_mul_ps(load_halves(p), _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(dot), acc);
      return _mm256_fmadd_ps(load_halves(p + 2 * kHeight), _mm256_set1_ps(sum), acc);
    }
  };
};

// Bytes 0 .. 255 are split into two nibbles, so that 16-bit sums hold all 8 products of each.
struct Q8_0 {
  using Head = NoHead;
  static constexpr int kBlocks = 1, kTogether = 4, kRegisterColumns = 2;
  static constexpr bool kOffset = true;
  static constexpr size_t kHeadBytes = 0, kBlockBytes = kHeight * 34;
  struct Block {
    const std::byte* p;
    Block(const std::byte* p, const Head&, int) : p(p) {}
    template <int N>
    [[gnu::always_inline]] void dots(const Values* x, __m256i* dots) const {
      __m256i low[N], high[N];
      unrolled<8>([&](auto s) __attribute__((always_inline)) {
        const __m256i bytes = load(p + 2 * kHeight + 32 * s), mask = _mm256_set1_epi8(15);
        const __m256i low_weights = _mm256_and_si256(bytes, mask);
        const __m256i high_weights = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
        unrolled<N>([&](auto c) __attribute__((always_inline)) {
          const __m256i values = four(x[c], s);
          const __m256i l = _mm256_maddubs_epi16(low_weights, values), h = _mm256_maddubs_epi16(high_weights, values);
          low[c] = s ? _mm256_add_epi16(low[c], l) : l;
          high[c] = s ? _mm256_add_epi16(high[c], h) : h;
          pin(low[c]), pin(high[c]);
        });
      });
      for (int c = 0; c < N; ++c)
        dots[c] = _mm256_add_epi32(_mm256_madd_epi16(low[c], _mm256_set1_epi16(1)),
                                   _mm256_madd_epi16(high[c], _mm256_set1_epi16(16)));
    }
    static int32_t offset(const int32_t half_sum[2]) { return -128 * whole_sum(half_sum); }
    [[gnu::always_inline]] __m256 add(__m256 acc, __m256i dot, float scale, float, int32_t offset) const {
      dot = _mm256_add_epi32(dot, _mm256_set1_epi32(offset));
      return _mm256_fmadd_ps(_mm256_mul_ps(load_halves(p), _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(dot), acc);
    }
  };
};

struct F32 {
  static constexpr size_t kBytes = 4 * kHeight;
  static __m256 load(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
};
struct F16 {
  static constexpr size_t kBytes = 2 * kHeight;
  static __m256 load(const std::byte* p) { return load_halves(p); }
};
struct BF16 {
  static constexpr size_t kBytes = 2 * kHeight;
  static __m256 load(const std::byte* p) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
};

template <class Type, int C>
struct FloatKernel {
  static void run(const std::byte* tile, const std::byte* panel, size_t length, float* out) {
    auto* x = reinterpret_cast<const float*>(panel);
    __m256 acc[C];
    for (int c = 0; c < C; ++c) acc[c] = _mm256_setzero_ps();
    const auto step = [&] {
      const __m256 weights = Type::load(tile);
      for (int c = 0; c < C; ++c) acc[c] = _mm256_fmadd_ps(weights, _mm256_set1_ps(x[c]), acc[c]);
      tile += Type::kBytes, x += C;
    };
    constexpr size_t kStep = 64 / Type::kBytes;  // one cache line
    for (; length >= kStep; length -= kStep) {
      prefetch<64>(tile);
      for (size_t i = 0; i < kStep; ++i) step();
    }
    for (; length > 0; --length) step();
    for (int c = 0; c < C; ++c) _mm256_storeu_ps(out + kHeight * c, acc[c]);
  }
};

MatrixKernel kernel(TensorType type, int columns) {
  switch (type) {
    case TensorType::q4_0:
      return for_columns<Q4_0, QuantisedKernel>(columns);
    case TensorType::q4_1:
      return for_columns<Q4_1, QuantisedKernel>(columns);
    case TensorType::q5_0:
      return for_columns<Q5_0, QuantisedKernel>(columns);
    case TensorType::q5_1:
      return for_columns<Q5_1, QuantisedKernel>(columns);
    case TensorType::q8_0:
      return for_columns<Q8_0, QuantisedKernel>(columns);
    case TensorType::f32:
      return for_columns<F32, FloatKernel>(columns);
    case TensorType::f16:
      return for_columns<F16, FloatKernel>(columns);
    case TensorType::bf16:
      return for_columns<BF16, FloatKernel>(columns);
    default:
      return avx2_k_kernel(type, columns);
  }
}

// Where the numbers of one column in a panel block go.
struct PanelSlot {
  size_t columns, column;

  void store(std::byte* block, __m256i values, float scale, float sum, int64_t half_sums) const {
    std::byte* scales = block + kBlock * columns;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(block + kBlock * column), values);
    std::memcpy(scales + 4 * column, &scale, sizeof scale);
    std::memcpy(scales + 4 * (columns + column), &sum, sizeof sum);
    std::memcpy(scales + 8 * (columns + column), &half_sums, sizeof half_sums);
  }
};

constexpr uint32_t kInfinity = 0x7f800000;

// Largest magnitudes, as bits, of 32 values, folded to four. Magnitudes order as integers do, a NaN above all of them.
__m128i largest_magnitudes(const float* x) {
  const auto magnitude = [&](int i) {
    return _mm256_and_si256(load(reinterpret_cast<const std::byte*>(x + 8 * i)), _mm256_set1_epi32(0x7fffffff));
  };
  const __m256i eight =
      _mm256_max_epi32(_mm256_max_epi32(magnitude(0), magnitude(1)), _mm256_max_epi32(magnitude(2), magnitude(3)));
  return _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
}

// Rounds 32 values times `inverse` to nearest even.
__m256i quantise(const float* x, __m256 inverse) {
  const auto eight = [&](int i) { return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse)); };
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(eight(0), eight(1)), _mm256_packs_epi32(eight(2), eight(3)));
  // packs works within 128-bit halves: this puts the pieces of four back in order.
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Partial sums of 32 int8 values: two of the first 16, then two of the others.
__m128i partial_sums(__m256i values) {
  const __m256i fours = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), values), _mm256_set1_epi16(1));
  return _mm_hadd_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
}

void write_block(const float* x, std::byte* block, const PanelSlot& slot) {
  __m128i most = largest_magnitudes(x);
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
  const uint32_t bits = static_cast<uint32_t>(_mm_cvtsi128_si32(most));
  const float largest = _mm_cvtss_f32(_mm_castsi128_ps(most)), inverse = 127.0f / largest;
  if (bits >= kInfinity || inverse > std::numeric_limits<float>::max()) {
    // A NaN or an infinity, which makes the sum NaN; or nothing but zeros, or as good as that.
    const float scale = bits >= kInfinity ? largest / 127.0f : 0.0f;
    return slot.store(block, _mm256_setzero_si256(), scale, scale * 0.0f, 0);
  }
  const float scale = largest / 127.0f;
  const __m256i values = quantise(x, _mm256_set1_ps(inverse));
  __m128i sums = partial_sums(values);
  sums = _mm_hadd_epi32(sums, sums);
  const int whole = _mm_cvtsi128_si32(sums) + _mm_extract_epi32(sums, 1);
  slot.store(block, values, scale, scale * static_cast<float>(whole), _mm_cvtsi128_si64(sums));
}

// Four blocks at once share the folding and the divisions. False if one of them is special: nothing is written then.
bool write_four_blocks(const float* x, std::byte* block, size_t stride, const PanelSlot& slot) {
  __m128i most[4];
  for (int b = 0; b < 4; ++b) most[b] = largest_magnitudes(x + kBlock * b);
  const __m128i first = _mm_max_epi32(_mm_unpacklo_epi32(most[0], most[1]), _mm_unpackhi_epi32(most[0], most[1]));
  const __m128i second = _mm_max_epi32(_mm_unpacklo_epi32(most[2], most[3]), _mm_unpackhi_epi32(most[2], most[3]));
  const __m128 largest =
      _mm_castsi128_ps(_mm_max_epi32(_mm_unpacklo_epi64(first, second), _mm_unpackhi_epi64(first, second)));
  const __m128 inverse = _mm_div_ps(_mm_set1_ps(127), largest), scale = _mm_div_ps(largest, _mm_set1_ps(127));
  const __m128 limit = _mm_set1_ps(std::numeric_limits<float>::max());
  const __m128 ordinary = _mm_and_ps(_mm_cmple_ps(inverse, limit), _mm_cmple_ps(largest, limit));
  if (_mm_movemask_ps(ordinary) != 15) return false;

  alignas(16) float inverses[4], scales[4], sums[4];
  alignas(16) int64_t half_sums[4];
  _mm_store_ps(inverses, inverse);
  _mm_store_ps(scales, scale);
  __m256i values[4];
  __m128i partial[4];
  for (int b = 0; b < 4; ++b) {
    values[b] = quantise(x + kBlock * b, _mm256_set1_ps(inverses[b]));
    partial[b] = partial_sums(values[b]);
  }
  const __m128i halves[2] = {_mm_hadd_epi32(partial[0], partial[1]), _mm_hadd_epi32(partial[2], partial[3])};
  for (int i = 0; i < 2; ++i) _mm_store_si128(reinterpret_cast<__m128i*>(half_sums + 2 * i), halves[i]);
  _mm_store_ps(sums, _mm_mul_ps(scale, _mm_cvtepi32_ps(_mm_hadd_epi32(halves[0], halves[1]))));
  for (size_t b = 0; b < 4; ++b) slot.store(block + stride * b, values[b], scales[b], sums[b], half_sums[b]);
  return true;
}

void write_int8(const float* x, size_t length, int columns, int column, std::byte* panel) {
  const PanelSlot slot{static_cast<size_t>(columns), static_cast<size_t>(column)};
  const size_t stride = sizeof(PanelBlock<1>) * slot.columns, blocks = length / kBlock;
  for (size_t b = 0; b < blocks;) {
    if (blocks - b >= 4 && write_four_blocks(x + kBlock * b, panel + stride * b, stride, slot)) {
      b += 4;
      continue;
    }
    for (const size_t end = std::min(b + 4, blocks); b < end; ++b)
      write_block(x + kBlock * b, panel + stride * b, slot);
  }
}

void write_floats(const float* x, size_t length, int columns, int column, std::byte* panel) {
  auto* out = reinterpret_cast<float*>(panel) + column;
  if (columns == 1) {
    std::memcpy(out, x, length * sizeof(float));
    return;
  }
  for (size_t i = 0; i < length; ++i, out += columns) *out = x[i];
}

PanelWriter panel_writer(PanelKind kind) {
  return kind == PanelKind::int8 ? write_int8 : write_floats;
}

}  // namespace

const MatrixKernels& avx2_matrix_kernels() {
  static constexpr MatrixKernels kKernels{Isa::avx2, kHeight, kernel, panel_writer};
  return kKernels;
}

}  // namespace gale::exec
