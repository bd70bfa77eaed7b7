// Matrix kernels for AVX2: tiles of 8 rows, products by maddubs with 16-bit sums; the block quants, plain floats and
// the panel writers.
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

// Bits of the largest magnitude. Magnitudes order as integers do, and a NaN is above all of them.
uint32_t largest_magnitude(const __m256i bits[4]) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  const auto magnitude = [&](int i) { return _mm256_and_si256(bits[i], mask); };
  const __m256i eight =
      _mm256_max_epi32(_mm256_max_epi32(magnitude(0), magnitude(1)), _mm256_max_epi32(magnitude(2), magnitude(3)));
  __m128i most = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(most));
}

void write_int8(const float* x, size_t length, int columns, int column, std::byte* panel) {
  const size_t c = static_cast<size_t>(column), count = static_cast<size_t>(columns);
  // packs works within 128-bit halves: this puts the 4-byte pieces back in order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  constexpr uint32_t kInfinity = 0x7f800000;
  for (size_t b = 0; b < length / kBlock; ++b, x += kBlock, panel += sizeof(PanelBlock<1>) * count) {
    __m256i v[4];
    for (int i = 0; i < 4; ++i) v[i] = load(reinterpret_cast<const std::byte*>(x + 8 * i));
    const uint32_t bits = largest_magnitude(v);
    float largest;
    std::memcpy(&largest, &bits, sizeof largest);
    const float inverse = 127.0f / largest;
    float scale = largest / 127.0f, sum;
    __m256i values = _mm256_setzero_si256();
    __m128i half_sums = _mm_setzero_si128();
    if (bits < kInfinity && inverse <= std::numeric_limits<float>::max()) [[likely]] {
      __m256i q[4];
      for (int i = 0; i < 4; ++i)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(v[i]), _mm256_set1_ps(inverse)));
      values = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
      values = _mm256_permutevar8x32_epi32(values, order);
      const __m256i fours = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), values), _mm256_set1_epi16(1));
      half_sums = _mm_hadd_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
      half_sums = _mm_hadd_epi32(half_sums, half_sums);
      sum = scale * static_cast<float>(_mm_cvtsi128_si32(half_sums) + _mm_extract_epi32(half_sums, 1));
    } else {  // nothing but zeros, or as good as that; or a NaN or an infinity, which makes the sum NaN
      if (bits < kInfinity) scale = 0;
      sum = scale * 0.0f;
    }
    std::byte* scales = panel + kBlock * count;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel + kBlock * c), values);
    std::memcpy(scales + 4 * c, &scale, sizeof scale);
    std::memcpy(scales + 4 * (count + c), &sum, sizeof sum);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(scales + 8 * (count + c)), half_sums);
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
