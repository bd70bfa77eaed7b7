// Sixteen float lanes in one AVX-512 register; lane by lane the same results as lanes_scalar.h.
#pragma once

// gcc 12 warns of its own "undefined" operands (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

namespace gale::exec {
namespace {

struct Lanes {
  static constexpr int kRegisters = 32;
  using Mask = __mmask16;
  __m512 v;

  static Lanes broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Mask first_lanes(size_t n) { return static_cast<Mask>((1u << n) - 1u); }
  static Lanes load_partial(const float* p, size_t n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
  static Lanes load_half(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Lanes load_half_partial(const uint16_t* p, size_t n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p))};
  }
  static Lanes broadcast_half(uint16_t bits) { return {_mm512_set1_ps(_cvtsh_ss(bits))}; }
  static Lanes load_int8(const int8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  static void load_pairs(const float* p, Lanes& first, Lanes& second) {
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512 low = _mm512_loadu_ps(p), high = _mm512_loadu_ps(p + 16);
    first.v = _mm512_permutex2var_ps(low, even, high);
    second.v = _mm512_permutex2var_ps(low, odd, high);
  }
  static void store_pairs(float* p, Lanes first, Lanes second) {
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    _mm512_storeu_ps(p, _mm512_permutex2var_ps(first.v, low, second.v));
    _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(first.v, high, second.v));
  }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_partial(float* p, size_t n) const { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
  void store_half(uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  void store_int8(int8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
  }

  friend Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
  static Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static Lanes fnma(Lanes a, Lanes b, Lanes c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
  static Lanes max(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Lanes min(Lanes a, Lanes b) { return {_mm512_min_ps(a.v, b.v)}; }
  static Lanes sqrt(Lanes a) { return {_mm512_sqrt_ps(a.v)}; }
  static Lanes abs(Lanes a) { return {_mm512_abs_ps(a.v)}; }
  static Lanes copy_sign(Lanes magnitude, Lanes sign) {
    return {_mm512_or_ps(magnitude.v, _mm512_and_ps(sign.v, _mm512_set1_ps(-0.0f)))};
  }
  static Mask less(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
  static bool any_nan(Lanes a) { return _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q) != 0; }
  static Mask range(uint32_t begin, uint32_t end) {
    return static_cast<Mask>(((1u << end) - 1u) & ~((1u << begin) - 1u));
  }
  static Lanes select(Mask mask, Lanes yes, Lanes no) { return {_mm512_mask_blend_ps(mask, no.v, yes.v)}; }
  static Lanes scale_by_power(Lanes x, Lanes n) { return {_mm512_scalef_ps(x.v, n.v)}; }
  float first() const { return _mm512_cvtss_f32(v); }
  static float fold_sum(Lanes a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float fold_max(Lanes a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace
}  // namespace gale::exec
