// Number types of model files (half, bfloat16, FP8) and their exact conversions to and from float.
#pragma once

#include <bit>
#include <cstdint>

namespace gale {

// IEEE binary16 bits to float; exact, subnormals, infinities and NaN included.
float half_to_float(uint16_t bits);
// Round to nearest even; overflow gives infinity, NaN stays NaN.
uint16_t float_to_half(float value);

// bfloat16 is the top half of a float.
inline float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
// Round to nearest even; NaN stays NaN.
uint16_t float_to_bfloat16(float value);

// FP8 E4M3 "fn": bias 7, largest 448, no infinity, NaN = 0x7F and 0xFF (OCP 8-bit floating point specification 1.0).
float fp8_e4m3_to_float(uint8_t bits);
// FP8 E5M2: as IEEE with 5 exponent and 2 mantissa bits.
float fp8_e5m2_to_float(uint8_t bits);

}  // namespace gale
