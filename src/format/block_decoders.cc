// Decoders of all block types with a described layout. Scales and quants are joined in double, where every product and
// sum of these formats is exact, so that the only rounding is the one to float at the end.
#include "format/block_decoders.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/numbers.h"

namespace gale::format {
namespace {

static_assert(std::endian::native == std::endian::little, "model files are little endian and are read in place");

template <class T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double load_half(const uint8_t* at) {
  return half_to_float(load<uint16_t>(at));
}

int low(uint8_t byte) {
  return byte & 15;
}
int high(uint8_t byte) {
  return byte >> 4;
}

// Non-linear 4-bit levels of IQ4_NL and IQ4_XS.
constexpr int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// E2M1 numbers times two.
constexpr int8_t fp4_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// ---- plain numbers

template <class T>
void decode_number(const uint8_t* block, float* out) {
  *out = static_cast<float>(load<T>(block));
}

void decode_f16(const uint8_t* block, float* out) {
  *out = half_to_float(load<uint16_t>(block));
}
void decode_bf16(const uint8_t* block, float* out) {
  *out = bfloat16_to_float(load<uint16_t>(block));
}

// ---- blocks of 32: low nibbles are elements 0-15, high nibbles 16-31

void decode_q4_0(const uint8_t* block, float* out) {  // f16 d | 16 B
  const double d = load_half(block);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(d * (low(block[2 + j]) - 8));
    out[j + 16] = static_cast<float>(d * (high(block[2 + j]) - 8));
  }
}

void decode_q4_1(const uint8_t* block, float* out) {  // f16 d, m | 16 B
  const double d = load_half(block), m = load_half(block + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(d * low(block[4 + j]) + m);
    out[j + 16] = static_cast<float>(d * high(block[4 + j]) + m);
  }
}

// Fifth bit of element e, as 0 or 16.
int fifth(uint32_t bits, int e) {
  return static_cast<int>(bits >> e & 1) << 4;
}

void decode_q5_0(const uint8_t* block, float* out) {  // f16 d | u32 fifth bits | 16 B
  const double d = load_half(block);
  const auto bits = load<uint32_t>(block + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(d * ((low(block[6 + j]) | fifth(bits, j)) - 16));
    out[j + 16] = static_cast<float>(d * ((high(block[6 + j]) | fifth(bits, j + 16)) - 16));
  }
}

void decode_q5_1(const uint8_t* block, float* out) {  // f16 d, m | u32 fifth bits | 16 B
  const double d = load_half(block), m = load_half(block + 2);
  const auto bits = load<uint32_t>(block + 4);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(d * (low(block[8 + j]) | fifth(bits, j)) + m);
    out[j + 16] = static_cast<float>(d * (high(block[8 + j]) | fifth(bits, j + 16)) + m);
  }
}

void decode_q8_0(const uint8_t* block, float* out) {  // f16 d | 32 i8
  const double d = load_half(block);
  for (int e = 0; e < 32; ++e) out[e] = static_cast<float>(d * static_cast<int8_t>(block[2 + e]));
}

void decode_iq4_nl(const uint8_t* block, float* out) {  // f16 d | 16 B
  const double d = load_half(block);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(d * iq4_levels[low(block[2 + j])]);
    out[j + 16] = static_cast<float>(d * iq4_levels[high(block[2 + j])]);
  }
}

void decode_mxfp4(const uint8_t* block, float* out) {  // u8 e | 16 B
  // A power of two in float, subnormal for e < 2; products are exact, except that the largest scales overflow to
  // infinity.
  const float scale = std::ldexp(1.0f, block[0] - 128);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * fp4_doubled[low(block[1 + j])];
    out[j + 16] = scale * fp4_doubled[high(block[1 + j])];
  }
}

// ---- blocks of 64 and 128

void decode_nvfp4(const uint8_t* block, float* out) {  // 4 E4M3 scales | 4 x 8 B
  for (int s = 0; s < 4; ++s) {
    // The sign bit of a scale is not used; the NaN code counts as zero.
    const uint8_t code = block[s] & 0x7F;
    const float scale = code == 0x7F ? 0.0f : 0.5f * fp8_e4m3_to_float(code);
    const uint8_t* quants = block + 4 + 8 * s;
    for (int j = 0; j < 8; ++j) {
      out[16 * s + j] = scale * fp4_doubled[low(quants[j])];
      out[16 * s + j + 8] = scale * fp4_doubled[high(quants[j])];
    }
  }
}

