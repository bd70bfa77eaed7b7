// Sixteen float lanes in portable C++: what the vector algorithms mean, lane by lane.
#pragma once

#include <cstddef>
#include <cstdint>

// Everything here and in the other lanes_*.h has internal linkage: the linker must never merge code that was compiled
// for different instruction sets.
namespace gale::exec {
namespace {

struct Lanes {
  static constexpr int kRegisters = 2;  // how many Lanes the register file holds (drives the blocking)
  struct Mask {
    bool on[16];
  };
  float v[16];

  static Lanes broadcast(float x) {
    Lanes r;
    for (float& lane : r.v) lane = x;
    return r;
  }
  static Lanes load(const float* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = p[i];
    return r;
  }
  // The first n (0 .. 16) lanes; the rest are zero.
  static Lanes load_partial(const float* p, size_t n) {
    Lanes r;
    for (size_t i = 0; i < 16; ++i) r.v[i] = i < n ? p[i] : 0.0f;
    return r;
  }
  static float half(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFFu) << 13;
    if (magnitude >= 0x7C00u << 13) return __builtin_bit_cast(float, sign | magnitude | 0x7F800000u);
    // As a float the exponent is 112 too small; the product also makes subnormals right, and is exact.
    return __builtin_bit_cast(float,
                              sign | __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) * 0x1p112f));
  }
  static Lanes load_half(const uint16_t* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = half(p[i]);
    return r;
  }
  static Lanes load_half_partial(const uint16_t* p, size_t n) {
    Lanes r;
    for (size_t i = 0; i < 16; ++i) r.v[i] = i < n ? half(p[i]) : 0.0f;
    return r;
  }
  static Lanes broadcast_half(uint16_t bits) { return broadcast(half(bits)); }
  static Lanes load_int8(const int8_t* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(p[i]);
    return r;
  }
  // 16 pairs: p[2 i] and p[2 i + 1].
  static void load_pairs(const float* p, Lanes& first, Lanes& second) {
    for (int i = 0; i < 16; ++i) {
      first.v[i] = p[2 * i];
      second.v[i] = p[2 * i + 1];
    }
  }
  static void store_pairs(float* p, Lanes first, Lanes second) {
    for (int i = 0; i < 16; ++i) {
      p[2 * i] = first.v[i];
      p[2 * i + 1] = second.v[i];
    }
  }
  void store(float* p) const {
    for (int i = 0; i < 16; ++i) p[i] = v[i];
  }
  void store_partial(float* p, size_t n) const {
    for (size_t i = 0; i < n; ++i) p[i] = v[i];
  }
  // Rounded to nearest even. The values are at most 65504 in magnitude, or NaN.
  void store_half(uint16_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = to_half(v[i]);
  }
  static uint16_t to_half(float value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);
    if (magnitude < 0x38800000u) {
      // Below the smallest normal half: adding 0.5 leaves multiples of 2^-24 in the last mantissa bits, rounded.
      const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
      return static_cast<uint16_t>(sign | (__builtin_bit_cast(uint32_t, shifted) - 0x3F000000u));
    }
    const uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  // Rounded to nearest even. The values are at most 127 in magnitude.
  void store_int8(int8_t* p) const {
    for (int i = 0; i < 16; ++i) {
      // Adding 1.5 * 2^23 leaves the rounded integer in the last bits.
      const uint32_t bits = __builtin_bit_cast(uint32_t, v[i] + 12582912.0f);
      p[i] = static_cast<int8_t>(static_cast<int32_t>(bits - 0x4B400000u));
    }
  }

  template <class F>
  static Lanes map(F f) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = f(i);
    return r;
  }
  friend Lanes operator+(Lanes a, Lanes b) {
    return map([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend Lanes operator-(Lanes a, Lanes b) {
    return map([&](int i) { return a.v[i] - b.v[i]; });
  }
  friend Lanes operator*(Lanes a, Lanes b) {
    return map([&](int i) { return a.v[i] * b.v[i]; });
  }
  friend Lanes operator/(Lanes a, Lanes b) {
    return map([&](int i) { return a.v[i] / b.v[i]; });
  }
  // a * b + c and c - a * b, rounded once.
  static Lanes fma(Lanes a, Lanes b, Lanes c) {
    return map([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }
  static Lanes fnma(Lanes a, Lanes b, Lanes c) {
    return map([&](int i) { return __builtin_fmaf(-a.v[i], b.v[i], c.v[i]); });
  }
  // If either is NaN, or both are zeros, the second.
  static Lanes max(Lanes a, Lanes b) {
    return map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static Lanes min(Lanes a, Lanes b) {
    return map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static Lanes sqrt(Lanes a) {
    return map([&](int i) { return __builtin_sqrtf(a.v[i]); });
  }
  static Lanes abs(Lanes a) {
    return map([&](int i) { return __builtin_fabsf(a.v[i]); });
  }
  // magnitude (not negative) with the sign of `sign`.
  static Lanes copy_sign(Lanes magnitude, Lanes sign) {
    return map([&](int i) { return __builtin_copysignf(magnitude.v[i], sign.v[i]); });
  }
  // False for NaN.
  static Mask less(Lanes a, Lanes b) {
    Mask r;
    for (int i = 0; i < 16; ++i) r.on[i] = a.v[i] < b.v[i];
    return r;
  }
  static bool any_nan(Lanes a) {
    bool r = false;
    for (float lane : a.v) r |= lane != lane;
    return r;
  }
  // Lanes begin .. end - 1.
  static Mask range(uint32_t begin, uint32_t end) {
    Mask r;
    for (uint32_t i = 0; i < 16; ++i) r.on[i] = i >= begin && i < end;
    return r;
  }
  static Lanes select(Mask mask, Lanes yes, Lanes no) {
    return map([&](int i) { return mask.on[i] ? yes.v[i] : no.v[i]; });
  }
  // x * 2^n for integers n (as floats) in -150 .. 150, rounded once. Two factors, since 2^n alone may not be a float;
  // the first product is exact for x in 0.5 .. 2.
  static Lanes scale_by_power(Lanes x, Lanes n) {
    return map([&](int i) {
      if (x.v[i] != x.v[i] || n.v[i] != n.v[i]) return x.v[i] + n.v[i];
      const int32_t whole = static_cast<int32_t>(n.v[i]);
      const int32_t half = whole >> 1;
      const float first = __builtin_bit_cast(float, static_cast<uint32_t>(half + 127) << 23);
      const float second = __builtin_bit_cast(float, static_cast<uint32_t>(whole - half + 127) << 23);
      return x.v[i] * first * second;
    });
  }
  float first() const { return v[0]; }
  // l[i] + l[i + 8], then + 4, + 2, + 1.
  static float fold_sum(Lanes a) {
    for (int step = 8; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) a.v[i] = a.v[i] + a.v[i + step];
    }
    return a.v[0];
  }
  static float fold_max(Lanes a) {
    for (int step = 8; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) a.v[i] = a.v[i] > a.v[i + step] ? a.v[i] : a.v[i + step];
    }
    return a.v[0];
  }
};

}  // namespace
}  // namespace gale::exec
