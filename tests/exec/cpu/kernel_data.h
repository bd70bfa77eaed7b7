// Random and adversarial weights and activations for tests of tiles and matrix kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/numbers.h"
#include "format/tensor_type.h"

namespace gale::exec::testing {

using format::TensorType;

inline constexpr TensorType kKernelTypes[] = {TensorType::q4_0, TensorType::q4_1, TensorType::q5_0, TensorType::q5_1,
                                              TensorType::q8_0, TensorType::q4_k, TensorType::q5_k, TensorType::q6_k,
                                              TensorType::f16,  TensorType::bf16, TensorType::f32};

enum class Scales {
  ordinary,  // what models hold
  zero,      // all scales zero
  denormal,  // halves and products near the smallest numbers
  extreme,   // largest finite halves, any sign
  special,   // infinities, NaN and ordinary ones mixed
};
inline constexpr Scales kAllScales[] = {Scales::ordinary, Scales::zero, Scales::denormal, Scales::extreme,
                                        Scales::special};

enum class Quants { random, all_ones, all_zero, alternating };
inline constexpr Quants kAllQuants[] = {Quants::random, Quants::all_ones, Quants::all_zero, Quants::alternating};

using Rng = std::mt19937;

inline uint16_t random_half(Rng& rng, Scales scales) {
  const uint32_t bits = static_cast<uint32_t>(rng());
  switch (scales) {
    case Scales::ordinary:
      return float_to_half((static_cast<float>(bits % 20001) - 10000.0f) * 1e-6f);
    case Scales::zero:
      return bits & 1 ? 0x8000 : 0;
    case Scales::denormal:
      return static_cast<uint16_t>((bits & 0x8000) | (bits >> 16 & 3));
    case Scales::extreme:
      return static_cast<uint16_t>((bits & 0x8000) | 0x7bff);
    case Scales::special:
      break;
  }
  constexpr uint16_t kSpecial[] = {0x7c00, 0xfc00, 0x7e00, 0x3c00, 0x0000, 0x8001, 0x7bff, 0x2000};
  return kSpecial[bits % 8];
}

// `values` values (whole blocks) as they stand in a file.
inline std::vector<std::byte> random_weights(Rng& rng, TensorType type, size_t values, Scales scales, Quants quants) {
  const auto info = *format::type_info(type);
  const size_t block = info.bytes_per_block;
  std::vector<std::byte> bytes(values / info.values_per_block * block);
  for (size_t i = 0; i < bytes.size(); ++i) {
    switch (quants) {
      case Quants::random:
        bytes[i] = static_cast<std::byte>(rng());
        break;
      case Quants::all_ones:
        bytes[i] = std::byte{0xff};
        break;
      case Quants::all_zero:
        bytes[i] = std::byte{0};
        break;
      case Quants::alternating:
        bytes[i] = i & 1 ? std::byte{0xf0} : std::byte{0x80};
        break;
    }
  }
  const auto put_half = [&](size_t at) {
    const uint16_t half = random_half(rng, scales);
    std::memcpy(bytes.data() + at, &half, 2);
  };
  for (size_t at = 0; at < bytes.size(); at += block) {
    switch (type) {
      case TensorType::f32: {
        const float value = half_to_float(random_half(rng, scales));
        std::memcpy(bytes.data() + at, &value, 4);
        break;
      }
      case TensorType::bf16: {
        const uint16_t value = float_to_bfloat16(half_to_float(random_half(rng, scales)));
        std::memcpy(bytes.data() + at, &value, 2);
        break;
      }
      case TensorType::q4_1:
      case TensorType::q5_1:
      case TensorType::q4_k:
      case TensorType::q5_k:
        put_half(at), put_half(at + 2);
        break;
      case TensorType::q6_k:
        put_half(at + 208);
        break;
      default:
        put_half(at);
    }
  }
  return bytes;
}

enum class Inputs {
  ordinary,
  zero,
  extreme,  // every block of +-its largest value: all int8 values at the ends
  tiny,     // down to denormals, where 127 / max overflows
  ties,     // values that fall half-way between integers
  special,  // NaN and infinities here and there
};
inline constexpr Inputs kAllInputs[] = {Inputs::ordinary, Inputs::zero, Inputs::extreme,
                                        Inputs::tiny,     Inputs::ties, Inputs::special};

inline std::vector<float> random_inputs(Rng& rng, size_t length, Inputs inputs) {
  std::vector<float> x(length);
  for (size_t i = 0; i < length; ++i) {
    const float unit = (static_cast<float>(rng() % 200001) - 100000.0f) * 1e-5f;
    switch (inputs) {
      case Inputs::ordinary:
        x[i] = unit * (1.0f + static_cast<float>(i / 32 % 7));
        break;
      case Inputs::zero:
        x[i] = rng() & 1 ? 0.0f : -0.0f;
        break;
      case Inputs::extreme:
        x[i] = i / 32 % 3 == 0 ? 3.5f : i / 32 % 3 == 1 ? -3.5f : (rng() & 1 ? 3.5f : -3.5f);
        break;
      case Inputs::tiny:
        x[i] = std::bit_cast<float>((static_cast<uint32_t>(rng()) & 0x80000000u) |
                                    static_cast<uint32_t>(rng()) % (8u << (20 + i / 32 % 8)));
        break;
      case Inputs::ties:
        x[i] = i % 32 == 7 ? 127.0f : static_cast<float>(static_cast<int>(rng() % 253) - 126) + 0.5f;
        break;
      case Inputs::special:
        x[i] = unit;
        if (rng() % 64 == 0) x[i] = std::numeric_limits<float>::infinity() * (rng() & 1 ? 1.0f : -1.0f);
        if (rng() % 96 == 0) x[i] = std::numeric_limits<float>::quiet_NaN();
        break;
    }
  }
  return x;
}

// The same bits, or both NaN (whose sign and payload depend on the order of operands, which compilers may swap).
inline bool same_float(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

}  // namespace gale::exec::testing