void decode_q1_0(const uint8_t* block, float* out) {  // f16 d | 16 B, one bit each
  const float d = half_to_float(load<uint16_t>(block));
  for (int e = 0; e < 128; ++e) out[e] = block[2 + e / 8] >> (e % 8) & 1 ? d : -d;
}

void decode_q2_0(const uint8_t* block, float* out) {  // f16 d | 16 B, two bits each
  const double d = load_half(block);
  for (int e = 0; e < 64; ++e) out[e] = static_cast<float>(d * ((block[2 + e / 4] >> (2 * (e % 4)) & 3) - 1));
}

// ---- blocks of 256

// Two-bit field of element e: halves of 128 elements use 32 bytes each, four elements a byte.
int two_bits(const uint8_t* bytes, int e) {
  const int half = e / 128, r = e % 128;
  return bytes[32 * half + r % 32] >> (2 * (r / 32)) & 3;
}

// Nibble of element e: groups of 64 elements use 32 bytes, the low nibbles first.
int four_bits(const uint8_t* bytes, int e) {
  const uint8_t byte = bytes[32 * (e / 64) + e % 32];
  return e % 64 < 32 ? low(byte) : high(byte);
}

void decode_q2_k(const uint8_t* block, float* out) {  // 16 B (scale low, min high) | 64 B | f16 d, dmin
  const double d = load_half(block + 80), dmin = load_half(block + 82);
  for (int e = 0; e < 256; ++e) {
    const uint8_t pair = block[e / 16];
    out[e] = static_cast<float>(d * (low(pair) * two_bits(block + 16, e)) - dmin * high(pair));
  }
}

void decode_q3_k(const uint8_t* block, float* out) {  // 32 B third bits | 64 B | 12 B scales | f16 d
  const uint8_t* scales = block + 96;
  const double d = load_half(block + 108);
  for (int e = 0; e < 256; ++e) {
    const int i = e / 16;
    const int low_bits = i < 8 ? low(scales[i % 8]) : high(scales[i % 8]);
    const int scale = (low_bits | (scales[8 + i % 4] >> (2 * (i / 4)) & 3) << 4) - 32;
    const int third = block[e % 32] >> (e / 32) & 1;
    out[e] = static_cast<float>(d * (scale * (two_bits(block + 32, e) - (third ? 0 : 4))));
  }
}

struct ScaleMin {
  int scale, min;
};

// Six-bit scale and minimum of sub-block j (0..7) out of 12 bytes.
ScaleMin scale_min(const uint8_t* b, int j) {
  if (j < 4) return {b[j] & 63, b[j + 4] & 63};
  return {low(b[j + 4]) | b[j - 4] >> 6 << 4, high(b[j + 4]) | b[j] >> 6 << 4};
}

void decode_q4_k(const uint8_t* block, float* out) {  // f16 d, dmin | 12 B scales | 128 B
  const double d = load_half(block), dmin = load_half(block + 2);
  for (int j = 0; j < 8; ++j) {
    const auto [scale, min] = scale_min(block + 4, j);
    const double step = d * scale, offset = dmin * min;
    for (int e = 32 * j; e < 32 * j + 32; ++e) out[e] = static_cast<float>(step * four_bits(block + 16, e) - offset);
  }
}

void decode_q5_k(const uint8_t* block, float* out) {  // f16 d, dmin | 12 B scales | 32 B fifth bits | 128 B
  const double d = load_half(block), dmin = load_half(block + 2);
  for (int j = 0; j < 8; ++j) {
    const auto [scale, min] = scale_min(block + 4, j);
    const double step = d * scale, offset = dmin * min;
    for (int e = 32 * j; e < 32 * j + 32; ++e) {
      const int q = four_bits(block + 48, e) | (block[16 + e % 32] >> j & 1) << 4;
      out[e] = static_cast<float>(step * q - offset);
    }
  }
}

