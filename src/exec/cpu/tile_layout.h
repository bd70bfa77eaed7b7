// Reads single rows of tiles with plain code: block sizes, and 32 values of one row with the factors that belong to
// them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/numbers.h"
#include "format/tensor_type.h"

namespace gale::exec {

// Values and bytes of a block as it stands in the file; a tile of H rows takes H times the bytes. {0, 0}: no kernels.
struct BlockSize {
  uint32_t values, bytes;
};

constexpr BlockSize block_size(format::TensorType type) {
  using enum format::TensorType;
  switch (type) {
    case f32:
      return {1, 4};
    case f16:
      return {1, 2};
    case bf16:
      return {1, 2};
    case q4_0:
      return {32, 2 + 16};
    case q4_1:
      return {32, 2 + 2 + 16};
    case q5_0:
      return {32, 2 + 4 + 16};
    case q5_1:
      return {32, 2 + 2 + 4 + 16};
    case q8_0:
      return {32, 2 + 32};
    case q4_k:
      return {256, 2 + 2 + 12 + 8 * 16};
    case q5_k:
      return {256, 2 + 2 + 12 + 8 * (4 + 16)};
    case q6_k:
      return {256, 2 + 8 * (2 + 8 + 16)};
    default:
      return {0, 0};
  }
}

constexpr bool is_plain(format::TensorType type) {
  return block_size(type).values == 1;
}

// What is taken off a stored value u before it is scaled.
constexpr int stored_offset(format::TensorType type) {
  using enum format::TensorType;
  return type == q4_0 ? 8 : type == q5_0 ? 16 : type == q8_0 ? 128 : type == q6_k ? 32 : 0;
}

constexpr bool has_minimum(format::TensorType type) {
  using enum format::TensorType;
  return type == q4_1 || type == q5_1 || type == q4_k || type == q5_k;
}

// 32 values of one row: value = d * half_scale * (u - offset) + minimum. half_scale is 1 except for Q6_K.
struct RowBlock {
  uint8_t u[32];
  float d;
  float minimum;  // for K quants -(dmin * mn)
  int half_scale[2];
};

namespace tile_detail {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline float load_half(const std::byte* at) {
  return half_to_float(load<uint16_t>(at));
}

// Number n of the 16 six-bit numbers of a row, from its three words (see tiles.h).
inline uint32_t six_bits(const uint32_t (&words)[3], int n) {
  if (n < 15) return words[n / 5] >> (6 * (n % 5)) & 63;
  return words[0] >> 30 | (words[1] >> 30) << 2 | (words[2] >> 30) << 4;
}

inline void read_nibbles(const std::byte* nibbles, int height, int row, uint8_t* u) {
  for (int g = 0; g < 4; ++g) {
    const std::byte* four = nibbles + 4 * (g * height + row);
    for (int i = 0; i < 4; ++i) {
      u[8 * g + i] = static_cast<uint8_t>(four[i]) & 15;
      u[8 * g + 4 + i] = static_cast<uint8_t>(four[i]) >> 4;
    }
  }
}

inline void add_fifth_bits(uint32_t fifth, uint8_t* u) {
  for (int s = 0; s < 8; ++s)
    for (int i = 0; i < 4; ++i) u[4 * s + i] |= static_cast<uint8_t>((fifth >> (8 * i + s) & 1) << 4);
}

}  // namespace tile_detail

// Reads block `block` (of 32 values, counted along the row) of row `row` of a tile row. Quantised types only.
template <format::TensorType kType>
void read_row_block(const std::byte* tile_row, int height, size_t block, int row, RowBlock& out) {
  using namespace tile_detail;
  using enum format::TensorType;
  constexpr BlockSize kSize = block_size(kType);
  constexpr size_t kParts = kSize.values / 32;
  const int h = height;
  const int part = static_cast<int>(block % kParts);
  const std::byte* tile = tile_row + block / kParts * kSize.bytes * h;
  out.d = load_half(tile + 2 * row);
  out.minimum = 0;
  out.half_scale[0] = out.half_scale[1] = 1;

  if constexpr (kType == q4_0) {
    read_nibbles(tile + 2 * h, h, row, out.u);
  } else if constexpr (kType == q4_1) {
    out.minimum = load_half(tile + 2 * h + 2 * row);
    read_nibbles(tile + 4 * h, h, row, out.u);
  } else if constexpr (kType == q5_0) {
    read_nibbles(tile + 6 * h, h, row, out.u);
    add_fifth_bits(load<uint32_t>(tile + 2 * h + 4 * row), out.u);
  } else if constexpr (kType == q5_1) {
    out.minimum = load_half(tile + 2 * h + 2 * row);
    read_nibbles(tile + 8 * h, h, row, out.u);
    add_fifth_bits(load<uint32_t>(tile + 4 * h + 4 * row), out.u);
  } else if constexpr (kType == q8_0) {
    for (int s = 0; s < 8; ++s) std::memcpy(out.u + 4 * s, tile + 2 * h + 4 * (s * h + row), 4);
  } else if constexpr (kType == q4_k || kType == q5_k) {
    const std::byte* six = tile + 4 * h + 4 * row;
    const uint32_t words[3] = {load<uint32_t>(six), load<uint32_t>(six + 4 * h), load<uint32_t>(six + 8 * h)};
    out.d *= static_cast<float>(six_bits(words, part));
    out.minimum = -(load_half(tile + 2 * h + 2 * row) * static_cast<float>(six_bits(words, 8 + part)));
    const std::byte* parts = tile + 16 * h;
    if constexpr (kType == q4_k) {
      read_nibbles(parts + part * 16 * h, h, row, out.u);
    } else {
      read_nibbles(parts + part * 20 * h + 4 * h, h, row, out.u);
      add_fifth_bits(load<uint32_t>(parts + part * 20 * h + 4 * row), out.u);
    }
  } else {
    static_assert(kType == q6_k);
    const std::byte* at = tile + 2 * h + part * 26 * h;
    read_nibbles(at + 10 * h, h, row, out.u);
    for (int half = 0; half < 2; ++half) {
      out.half_scale[half] = load<int8_t>(at + half * h + row);
      const uint32_t high = load<uint32_t>(at + 2 * h + 4 * (half * h + row));
      for (int s = 0; s < 4; ++s)
        for (int i = 0; i < 4; ++i)
          out.u[16 * half + 4 * s + i] |= static_cast<uint8_t>((high >> (8 * i + 2 * s) & 3) << 4);
    }
  }
}

// Value `k` of row `row` of a plain type.
template <format::TensorType kType>
float read_plain(const std::byte* tile_row, int height, size_t k, int row) {
  using enum format::TensorType;
  const std::byte* at =
      tile_row + (k * static_cast<size_t>(height) + static_cast<size_t>(row)) * block_size(kType).bytes;
  if constexpr (kType == f32) return tile_detail::load<float>(at);
  if constexpr (kType == f16) return tile_detail::load_half(at);
  if constexpr (kType == bf16) return bfloat16_to_float(tile_detail::load<uint16_t>(at));
}

}  // namespace gale::exec
