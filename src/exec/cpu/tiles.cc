// Re-tiles weights and decodes rows of tiles; the plain version of both.
#include "exec/cpu/tiles.h"

#include <cstring>

#include "base/cpu.h"
#include "exec/cpu/tile_layout.h"
#include "exec/cpu/tile_writers.h"

namespace gale::exec {
namespace {

using format::TensorType;
using tile_detail::load;
using enum TensorType;

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void write_nibbles(const uint8_t* u, std::byte* nibbles, size_t height, size_t row) {
  for (size_t g = 0; g < 4; ++g)
    for (size_t i = 0; i < 4; ++i)
      nibbles[4 * (g * height + row) + i] = static_cast<std::byte>((u[8 * g + i] & 15) | (u[8 * g + 4 + i] & 15) << 4);
}

// Bit 8 i + s = bit 4 of value 4 s + i.
uint32_t fifth_word(const uint8_t* u) {
  uint32_t word = 0;
  for (int s = 0; s < 8; ++s)
    for (int i = 0; i < 4; ++i) word |= static_cast<uint32_t>(u[4 * s + i] >> 4 & 1) << (8 * i + s);
  return word;
}

// 16 file bytes: low nibbles are values 0-15, high nibbles 16-31.
void unpack_halves(const std::byte* file, uint8_t* u) {
  for (int i = 0; i < 16; ++i) {
    u[i] = static_cast<uint8_t>(file[i]) & 15;
    u[i + 16] = static_cast<uint8_t>(file[i]) >> 4;
  }
}

// Bit i is the fifth of value i.
void add_fifth_bits(uint32_t fifth, uint8_t* u) {
  for (int i = 0; i < 32; ++i) u[i] |= static_cast<uint8_t>((fifth >> i & 1) << 4);
}

// Values of sub-block `part` of a Q4_K or Q5_K block, whose nibbles start at `nibbles`.
void unpack_part(const std::byte* nibbles, size_t part, uint8_t* u) {
  for (size_t i = 0; i < 32; ++i) u[i] = static_cast<uint8_t>(nibbles[part / 2 * 32 + i]) >> (part % 2 ? 4 : 0) & 15;
}

// One block of one row into its lane. h = height, r = row.
template <TensorType kType>
void write_block(const std::byte* file, std::byte* tile, size_t h, size_t r) {
  uint8_t u[32];
  std::memcpy(tile + 2 * r, file + (kType == q6_k ? 208 : 0), 2);  // d
  if constexpr (kType == q4_0) {
    unpack_halves(file + 2, u);
    write_nibbles(u, tile + 2 * h, h, r);
  } else if constexpr (kType == q4_1) {
    std::memcpy(tile + 2 * h + 2 * r, file + 2, 2);
    unpack_halves(file + 4, u);
    write_nibbles(u, tile + 4 * h, h, r);
  } else if constexpr (kType == q5_0) {
    unpack_halves(file + 6, u);
    add_fifth_bits(load<uint32_t>(file + 2), u);
    store(tile + 2 * h + 4 * r, fifth_word(u));
    write_nibbles(u, tile + 6 * h, h, r);
  } else if constexpr (kType == q5_1) {
    std::memcpy(tile + 2 * h + 2 * r, file + 2, 2);
    unpack_halves(file + 8, u);
    add_fifth_bits(load<uint32_t>(file + 4), u);
    store(tile + 4 * h + 4 * r, fifth_word(u));
    write_nibbles(u, tile + 8 * h, h, r);
  } else if constexpr (kType == q8_0) {
    for (size_t s = 0; s < 8; ++s)
      store(tile + 2 * h + 4 * (s * h + r), load<uint32_t>(file + 2 + 4 * s) ^ 0x80808080u);
  } else if constexpr (kType == q4_k || kType == q5_k) {
    std::memcpy(tile + 2 * h + 2 * r, file + 2, 2);  // dmin
    const SixWords six = repack_six(load<uint32_t>(file + 4), load<uint32_t>(file + 8), load<uint32_t>(file + 12));
    for (size_t w = 0; w < 3; ++w) store(tile + 4 * h + 4 * (w * h + r), six.word[w]);
    std::byte* to = tile + 16 * h;
    for (size_t part = 0; part < 8; ++part) {
      unpack_part(file + (kType == q4_k ? 16 : 48), part, u);
      if constexpr (kType == q5_k) {
        for (size_t i = 0; i < 32; ++i)
          u[i] |= static_cast<uint8_t>((static_cast<uint32_t>(file[16 + i]) >> part & 1) << 4);
        store(to + 4 * r, fifth_word(u));
        to += 4 * h;
      }
      write_nibbles(u, to, h, r);
      to += 16 * h;
    }
  } else {
    static_assert(kType == q6_k);
    for (size_t part = 0; part < 8; ++part) {
      std::byte* to = tile + 2 * h + part * 26 * h;
      const size_t group = part / 4, quarter = part % 4;
      const std::byte* low = file + 64 * group + 32 * (quarter & 1);
      const std::byte* high = file + 128 + 32 * group;
      uint32_t words[2] = {0, 0};
      for (size_t i = 0; i < 32; ++i) {
        u[i] = static_cast<uint8_t>(low[i]) >> (quarter < 2 ? 0 : 4) & 15;
        words[i / 16] |= (static_cast<uint32_t>(high[i]) >> (2 * quarter) & 3) << (8 * (i % 4) + 2 * (i % 16 / 4));
      }
      for (size_t half = 0; half < 2; ++half) {
        to[half * h + r] = file[192 + 2 * part + half];
        store(to + 2 * h + 4 * (half * h + r), words[half]);
      }
      write_nibbles(u, to + 10 * h, h, r);
    }
  }
}

template <TensorType kType>
void write_rows(size_t h, size_t row_length, const std::byte* file_rows, size_t rows, std::byte* tile_row) {
  constexpr BlockSize kSize = block_size(kType);
  const size_t blocks = row_length / kSize.values;
  for (size_t r = 0; r < rows; ++r) {
    const std::byte* file = file_rows + r * blocks * kSize.bytes;
    for (size_t b = 0; b < blocks; ++b) {
      if constexpr (is_plain(kType))
        std::memcpy(tile_row + (b * h + r) * kSize.bytes, file + b * kSize.bytes, kSize.bytes);
      else
        write_block<kType>(file + b * kSize.bytes, tile_row + b * h * kSize.bytes, h, r);
    }
  }
}

template <TensorType kType>
void decode_row(int height, size_t row_length, const std::byte* tile_row, int row, float* out) {
  if constexpr (is_plain(kType)) {
    for (size_t k = 0; k < row_length; ++k) out[k] = read_plain<kType>(tile_row, height, k, row);
  } else {
    for (size_t b = 0; b < row_length / 32; ++b) {
      RowBlock block;
      read_row_block<kType>(tile_row, height, b, row, block);
      // Exact in double (all products and sums span less than 53 bits), so the value is rounded once.
      for (int i = 0; i < 32; ++i) {
        const int q = block.half_scale[i / 16] * (block.u[i] - stored_offset(kType));
        double value = static_cast<double>(block.d) * q;
        if constexpr (has_minimum(kType)) value += static_cast<double>(block.minimum);
        out[32 * b + i] = static_cast<float>(value);
      }
    }
  }
}

}  // namespace

bool has_matrix_kernel(TensorType type) {
  return block_size(type).values != 0;
}

size_t tile_row_bytes(TensorType type, uint32_t height, size_t row_length) {
  const BlockSize size = block_size(type);
  return size.values == 0 ? 0 : row_length / size.values * size.bytes * height;
}

void make_tile_row_scalar(TensorType type, uint32_t height, size_t row_length, const std::byte* file_rows,
                          uint32_t rows, std::byte* tile_row) {
  if (rows < height) std::memset(tile_row, 0, tile_row_bytes(type, height, row_length));
  switch (type) {
    case f32:
      return write_rows<f32>(height, row_length, file_rows, rows, tile_row);
    case f16:
    case bf16:
      return write_rows<f16>(height, row_length, file_rows, rows, tile_row);
    case q4_0:
      return write_rows<q4_0>(height, row_length, file_rows, rows, tile_row);
    case q4_1:
      return write_rows<q4_1>(height, row_length, file_rows, rows, tile_row);
    case q5_0:
      return write_rows<q5_0>(height, row_length, file_rows, rows, tile_row);
    case q5_1:
      return write_rows<q5_1>(height, row_length, file_rows, rows, tile_row);
    case q8_0:
      return write_rows<q8_0>(height, row_length, file_rows, rows, tile_row);
    case q4_k:
      return write_rows<q4_k>(height, row_length, file_rows, rows, tile_row);
    case q5_k:
      return write_rows<q5_k>(height, row_length, file_rows, rows, tile_row);
    case q6_k:
      return write_rows<q6_k>(height, row_length, file_rows, rows, tile_row);
    default:
      return;
  }
}

void make_tile_row(TensorType type, uint32_t height, size_t row_length, const std::byte* file_rows, uint32_t rows,
                   std::byte* tile_row) {
#if defined(__x86_64__)
  static const auto write = detect_isa() >= Isa::avx2 ? make_tile_row_avx2 : make_tile_row_scalar;
#else
  static const auto write = make_tile_row_scalar;
#endif
  write(type, height, row_length, file_rows, rows, tile_row);
}

void decode_tile_row(TensorType type, uint32_t height, size_t row_length, const std::byte* tile_row, uint32_t row,
                     float* out) {
  const int h = static_cast<int>(height), r = static_cast<int>(row);
  switch (type) {
    case f32:
      return decode_row<f32>(h, row_length, tile_row, r, out);
    case f16:
      return decode_row<f16>(h, row_length, tile_row, r, out);
    case bf16:
      return decode_row<bf16>(h, row_length, tile_row, r, out);
    case q4_0:
      return decode_row<q4_0>(h, row_length, tile_row, r, out);
    case q4_1:
      return decode_row<q4_1>(h, row_length, tile_row, r, out);
    case q5_0:
      return decode_row<q5_0>(h, row_length, tile_row, r, out);
    case q5_1:
      return decode_row<q5_1>(h, row_length, tile_row, r, out);
    case q8_0:
      return decode_row<q8_0>(h, row_length, tile_row, r, out);
    case q4_k:
      return decode_row<q4_k>(h, row_length, tile_row, r, out);
    case q5_k:
      return decode_row<q5_k>(h, row_length, tile_row, r, out);
    case q6_k:
      return decode_row<q6_k>(h, row_length, tile_row, r, out);
    default:
      return;
  }
}

}  // namespace gale::exec
