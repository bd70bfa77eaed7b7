// Encoders of all block types on top of the fits of encode_lanes.h. Included once per instruction set.
#pragma once

#include <algorithm>
#include <cmath>

#include "format/block_encoders.h"
#include "format/encode_lanes.h"

namespace gale::format {
namespace {

void store_half(uint8_t* at, float value) {
  const uint16_t bits = float_to_half(value);
  std::memcpy(at, &bits, sizeof bits);
}

template <int n>
using Codes = uint8_t[kLanes][n];

// Quants of (x - offset) / scale, plus `bias`, so that they are not negative.
template <int n, class Levels>
void quantise(const Floats (&x)[n], Floats scale, Floats offset, const Levels& levels, float bias, Codes<n>& codes) {
  const Floats inverse = inverse_of(scale);
  for (int e = 0; e < n; ++e) {
    const Floats level = levels.nearest((x[e] - offset) * inverse) + bias;
    const Ints code = __builtin_convertvector(level, Ints);
    for (int lane = 0; lane < kLanes; ++lane) codes[lane][e] = static_cast<uint8_t>(code[lane]);
  }
}

// Low nibbles are elements 0-15, high ones 16-31.
void store_nibbles(const uint8_t* codes, uint8_t* out) {
  for (int j = 0; j < 16; ++j) out[j] = static_cast<uint8_t>((codes[j] & 15) | codes[j + 16] << 4);
}

void store_fifth_bits(const uint8_t* codes, uint8_t* out) {
  uint32_t bits = 0;
  for (int e = 0; e < 32; ++e) bits |= static_cast<uint32_t>(codes[e] >> 4) << e;
  std::memcpy(out, &bits, sizeof bits);
}

// Calls encode(x, blocks of this group, bytes) for groups of up to kLanes blocks of 32 values.
template <int bytes_per_block, class Encode>
void for_groups(const float* values, size_t blocks, uint8_t* out, Encode encode) {
  for (size_t first = 0; first < blocks; first += kLanes) {
    const size_t count = std::min<size_t>(kLanes, blocks - first);
    Floats x[32];
    load_lanes(values + 32 * first, count, x);
    encode(x, count, out + bytes_per_block * first);
  }
}

// ---- blocks of 32 with one half-precision scale

// The best of three, as stored: the fitted scale, the plain one, which puts the extreme value on `plain_target`, and no
// scale, where even the smallest is too large for tiny values.
template <int n, class Levels, size_t count>
Floats stored_scale(const Floats (&x)[n], const Levels& levels, float plain_target, const float (&targets)[count],
                    int rounds) {
  Floats best = {};
  Floats error = scale_error(x, best, levels);
  for (const Floats scale : {extreme(x) / plain_target, fit_scale(x, levels, targets, rounds)}) {
    const Floats stored = scale_as_half(scale);
    const Floats stored_error = scale_error(x, stored, levels);
    best = choose(stored_error < error, stored, best);
    error = smaller(stored_error, error);
  }
  return best;
}

constexpr float kTargets4[] = {-9.0f, -8.7f, -8.4f, -8.1f, -7.8f, -7.5f, -7.2f, -6.9f,
                               8.1f,  7.8f,  7.5f,  7.2f,  6.9f,  6.6f,  6.3f};
constexpr float kTargets5[] = {-17.0f, -16.6f, -16.2f, -15.8f, -15.4f, -15.0f,
                               -14.6f, 15.8f,  15.4f,  15.0f,  14.6f,  14.2f};

void encode_q4_0(const float* values, size_t blocks, uint8_t* out) {  // f16 d | 16 B
  for_groups<18>(values, blocks, out, [](const Floats(&x)[32], size_t count, uint8_t* block) {
    constexpr IntegerLevels levels = {-8, 7};
    const Floats scale = stored_scale(x, levels, -8, kTargets4, 2);
    Codes<32> codes;
    quantise(x, scale, Floats{}, levels, 8, codes);
    for (size_t lane = 0; lane < count; ++lane, block += 18) {
      store_half(block, scale[lane]);
      store_nibbles(codes[lane], block + 2);
    }
  });
}

void encode_q5_0(const float* values, size_t blocks, uint8_t* out) {  // f16 d | u32 fifth bits | 16 B
  for_groups<22>(values, blocks, out, [](const Floats(&x)[32], size_t count, uint8_t* block) {
    constexpr IntegerLevels levels = {-16, 15};
    const Floats scale = stored_scale(x, levels, -16, kTargets5, 2);
    Codes<32> codes;
    quantise(x, scale, Floats{}, levels, 16, codes);
    for (size_t lane = 0; lane < count; ++lane, block += 22) {
      store_half(block, scale[lane]);
      store_fifth_bits(codes[lane], block + 2);
      store_nibbles(codes[lane], block + 6);
    }
  });
}

void encode_q8_0(const float* values, size_t blocks, uint8_t* out) {  // f16 d | 32 i8
  for_groups<34>(values, blocks, out, [](const Floats(&x)[32], size_t count, uint8_t* block) {
    constexpr IntegerLevels levels = {-127, 127};
    constexpr float targets[] = {127};
    const Floats scale = stored_scale(x, levels, 127, targets, 1);
    Codes<32> codes;
    quantise(x, scale, Floats{}, levels, 128, codes);
    for (size_t lane = 0; lane < count; ++lane, block += 34) {
      store_half(block, scale[lane]);
      for (int e = 0; e < 32; ++e) block[2 + e] = static_cast<uint8_t>(codes[lane][e] - 128);
    }
  });
}

void encode_iq4_nl(const float* values, size_t blocks, uint8_t* out) {  // f16 d | 16 B
  for_groups<18>(values, blocks, out, [](const Floats(&x)[32], size_t count, uint8_t* block) {
    constexpr Iq4Levels levels;
    constexpr float targets[] = {-147, -142, -137, -132, -127, -122, -117, -112,
                                 -107, 133,  128,  123,  118,  113,  108,  103};
    const Floats scale = stored_scale(x, levels, -127, targets, 2);
    Codes<32> codes;
    quantise(x, scale, Floats{}, levels, 128, codes);
    for (size_t lane = 0; lane < count; ++lane, block += 18) {
      store_half(block, scale[lane]);
      for (uint8_t& code : codes[lane]) {
        code = static_cast<uint8_t>(
            std::find(std::begin(levels.values), std::end(levels.values), static_cast<float>(code) - 128) -
            levels.values);
      }
      store_nibbles(codes[lane], block + 2);
    }
  });
}

void encode_mxfp4(const float* values, size_t blocks, uint8_t* out) {  // u8 e | 16 B
  for_groups<17>(values, blocks, out, [](const Floats(&x)[32], size_t count, uint8_t* block) {
    constexpr Fp4Levels levels;
    // The largest value lies in [4, 8) of the exponent's unit, where 6 is the largest level; or in [2, 4) of the next.
    const Floats top = magnitude(extreme(x));
    Ints exponent = {};  // of half the unit, because the levels are doubled
    Floats scale = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      if (top[lane] < 0x1p-120f) continue;
      exponent[lane] = std::ilogb(top[lane]) - 3;
      scale[lane] = std::ldexp(1.0f, exponent[lane]);
    }
    Floats y[32];
    const Floats inverse = inverse_of(scale);
    for (int e = 0; e < 32; ++e) y[e] = x[e] * inverse;
    const Ints wider = scale_error(y, all(2), levels) < scale_error(y, all(1), levels);
    Codes<32> codes;
    quantise(y, choose(wider, all(2), all(1)), Floats{}, levels, 12, codes);
    for (size_t lane = 0; lane < count; ++lane, block += 17) {
      // Scales are 2^(code - 128) times the doubled levels. A block of zeros gets the code 0, as other writers do.
      block[0] = static_cast<uint8_t>(scale[lane] == 0 ? 0 : exponent[lane] - wider[lane] + 128);
      for (uint8_t& code : codes[lane]) {
        constexpr uint8_t code_of[25] = {15, 0, 0, 0, 14, 0, 13, 0, 12, 11, 10, 9, 0,
                                         1,  2, 3, 4, 0,  5, 0,  6, 0,  0,  0,  7};
        code = code_of[code];
      }
      store_nibbles(codes[lane], block + 1);
    }
  });
}

// ---- blocks of 32 with a half-precision scale and minimum

template <size_t count>
Affine stored_affine(const Floats (&x)[32], float top, const float (&steps)[count]) {
  Affine fitted = fit_affine<false>(x, top, steps, 2);
  fitted = {scale_as_half(fitted.scale), as_half(fitted.offset)};
  Floats low = x[0], high = x[0];
  for (int e = 1; e < 32; ++e) {
    low = smaller(low, x[e]);
    high = larger(high, x[e]);
  }
  const Affine plain = {scale_as_half((high - low) / top), as_half(low)};
  const Ints better = affine_error(x, fitted, top) < affine_error(x, plain, top);
  return {choose(better, fitted.scale, plain.scale), choose(better, fitted.offset, plain.offset)};
}

constexpr float kSteps4[] = {-1.0f, -0.6f, -0.3f, 0.0f, 0.3f, 0.6f, 0.9f, 1.2f, 1.5f, 1.9f, 2.4f, 3.0f};
constexpr float kSteps5[] = {-1.0f, -0.5f, 0.0f, 0.4f, 0.8f, 1.2f, 1.7f, 2.3f};

void encode_q4_1(const float* values, size_t blocks, uint8_t* out) {  // f16 d, m | 16 B
  for_groups<20>(values, blocks, out, [](const Floats(&x)[32], size_t count, uint8_t* block) {
    const Affine fit = stored_affine(x, 15, kSteps4);
    Codes<32> codes;
    quantise(x, fit.scale, fit.offset, IntegerLevels{0, 15}, 0, codes);
    for (size_t lane = 0; lane < count; ++lane, block += 20) {
      store_half(block, fit.scale[lane]);
      store_half(block + 2, fit.offset[lane]);
      store_nibbles(codes[lane], block + 4);
    }
  });
}

void encode_q5_1(const float* values, size_t blocks, uint8_t* out) {  // f16 d, m | u32 fifth bits | 16 B
  for_groups<24>(values, blocks, out, [](const Floats(&x)[32], size_t count, uint8_t* block) {
    const Affine fit = stored_affine(x, 31, kSteps5);
    Codes<32> codes;
    quantise(x, fit.scale, fit.offset, IntegerLevels{0, 31}, 0, codes);
    for (size_t lane = 0; lane < count; ++lane, block += 24) {
      store_half(block, fit.scale[lane]);
      store_half(block + 2, fit.offset[lane]);
      store_fifth_bits(codes[lane], block + 4);
      store_nibbles(codes[lane], block + 8);
    }
  });
}

// ---- blocks of 256: eight sub-blocks of 32, one per lane

float largest(Floats v) {
  float out = v[0];
  for (int lane = 1; lane < kLanes; ++lane) out = std::max(out, v[lane]);
  return out;
}

float sum(Floats v) {
  float out = v[0];
  for (int lane = 1; lane < kLanes; ++lane) out += v[lane];
  return out;
}

// Sub-block j: value = d * scale[j] * q - dmin * min[j], with six-bit integers for scales and minima.
struct SuperBlock {
  float d = 0, dmin = 0;
  Floats scale = {}, min = {};
  Affine affine() const { return {d * scale, -(dmin * min)}; }
};

// The unit of integer scales as a half. Below 2^-14, where halves are coarse, it is rounded away from zero: too small a
// unit could not reach the largest scale.
float unit_as_half(float v) {
  uint16_t bits = float_to_half(v);
  if (std::fabs(v) < 0x1p-14f && std::fabs(half_to_float(bits)) < std::fabs(v)) ++bits;
  return half_to_float(bits);
}

// Integers for wanted scales in units of the largest.
Floats six_bits(Floats wanted, float& unit) {
  constexpr IntegerLevels levels = {0, 63};
  unit = unit_as_half(largest(wanted) / 63);
  return levels.nearest(wanted * inverse_of(all(unit)));
}

// Tries the neighbours of the integers of each sub-block; a minimum follows its scale.
void improve_integers(const Floats (&x)[32], float top, SuperBlock& block, Floats& error) {
  constexpr IntegerLevels six = {0, 63};
  const auto offer = [&](Floats scale, Floats min) {
    SuperBlock other = block;
    other.scale = scale;
    other.min = min;
    const Floats other_error = affine_error(x, other.affine(), top);
    const Ints better = other_error < error;
    block.scale = choose(better, scale, block.scale);
    block.min = choose(better, min, block.min);
    error = choose(better, other_error, error);
  };
  // A step of the scale moves the middle of the levels; the minimum makes up for it.
  const float shift = block.dmin > 0 ? block.d * (top / 2) / block.dmin : 0;
  const SuperBlock start = block;
  for (const float step : {-1.0f, 1.0f}) {
    const Floats scale = six.nearest(start.scale + step);
    offer(scale, start.min);
    offer(scale, six.nearest(start.min + step * shift));
  }
  const Floats min = block.min;
  for (const float step : {-1.0f, 1.0f}) offer(block.scale, six.nearest(min + step));
}

// The best d and dmin for quants, scales and minima as they are.
void improve_units(const Floats (&x)[32], float top, SuperBlock& block, Floats& error) {
  const Affine fit = block.affine();
  const Floats inverse = inverse_of(fit.scale);
  const IntegerLevels levels = {0, top};
  Floats xq = {}, q_sum = {}, qq = {}, x_sum = {};
  for (int e = 0; e < 32; ++e) {
    const Floats q = levels.nearest((x[e] - fit.offset) * inverse);
    xq += x[e] * q;
    q_sum += q;
    qq += q * q;
    x_sum += x[e];
  }
  // Normal equations of x = d * (scale q) - dmin * min over all sub-blocks.
  const double ss = sum(block.scale * block.scale * qq), sm = sum(block.scale * block.min * q_sum);
  const double mm = sum(block.min * block.min) * 32, xs = sum(block.scale * xq), xm = sum(block.min * x_sum);
  const double determinant = ss * mm - sm * sm;
  SuperBlock other = block;
  if (determinant > 0) {
    other.d = static_cast<float>((xs * mm - xm * sm) / determinant);
    other.dmin = static_cast<float>((xs * sm - xm * ss) / determinant);
  } else if (ss > 0) {
    other.d = static_cast<float>(xs / ss);
  }
  if (!(other.d > 0) || !(other.dmin >= 0)) return;
  other.d = scale_as_half(all(other.d))[0];
  other.dmin = as_half(all(other.dmin))[0];
  const Floats other_error = affine_error(x, other.affine(), top);
  if (!(sum(other_error) < sum(error))) return;
  block = other;
  error = other_error;
}

template <size_t count>
SuperBlock fit_super_block(const Floats (&x)[32], float top, const float (&steps)[count]) {
  const Affine fit = fit_affine<true>(x, top, steps, 1);
  SuperBlock block;
  block.scale = six_bits(fit.scale, block.d);
  block.min = six_bits(-fit.offset, block.dmin);
  Floats error = affine_error(x, block.affine(), top);
  improve_integers(x, top, block, error);
  improve_units(x, top, block, error);
  improve_integers(x, top, block, error);
  return block;
}

// Eight six-bit scales and minima in 12 bytes: the top two bits of the last four of each lie above the first four.
void store_scales(const SuperBlock& block, uint8_t* out) {
  for (int j = 0; j < 4; ++j) {
    const auto scale = static_cast<unsigned>(block.scale[j]), min = static_cast<unsigned>(block.min[j]);
    const auto scale4 = static_cast<unsigned>(block.scale[j + 4]), min4 = static_cast<unsigned>(block.min[j + 4]);
    out[j] = static_cast<uint8_t>(scale | (scale4 >> 4) << 6);
    out[j + 4] = static_cast<uint8_t>(min | (min4 >> 4) << 6);
    out[j + 8] = static_cast<uint8_t>((scale4 & 15) | (min4 & 15) << 4);
  }
}

// Groups of 64 values share 32 bytes, the low nibbles first.
void store_nibbles_of_64(const Codes<32>& codes, uint8_t* out) {
  for (int pair = 0; pair < 4; ++pair) {
    for (int l = 0; l < 32; ++l) {
      *out++ = static_cast<uint8_t>((codes[2 * pair][l] & 15) | codes[2 * pair + 1][l] << 4);
    }
  }
}

void encode_q4_k(const float* values, size_t blocks, uint8_t* out) {  // f16 d, dmin | 12 B scales | 128 B
  for (size_t b = 0; b < blocks; ++b, values += 256, out += 144) {
    Floats x[32];
    load_lanes(values, kLanes, x);
    const SuperBlock block = fit_super_block(x, 15, kSteps4);
    Codes<32> codes;
    quantise(x, block.affine().scale, block.affine().offset, IntegerLevels{0, 15}, 0, codes);
    store_half(out, block.d);
    store_half(out + 2, block.dmin);
    store_scales(block, out + 4);
    store_nibbles_of_64(codes, out + 16);
  }
}

void encode_q5_k(const float* values, size_t blocks, uint8_t* out) {  // ... | 12 B scales | 32 B fifth bits | 128 B
  for (size_t b = 0; b < blocks; ++b, values += 256, out += 176) {
    Floats x[32];
    load_lanes(values, kLanes, x);
    const SuperBlock block = fit_super_block(x, 31, kSteps5);
    Codes<32> codes;
    quantise(x, block.affine().scale, block.affine().offset, IntegerLevels{0, 31}, 0, codes);
    store_half(out, block.d);
    store_half(out + 2, block.dmin);
    store_scales(block, out + 4);
    for (int l = 0; l < 32; ++l) {
      unsigned bits = 0;
      for (int j = 0; j < 8; ++j) bits |= static_cast<unsigned>(codes[j][l] >> 4) << j;
      out[16 + l] = static_cast<uint8_t>(bits);
    }
    store_nibbles_of_64(codes, out + 48);
  }
}

// ---- Q6_K: sixteen sub-blocks of 16, in two groups of lanes; value = d * scale[j] * q

struct Q6Block {
  float d = 0;
  Floats scale[2] = {};
};

constexpr IntegerLevels kQ6Levels = {-32, 31};

Floats q6_error(const Floats (&x)[16], Floats scale) {
  return scale_error(x, scale, kQ6Levels);
}

void improve_integers(const Floats (&x)[2][16], Q6Block& block, Floats (&error)[2]) {
  constexpr IntegerLevels eight = {-128, 127};
  for (int half = 0; half < 2; ++half) {
    const Floats start = block.scale[half];
    for (const float step : {-1.0f, 1.0f}) {
      const Floats scale = eight.nearest(start + step);
      const Floats other = q6_error(x[half], block.d * scale);
      const Ints better = other < error[half];
      block.scale[half] = choose(better, scale, block.scale[half]);
      error[half] = choose(better, other, error[half]);
    }
  }
}

void improve_unit(const Floats (&x)[2][16], Q6Block& block, Floats (&error)[2]) {
  double xs = 0, ss = 0;
  for (int half = 0; half < 2; ++half) {
    const Floats inverse = inverse_of(block.d * block.scale[half]);
    Floats xq = {}, qq = {};
    for (int e = 0; e < 16; ++e) {
      const Floats q = kQ6Levels.nearest(x[half][e] * inverse);
      xq += x[half][e] * q;
      qq += q * q;
    }
    xs += sum(block.scale[half] * xq);
    ss += sum(block.scale[half] * block.scale[half] * qq);
  }
  if (!(ss > 0)) return;
  Q6Block other = block;
  other.d = scale_as_half(all(static_cast<float>(xs / ss)))[0];
  const Floats other_error[2] = {q6_error(x[0], other.d * other.scale[0]), q6_error(x[1], other.d * other.scale[1])};
  if (!(sum(other_error[0] + other_error[1]) < sum(error[0] + error[1]))) return;
  block = other;
  error[0] = other_error[0];
  error[1] = other_error[1];
}

Q6Block fit_q6_block(const Floats (&x)[2][16]) {
  constexpr float targets[] = {-33.0f, -32.5f, -32.0f, -31.5f, -31.0f, -30.5f, 31.6f, 31.1f, 30.6f, 30.1f};
  const Floats wanted[2] = {fit_scale(x[0], kQ6Levels, targets, 1), fit_scale(x[1], kQ6Levels, targets, 1)};
  // The scale of the largest magnitude gets the integer -128.
  float top = 0;
  for (int half = 0; half < 2; ++half) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (std::abs(wanted[half][lane]) > std::abs(top)) top = wanted[half][lane];
    }
  }
  Q6Block block;
  block.d = unit_as_half(top / -128);
  Floats error[2];
  for (int half = 0; half < 2; ++half) {
    constexpr IntegerLevels eight = {-128, 127};
    block.scale[half] = eight.nearest(wanted[half] * inverse_of(all(block.d)));
    error[half] = q6_error(x[half], block.d * block.scale[half]);
  }
  improve_integers(x, block, error);
  improve_unit(x, block, error);
  return block;
}

