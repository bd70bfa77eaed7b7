// Matrix kernels for AVX2, the K quants: scales of 256 values are decoded once, then their 8 blocks like any other.
#include "exec/cpu/matrix_avx2_common.h"

namespace gale::exec {
namespace {

using format::TensorType;

// d, dmin and the 16 six-bit numbers in front of Q4_K and Q5_K.
struct SixBitHead {
  float scale[8][kHeight], minimum[8][kHeight];
  explicit SixBitHead(const std::byte* p) {
    const __m256 d = load_halves(p), dmin = load_halves(p + 2 * kHeight);
    const std::byte* six = p + 4 * kHeight;
    const __m256i words[3] = {load(six), load(six + 4 * kHeight), load(six + 8 * kHeight)};
    const __m256i mask = _mm256_set1_epi32(63);
    const __m256i last = _mm256_or_si256(_mm256_srli_epi32(words[0], 30),
                                         _mm256_or_si256(_mm256_slli_epi32(_mm256_srli_epi32(words[1], 30), 2),
                                                         _mm256_slli_epi32(_mm256_srli_epi32(words[2], 30), 4)));
    const auto number = [&](int n) {
      const __m256i bits = n == 15 ? last : _mm256_and_si256(_mm256_srli_epi32(words[n / 5], 6 * (n % 5)), mask);
      return _mm256_cvtepi32_ps(bits);
    };
    for (int j = 0; j < 8; ++j) {
      _mm256_storeu_ps(scale[j], _mm256_mul_ps(d, number(j)));
      _mm256_storeu_ps(minimum[j], _mm256_mul_ps(dmin, number(8 + j)));
    }
  }
};

struct Q4_K {
  using Head = SixBitHead;
  static constexpr int kBlocks = 8, kTogether = 8, kRegisterColumns = 6;
  static constexpr bool kOffset = false;
  static constexpr size_t kHeadBytes = kHeight * 16, kBlockBytes = kHeight * 16;
  struct Block {
    const std::byte* p;
    __m256 scale, minimum;
    Block(const std::byte* p, const Head& head, int j)
        : p(p), scale(_mm256_loadu_ps(head.scale[j])), minimum(_mm256_loadu_ps(head.minimum[j])) {}
    template <int N>
    [[gnu::always_inline]] void dots(const Values* x, __m256i* dots) const {
      dots_four_bits<N>(p, x, dots);
    }
    static int32_t offset(const int32_t*) { return 0; }
    [[gnu::always_inline]] __m256 add(__m256 acc, __m256i dot, float x_scale, float sum, int32_t) const {
      acc = _mm256_fmadd_ps(_mm256_mul_ps(scale, _mm256_set1_ps(x_scale)), _mm256_cvtepi32_ps(dot), acc);
      return _mm256_fnmadd_ps(minimum, _mm256_set1_ps(sum), acc);
    }
  };
};

struct Q5_K {
  using Head = SixBitHead;
  static constexpr int kBlocks = 8, kTogether = 8, kRegisterColumns = 6;
  static constexpr bool kOffset = false;
  static constexpr size_t kHeadBytes = kHeight * 16, kBlockBytes = kHeight * 20;
  struct Block : Q4_K::Block {
    using Q4_K::Block::Block;
    template <int N>
    [[gnu::always_inline]] void dots(const Values* x, __m256i* dots) const {
      dots_five_bits<N>(p, p + 4 * kHeight, x, dots);
    }
  };
};

struct Q6_K {
  struct Head {
    __m256 d;
    explicit Head(const std::byte* p) : d(load_halves(p)) {}
  };
  static constexpr int kBlocks = 8, kTogether = 8, kRegisterColumns = 4;
  static constexpr bool kOffset = true;
  static constexpr size_t kHeadBytes = kHeight * 2, kBlockBytes = kHeight * 26;
  struct Block {
    const std::byte* p;
    __m256 d;
    __m256i scale[2];      // of the two halves, twice in every lane
    __m256i scale_offset;  // -32 times both, as 16-bit numbers: at most 4,096

    Block(const std::byte* p, const Head& head, int) : p(p), d(head.d) {
      const __m256i twice = _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5,
                                             8, 9, 8, 9, 12, 13, 12, 13);
      for (int half = 0; half < 2; ++half) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + kHeight * half));
        scale[half] = _mm256_shuffle_epi8(_mm256_cvtepi8_epi32(bytes), twice);
      }
      scale_offset = _mm256_mullo_epi16(_mm256_blend_epi16(scale[0], scale[1], 0xaa), _mm256_set1_epi16(-32));
    }

    // Weights up to 63: 16-bit sums hold 2 products, 2 x 63 x 127 x 2 = 32,004. The scales are applied to these.
    template <int N>
    [[gnu::always_inline]] void dots(const Values* x, __m256i* dots) const {
      unrolled<4>([&](auto g) __attribute__((always_inline)) {
        const __m256i mask = _mm256_set1_epi8(0x30), high = load(p + 2 * kHeight + 4 * kHeight * (g / 2));
        Group weights = nibble_group(p + 10 * kHeight, g);
        const __m256i first = g % 2 ? high : _mm256_slli_epi32(high, 4);
        const __m256i second = g % 2 ? _mm256_srli_epi32(high, 2) : _mm256_slli_epi32(high, 2);
        weights.first = _mm256_or_si256(weights.first, _mm256_and_si256(first, mask));
        weights.second = _mm256_or_si256(weights.second, _mm256_and_si256(second, mask));
        unrolled<N>([&](auto c) __attribute__((always_inline)) {
          const __m256i product = _mm256_madd_epi16(multiply(weights, x[c] + 8 * g), scale[g / 2]);
          dots[c] = g ? _mm256_add_epi32(dots[c], product) : product;
          pin(dots[c]);
        });
      });
    }

    // (S0, S1) as 16-bit numbers.
    static int32_t offset(const int32_t half_sum[2]) {
      return static_cast<int32_t>((static_cast<uint32_t>(half_sum[1]) << 16) |
                                  (static_cast<uint32_t>(half_sum[0]) & 0xffff));
    }
    [[gnu::always_inline]] __m256 add(__m256 acc, __m256i dot, float x_scale, float, int32_t half_sums) const {
      dot = _mm256_add_epi32(dot, _mm256_madd_epi16(_mm256_set1_epi32(half_sums), scale_offset));
      return _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x_scale)), _mm256_cvtepi32_ps(dot), acc);
    }
  };
};

}  // namespace

MatrixKernel avx2_k_kernel(TensorType type, int columns) {
  switch (type) {
    case TensorType::q4_k:
      return for_columns<Q4_K, QuantisedKernel>(columns);
    case TensorType::q5_k:
      return for_columns<Q5_K, QuantisedKernel>(columns);
    case TensorType::q6_k:
      return for_columns<Q6_K, QuantisedKernel>(columns);
    default:
      return nullptr;
  }
}

}  // namespace gale::exec
