// Sixteen float lanes in two AVX registers; lane by lane the same results as lanes_scalar.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace gale::exec {
namespace {

struct Lanes {
  static constexpr int kRegisters = 8;
  struct Mask {
    __m256 lo, hi;
  };
  __m256 lo, hi;

  static Lanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Lanes load_partial(const float* p, size_t n) {
    const Mask mask = range(0, static_cast<uint32_t>(n));
    return {_mm256_maskload_ps(p, _mm256_castps_si256(mask.lo)),
            _mm256_maskload_ps(p + 8, _mm256_castps_si256(mask.hi))};
  }
  static Lanes load_half(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  static Lanes load_half_partial(const uint16_t* p, size_t n) {
    uint16_t buffer[16] = {};
    for (size_t i = 0; i < n; ++i) buffer[i] = p[i];
    return load_half(buffer);
  }
  static Lanes broadcast_half(uint16_t bits) { return broadcast(_cvtsh_ss(bits)); }
  static Lanes load_int8(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
  }
  static void load_pairs(const float* p, Lanes& first, Lanes& second) {
    split_pairs(p, first.lo, second.lo);
    split_pairs(p + 16, first.hi, second.hi);
  }
  static void split_pairs(const float* p, __m256& first, __m256& second) {
    const __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps(p + 8);
    const __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    first = _mm256_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0));
    second = _mm256_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1));
  }
  static void store_pairs(float* p, Lanes first, Lanes second) {
    join_pairs(p, first.lo, second.lo);
    join_pairs(p + 16, first.hi, second.hi);
  }
  static void join_pairs(float* p, __m256 first, __m256 second) {
    const __m256 low = _mm256_unpacklo_ps(first, second), high = _mm256_unpackhi_ps(first, second);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
  void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  void store_partial(float* p, size_t n) const {
    const Mask mask = range(0, static_cast<uint32_t>(n));
    _mm256_maskstore_ps(p, _mm256_castps_si256(mask.lo), lo);
    _mm256_maskstore_ps(p + 8, _mm256_castps_si256(mask.hi), hi);
  }
  void store_half(uint16_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(hi, _MM_FROUND_TO_NEAREST_INT));
  }
  void store_int8(int8_t* p) const {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(lo), _mm256_cvtps_epi32(hi));
    const __m256i ordered = _mm256_permute4x64_epi64(words, _MM_SHUFFLE(3, 1, 2, 0));
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }

  friend Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  friend Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  friend Lanes operator*(Lanes a, Lanes b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  friend Lanes operator/(Lanes a, Lanes b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  static Lanes fma(Lanes a, Lanes b, Lanes c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static Lanes fnma(Lanes a, Lanes b, Lanes c) {
    return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
  }
  static Lanes max(Lanes a, Lanes b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static Lanes min(Lanes a, Lanes b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static Lanes sqrt(Lanes a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
  static Lanes abs(Lanes a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
  }
  static Lanes copy_sign(Lanes magnitude, Lanes sign) {
    const __m256 bit = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(magnitude.lo, _mm256_and_ps(sign.lo, bit)),
            _mm256_or_ps(magnitude.hi, _mm256_and_ps(sign.hi, bit))};
  }
  static Mask less(Lanes a, Lanes b) {
    return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
  }
  static bool any_nan(Lanes a) {
    const __m256 nan = _mm256_or_ps(_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q));
    return _mm256_movemask_ps(nan) != 0;
  }
  static Mask range(uint32_t begin, uint32_t end) {
    const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), high = _mm256_add_epi32(low, _mm256_set1_epi32(8));
    const __m256i from = _mm256_set1_epi32(static_cast<int>(begin) - 1), to = _mm256_set1_epi32(static_cast<int>(end));
    const auto inside = [&](__m256i lane) {
      return _mm256_castsi256_ps(_mm256_and_si256(_mm256_cmpgt_epi32(lane, from), _mm256_cmpgt_epi32(to, lane)));
    };
    return {inside(low), inside(high)};
  }
  static Lanes select(Mask mask, Lanes yes, Lanes no) {
    return {_mm256_blendv_ps(no.lo, yes.lo, mask.lo), _mm256_blendv_ps(no.hi, yes.hi, mask.hi)};
  }
  static Lanes scale_by_power(Lanes x, Lanes n) { return {scale_half(x.lo, n.lo), scale_half(x.hi, n.hi)}; }
  static __m256 scale_half(__m256 x, __m256 n) {
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
  }
  float first() const { return _mm256_cvtss_f32(lo); }
  static float fold_sum(Lanes a) {
    const __m256 eight = _mm256_add_ps(a.lo, a.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float fold_max(Lanes a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace
}  // namespace gale::exec