void decode_q6_k(const uint8_t* block, float* out) {  // 128 B low | 64 B high | 16 i8 scales | f16 d
  const double d = load_half(block + 208);
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, quarter = e % 128 / 32, l = e % 32;
    const uint8_t byte = block[64 * half + 32 * (quarter & 1) + l];
    const int q = (quarter < 2 ? low(byte) : high(byte)) | two_bits(block + 128, e) << 4;
    out[e] = static_cast<float>(d * (static_cast<int8_t>(block[192 + e / 16]) * (q - 32)));
  }
}

void decode_iq4_xs(const uint8_t* block, float* out) {  // f16 d | u16 high scale bits | 4 B low scale bits | 8 x 16 B
  const double d = load_half(block);
  const auto scales_high = load<uint16_t>(block + 2);
  for (int j = 0; j < 8; ++j) {
    const int scale = ((block[4 + j / 2] >> (4 * (j % 2)) & 15) | (scales_high >> (2 * j) & 3) << 4) - 32;
    const double step = d * scale;
    const uint8_t* quants = block + 8 + 16 * j;
    for (int i = 0; i < 16; ++i) {
      out[32 * j + i] = static_cast<float>(step * iq4_levels[low(quants[i])]);
      out[32 * j + 16 + i] = static_cast<float>(step * iq4_levels[high(quants[i])]);
    }
  }
}

// Digit n (first is 0) of a byte that holds base-3 digits as a fraction of 256.
int ternary_digit(uint8_t byte, int n) {
  constexpr int powers[5] = {1, 3, 9, 27, 81};
  const auto shifted = static_cast<uint8_t>(byte * powers[n]);
  return shifted * 3 >> 8;
}

void decode_tq1_0(const uint8_t* block, float* out) {  // 48 B of five digits | 4 B of four digits | f16 d
  const double d = load_half(block + 52);
  const struct { int first, bytes, digits; } runs[3] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
  for (const auto& run : runs) {
    for (int n = 0; n < run.digits; ++n) {
      for (int j = 0; j < run.bytes; ++j) *out++ = static_cast<float>(d * (ternary_digit(block[run.first + j], n) - 1));
    }
  }
}

void decode_tq2_0(const uint8_t* block, float* out) {  // 64 B of two bits each | f16 d
  const double d = load_half(block + 64);
  for (int e = 0; e < 256; ++e) out[e] = static_cast<float>(d * (two_bits(block, e) - 1));
}

}  // namespace

BlockDecoder block_decoder(TensorType type) {
  switch (type) {
    case TensorType::f32:
      return decode_number<float>;
    case TensorType::f64:
      return decode_number<double>;
    case TensorType::f16:
      return decode_f16;
    case TensorType::bf16:
      return decode_bf16;
    case TensorType::i8:
      return decode_number<int8_t>;
    case TensorType::i16:
      return decode_number<int16_t>;
    case TensorType::i32:
      return decode_number<int32_t>;
    case TensorType::i64:
      return decode_number<int64_t>;
    case TensorType::q4_0:
      return decode_q4_0;
    case TensorType::q4_1:
      return decode_q4_1;
    case TensorType::q5_0:
      return decode_q5_0;
    case TensorType::q5_1:
      return decode_q5_1;
    case TensorType::q8_0:
      return decode_q8_0;
    case TensorType::q2_k:
      return decode_q2_k;
    case TensorType::q3_k:
      return decode_q3_k;
    case TensorType::q4_k:
      return decode_q4_k;
    case TensorType::q5_k:
      return decode_q5_k;
    case TensorType::q6_k:
      return decode_q6_k;
    case TensorType::iq4_nl:
      return decode_iq4_nl;
    case TensorType::iq4_xs:
      return decode_iq4_xs;
    case TensorType::tq1_0:
      return decode_tq1_0;
    case TensorType::tq2_0:
      return decode_tq2_0;
    case TensorType::mxfp4:
      return decode_mxfp4;
    case TensorType::nvfp4:
      return decode_nvfp4;
    case TensorType::q1_0:
      return decode_q1_0;
    case TensorType::q2_0:
      return decode_q2_0;
    default:
      return nullptr;
  }
}

}  // namespace gale::format