void encode_q6_k(const float* values, size_t blocks, uint8_t* out) {  // 128 B low | 64 B high | 16 i8 scales | f16 d
  for (size_t b = 0; b < blocks; ++b, values += 256, out += 210) {
    Floats x[2][16];
    for (int half = 0; half < 2; ++half) load_lanes(values + 128 * half, kLanes, x[half]);
    const Q6Block block = fit_q6_block(x);
    for (int half = 0; half < 2; ++half) {
      Codes<16> codes;
      quantise(x[half], block.d * block.scale[half], Floats{}, kQ6Levels, 32, codes);
      const uint8_t* code = codes[0];
      for (int l = 0; l < 64; ++l) {
        out[64 * half + l] = static_cast<uint8_t>((code[l] & 15) | (code[l + 64] & 15) << 4);
      }
      for (int l = 0; l < 32; ++l) {
        out[128 + 32 * half + l] = static_cast<uint8_t>(code[l] >> 4 | (code[l + 32] >> 4) << 2 |
                                                        (code[l + 64] >> 4) << 4 | (code[l + 96] >> 4) << 6);
      }
      for (int j = 0; j < 8; ++j)
        out[192 + 8 * half + j] = static_cast<uint8_t>(static_cast<int>(block.scale[half][j]));
    }
    store_half(out + 208, block.d);
  }
}

BlockEncoder encoder_of(TensorType type) {
  switch (type) {
    case TensorType::q4_0:
      return encode_q4_0;
    case TensorType::q4_1:
      return encode_q4_1;
    case TensorType::q5_0:
      return encode_q5_0;
    case TensorType::q5_1:
      return encode_q5_1;
    case TensorType::q8_0:
      return encode_q8_0;
    case TensorType::q4_k:
      return encode_q4_k;
    case TensorType::q5_k:
      return encode_q5_k;
    case TensorType::q6_k:
      return encode_q6_k;
    case TensorType::iq4_nl:
      return encode_iq4_nl;
    case TensorType::mxfp4:
      return encode_mxfp4;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace gale::format
