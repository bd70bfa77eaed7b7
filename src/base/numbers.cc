// Conversions between float and the narrow number types, in portable integer arithmetic.
#include "base/numbers.h"

#include <limits>

namespace gale {

namespace {

// Value of a small IEEE-like number with `exponent_bits` and `mantissa_bits`, sign apart. The highest exponent is
// treated like any other; the caller deals with infinities and NaN first.
float finite_from_fields(uint32_t exponent, uint32_t mantissa, uint32_t exponent_bits, uint32_t mantissa_bits) {
  const uint32_t bias = (1u << (exponent_bits - 1)) - 1;
  if (exponent == 0) {
    if (mantissa == 0) return 0.0f;
    // Subnormal: shift the leading one up to the implicit place.
    const uint32_t shift = mantissa_bits + 1 - static_cast<uint32_t>(std::bit_width(mantissa));
    mantissa = (mantissa << shift) & ((1u << mantissa_bits) - 1);
    return std::bit_cast<float>(((128 - bias - shift) << 23) | (mantissa << (23 - mantissa_bits)));
  }
  return std::bit_cast<float>(((exponent + 127 - bias) << 23) | (mantissa << (23 - mantissa_bits)));
}

float with_sign(float magnitude, bool negative) {
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  return std::bit_cast<float>(negative ? bits | 0x80000000u : bits);
}

}  // namespace

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu, mantissa = bits & 0x3FFu;
  if (exponent == 0x1F) {
    // NaN keeps its payload and becomes quiet, as the processor's instruction does.
    const uint32_t quiet = mantissa != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | quiet | (mantissa << 13));
  }
  return with_sign(finite_from_fields(exponent, mantissa, 5, 10), sign != 0);
}

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  // 65520 is halfway between the largest half and the next power of two: from there on it rounds to infinity.
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
  if (magnitude >= 0x38800000u) {  // 2^-14: a normal half
    const uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
  }
  if (magnitude <= 0x33000000u) return static_cast<uint16_t>(sign);  // <= 2^-25, half of the smallest subnormal
  // A subnormal: the 24-bit significand counts units of 2^-24 once shifted right.
  const uint32_t shift = 126 - (magnitude >> 23);
  const uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const uint32_t odd = (significand >> shift) & 1u;
  return static_cast<uint16_t>(sign | ((significand + (1u << (shift - 1)) - 1 + odd) >> shift));
}

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float fp8_e4m3_to_float(uint8_t bits) {
  if ((bits & 0x7Fu) == 0x7Fu) return with_sign(std::numeric_limits<float>::quiet_NaN(), (bits & 0x80u) != 0);
  return with_sign(finite_from_fields((bits >> 3) & 0xFu, bits & 7u, 4, 3), (bits & 0x80u) != 0);
}

float fp8_e5m2_to_float(uint8_t bits) {
  // The top byte of a half.
  return half_to_float(static_cast<uint16_t>(bits << 8));
}

}  // namespace gale
