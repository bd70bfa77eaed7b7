// Every value of the narrow number types, against arithmetic done in double.
#include "base/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace gale {
namespace {

// Value of a small float by its definition, in double (exact).
double defined_value(uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1.0 : 1.0;
  if (has_infinity && exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

void expect_same(float value, double expected, uint32_t bits) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(value)) << bits;
  } else {
    EXPECT_EQ(static_cast<double>(value), expected) << bits;
    EXPECT_EQ(std::signbit(value), std::signbit(expected)) << bits;
  }
}

TEST(Numbers, EveryHalfToFloat) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    expect_same(half_to_float(static_cast<uint16_t>(bits)), defined_value(bits, 5, 10, true), bits);
  }
}

TEST(Numbers, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const uint16_t back = float_to_half(half_to_float(half));
    if (std::isnan(half_to_float(half))) {
      EXPECT_EQ(back, half | 0x200u) << bits;  // quiet, sign and payload kept
    } else {
      EXPECT_EQ(back, half) << bits;
    }
  }
}

// Between each half and the next one: just below the middle, the middle (to even), just above.
TEST(Numbers, FloatToHalfRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const uint16_t low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const double next = high == 0x7C00 ? 65536.0 : defined_value(high, 5, 10, true);
    const float middle = static_cast<float>((defined_value(low, 5, 10, true) + next) / 2);
    const float below = std::nextafter(middle, 0.0f), above = std::nextafter(middle, 1e9f);
    const uint16_t even = (low & 1) == 0 ? low : high;
    for (uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
      const float factor = sign != 0 ? -1.0f : 1.0f;
      EXPECT_EQ(float_to_half(factor * below), low | sign) << bits;
      EXPECT_EQ(float_to_half(factor * middle), even | sign) << bits;
      EXPECT_EQ(float_to_half(factor * above), high | sign) << bits;
    }
  }
}

TEST(Numbers, FloatToHalfAtTheEdges) {
  EXPECT_EQ(float_to_half(65504.0f), 0x7BFF);
  EXPECT_EQ(float_to_half(65519.996f), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_half(1e38f), 0x7C00);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(float_to_half(-0.0f), 0x8000);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
  // A NaN whose payload lies only in the bits that are cut off stays a NaN.
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::bit_cast<float>(0xFFFFFFFFu)))));
}

TEST(Numbers, EveryBfloat16) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t value = static_cast<uint16_t>(bits);
    expect_same(bfloat16_to_float(value), defined_value(bits, 8, 7, true), bits);
    const uint16_t back = float_to_bfloat16(bfloat16_to_float(value));
    EXPECT_EQ(back, std::isnan(bfloat16_to_float(value)) ? (value | 0x40u) : value) << bits;
  }
}

TEST(Numbers, FloatToBfloat16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const uint32_t base = bits << 16, even = (bits & 1) == 0 ? bits : bits + 1;
    for (uint32_t sign : {0u, 0x80000000u}) {
      const auto round = [&](uint32_t low) { return float_to_bfloat16(std::bit_cast<float>(sign | base | low)); };
      EXPECT_EQ(round(0x7FFF), bits | (sign >> 16));
      EXPECT_EQ(round(0x8000), even | (sign >> 16));
      EXPECT_EQ(round(0x8001), (bits + 1) | (sign >> 16));
    }
  }
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7FFFFFFFu)))));
}

TEST(Numbers, EveryFp8E4m3) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const float value = fp8_e4m3_to_float(static_cast<uint8_t>(bits));
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << bits;
    } else {
      expect_same(value, defined_value(bits, 4, 3, false), bits);
    }
  }
  EXPECT_EQ(fp8_e4m3_to_float(0x7E), 448.0f);
  EXPECT_EQ(fp8_e4m3_to_float(0x01), 0.001953125f);
}

TEST(Numbers, EveryFp8E5m2) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    expect_same(fp8_e5m2_to_float(static_cast<uint8_t>(bits)), defined_value(bits, 5, 2, true), bits);
  }
  EXPECT_EQ(fp8_e5m2_to_float(0x7B), 57344.0f);
}

}  // namespace
}  // namespace gale
