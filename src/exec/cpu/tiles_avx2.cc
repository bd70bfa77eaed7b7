// Re-tiles eight rows at a time with AVX2: nibbles are regrouped in registers and transposed, so that all stores are
// whole vectors.
#include <immintrin.h>

#include <cstring>

#include "exec/cpu/tile_writers.h"

namespace gale::exec {
namespace {

using format::TensorType;
using enum TensorType;

constexpr size_t kRows = 8;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

__m128i load16(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
__m256i load32(const std::byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
void store32(std::byte* at, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), v);
}

__m256i even_words(__m256i a, __m256i b) {
  return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
}
__m256i odd_words(__m256i a, __m256i b) {
  return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xdd));
}

// Inside each 128-bit lane: word i of v[j] becomes word j of v[i].
void transpose4(__m256i (&v)[4]) {
  const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
  const __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
  v[0] = _mm256_unpacklo_epi64(a, c);
  v[1] = _mm256_unpackhi_epi64(a, c);
  v[2] = _mm256_unpacklo_epi64(b, d);
  v[3] = _mm256_unpackhi_epi64(b, d);
}

// Word i of v[j] becomes word j of v[i].
void transpose8(__m256i (&v)[8]) {
  __m256i low[4], high[4];
  for (int i = 0; i < 4; ++i) {
    low[i] = _mm256_permute2x128_si256(v[i], v[i + 4], 0x20);
    high[i] = _mm256_permute2x128_si256(v[i], v[i + 4], 0x31);
  }
  transpose4(low);
  transpose4(high);
  for (int i = 0; i < 4; ++i) v[i] = low[i], v[i + 4] = high[i];
}

// Bit 8 i + s from bit 4 s + i.
uint32_t spread_fifth(uint32_t bits) {
  return _pext_u32(bits, 0x11111111) | _pext_u32(bits, 0x22222222) << 8 | _pext_u32(bits, 0x44444444) << 16 |
         _pext_u32(bits, 0x88888888) << 24;
}

// The halves at `offset` of eight blocks, next to each other.
void gather_halves(const std::byte* file, size_t stride, std::byte* to) {
  uint16_t halves[kRows];
  for (size_t r = 0; r < kRows; ++r) std::memcpy(halves + r, file + r * stride, 2);
  std::memcpy(to, halves, sizeof halves);
}

// 16 bytes per row (low nibbles: values 0-15, high: 16-31) to four groups.
void write_split_nibbles(const std::byte* file, size_t stride, std::byte* to, size_t h) {
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i v[4];
  for (size_t i = 0; i < 4; ++i) {
    const __m256i x = _mm256_set_m128i(load16(file + (i + 4) * stride), load16(file + i * stride));
    const __m256i low = _mm256_and_si256(x, mask), high = _mm256_and_si256(_mm256_srli_epi16(x, 4), mask);
    v[i] = _mm256_or_si256(even_words(low, high), _mm256_slli_epi32(odd_words(low, high), 4));
  }
  transpose4(v);
  for (size_t g = 0; g < 4; ++g) store32(to + 4 * g * h, v[g]);
}

// 32 bytes per row, whose low nibbles are the values of one sub-block and whose high nibbles are those of another.
void write_paired_nibbles(const std::byte* file, size_t stride, std::byte* low_to, std::byte* high_to, size_t h) {
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i v[8];
  for (size_t r = 0; r < kRows; ++r) {
    const __m256i x = load32(file + r * stride);
    const __m256i low = _mm256_and_si256(x, mask), high = _mm256_and_si256(_mm256_srli_epi16(x, 4), mask);
    // In each 64 bits: first four values | next four << 4, left in the lower word.
    v[r] = even_words(_mm256_or_si256(low, _mm256_srli_epi64(low, 28)),
                      _mm256_or_si256(high, _mm256_srli_epi64(high, 28)));
  }
  transpose8(v);  // groups 0 and 1 of the low, of the high sub-block; then groups 2 and 3
  store32(low_to, v[0]), store32(low_to + 4 * h, v[1]);
  store32(high_to, v[2]), store32(high_to + 4 * h, v[3]);
  store32(low_to + 8 * h, v[4]), store32(low_to + 12 * h, v[5]);
  store32(high_to + 8 * h, v[6]), store32(high_to + 12 * h, v[7]);
}

void write_six(const std::byte* file, size_t stride, std::byte* to, size_t h) {
  uint32_t words[3][kRows];
  for (size_t r = 0; r < kRows; ++r) {
    const std::byte* at = file + r * stride;
    const SixWords six = repack_six(load<uint32_t>(at), load<uint32_t>(at + 4), load<uint32_t>(at + 8));
    for (size_t w = 0; w < 3; ++w) words[w][r] = six.word[w];
  }
  for (size_t w = 0; w < 3; ++w) std::memcpy(to + 4 * w * h, words[w], sizeof words[w]);
}

// Q5_K: the 32 bytes of fifth bits (bit p of byte k: value k of sub-block p) to the words of the eight sub-blocks.
void write_fifth_planes(const std::byte* file, size_t stride, std::byte* to, size_t part_stride) {
  // Byte 4 s + i to byte 8 i + s: transpose 4 x 4 bytes in each half, then join the halves.
  const __m256i transpose =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m256i join = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (size_t r = 0; r < kRows; ++r) {
    __m256i x = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(load32(file + r * stride), transpose), join);
    for (size_t part = 8; part-- > 0; x = _mm256_add_epi8(x, x))
      store(to + part * part_stride + 4 * r, _mm256_movemask_epi8(x));
  }
}

// Q6_K: the 32 bytes of high bits of four sub-blocks (bits 2 q: sub-block q) to the two words of each of them.
void write_high_bits(const std::byte* file, size_t stride, std::byte* to, size_t part_stride, size_t h) {
  const __m256i two = _mm256_set1_epi8(3), shifts = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  __m256i v[8];
  for (size_t r = 0; r < kRows; ++r) {
    const __m256i x = load32(file + r * stride);
    __m256i t[4];  // sub-block q: four words whose bits belong together in one
    for (int q = 0; q < 4; ++q) t[q] = _mm256_sllv_epi32(_mm256_and_si256(_mm256_srli_epi16(x, 2 * q), two), shifts);
    const __m256i a = _mm256_or_si256(_mm256_unpacklo_epi32(t[0], t[1]), _mm256_unpackhi_epi32(t[0], t[1]));
    const __m256i b = _mm256_or_si256(_mm256_unpacklo_epi32(t[2], t[3]), _mm256_unpackhi_epi32(t[2], t[3]));
    v[r] = _mm256_or_si256(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
  }
  transpose8(v);  // word `half` of sub-block q at 4 half + q
  for (size_t q = 0; q < 4; ++q) {
    store32(to + q * part_stride, v[q]);
    store32(to + q * part_stride + 4 * h, v[4 + q]);
  }
}

// Q6_K: 16 scales per row to two of each sub-block.
void write_scales(const std::byte* file, size_t stride, std::byte* to, size_t part_stride, size_t h) {
  // 8 rows x 16 bytes to 16 x 8: interleave bytes of rows 0 and 4, 1 and 5, ... three times.
  __m128i v[8], w[8];
  for (size_t r = 0; r < kRows; ++r) v[r] = load16(file + r * stride);
  for (int i = 0; i < 4; ++i) {
    w[2 * i] = _mm_unpacklo_epi8(v[i], v[i + 4]);
    w[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = _mm_unpacklo_epi8(w[i], w[i + 4]);
    v[2 * i + 1] = _mm_unpackhi_epi8(w[i], w[i + 4]);
  }
  for (size_t i = 0; i < 4; ++i) {
    const __m128i first = _mm_unpacklo_epi8(v[i], v[i + 4]), second = _mm_unpackhi_epi8(v[i], v[i + 4]);
    std::byte* at = to + 2 * i * part_stride;
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at), first);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at + h), _mm_unpackhi_epi64(first, first));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at + part_stride), second);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at + part_stride + h), _mm_unpackhi_epi64(second, second));
  }
}

// Eight rows of one block. `tile` is the block in a tile of height h, `r` the first row's place in it.
template <TensorType kType>
void write_block(const std::byte* file, size_t stride, std::byte* tile, size_t h, size_t r) {
  std::byte* lanes = tile + 4 * r;  // start of a vector of 32-bit lanes, less the offset of that vector
  gather_halves(file + (kType == q6_k ? 208 : 0), stride, tile + 2 * r);
  if constexpr (kType == q4_0) {
    write_split_nibbles(file + 2, stride, lanes + 2 * h, h);
  } else if constexpr (kType == q4_1) {
    gather_halves(file + 2, stride, tile + 2 * h + 2 * r);
    write_split_nibbles(file + 4, stride, lanes + 4 * h, h);
  } else if constexpr (kType == q5_0 || kType == q5_1) {
    constexpr size_t kHalves = kType == q5_1 ? 4 : 2;  // bytes per row before the fifth bits
    if constexpr (kType == q5_1) gather_halves(file + 2, stride, tile + 2 * h + 2 * r);
    for (size_t i = 0; i < kRows; ++i)
      store(lanes + kHalves * h + 4 * i, spread_fifth(load<uint32_t>(file + i * stride + kHalves)));
    write_split_nibbles(file + kHalves + 4, stride, lanes + (kHalves + 4) * h, h);
  } else if constexpr (kType == q8_0) {
    const __m256i offset = _mm256_set1_epi8(-128);
    __m256i v[8];
    for (size_t i = 0; i < kRows; ++i) v[i] = _mm256_xor_si256(load32(file + i * stride + 2), offset);
    transpose8(v);
    for (size_t s = 0; s < 8; ++s) store32(lanes + 2 * h + 4 * s * h, v[s]);
  } else if constexpr (kType == q4_k || kType == q5_k) {
    constexpr size_t kFifth = kType == q5_k ? 4 : 0;  // bytes per row and sub-block before the nibbles
    const size_t part_stride = (16 + kFifth) * h;
    gather_halves(file + 2, stride, tile + 2 * h + 2 * r);
    write_six(file + 4, stride, lanes + 4 * h, h);
    if constexpr (kType == q5_k) write_fifth_planes(file + 16, stride, lanes + 16 * h, part_stride);
    const std::byte* nibbles = file + 16 + 8 * kFifth;
    std::byte* to = lanes + 16 * h + kFifth * h;
    for (size_t pair = 0; pair < 4; ++pair)
      write_paired_nibbles(nibbles + 32 * pair, stride, to + 2 * pair * part_stride, to + (2 * pair + 1) * part_stride,
                           h);
  } else {
    static_assert(kType == q6_k);
    const size_t part_stride = 26 * h;
    std::byte* parts = tile + 2 * h;
    write_scales(file + 192, stride, parts + r, part_stride, h);
    for (size_t group = 0; group < 2; ++group) {
      std::byte* to = parts + 4 * group * part_stride + 4 * r;
      write_high_bits(file + 128 + 32 * group, stride, to + 2 * h, part_stride, h);
      for (size_t i = 0; i < 2; ++i)
        write_paired_nibbles(file + 64 * group + 32 * i, stride, to + 10 * h + i * part_stride,
                             to + 10 * h + (i + 2) * part_stride, h);
    }
  }
}

void write_words(const std::byte* file, size_t row_length, size_t h, std::byte* to) {
  const size_t stride = 4 * row_length;
  size_t k = 0;
  for (; k + 8 <= row_length; k += 8) {
    __m256i v[8];
    for (size_t r = 0; r < kRows; ++r) v[r] = load32(file + r * stride + 4 * k);
    transpose8(v);
    for (size_t i = 0; i < 8; ++i) store32(to + 4 * (k + i) * h, v[i]);
  }
  for (; k < row_length; ++k)
    for (size_t r = 0; r < kRows; ++r) std::memcpy(to + 4 * (k * h + r), file + r * stride + 4 * k, 4);
}

void write_halves(const std::byte* file, size_t row_length, size_t h, std::byte* to) {
  const size_t stride = 2 * row_length;
  // Pairs of neighbours in a word after the transpose: all first halves, then all second ones.
  const __m256i split =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  size_t k = 0;
  for (; k + 16 <= row_length; k += 16) {
    __m256i v[8];
    for (size_t r = 0; r < kRows; ++r) v[r] = load32(file + r * stride + 2 * k);
    transpose8(v);
    for (size_t i = 0; i < 8; ++i) {
      const __m256i both = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v[i], split), 0xd8);
      std::byte* at = to + 2 * (k + 2 * i) * h;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm256_castsi256_si128(both));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(at + 2 * h), _mm256_extracti128_si256(both, 1));
    }
  }
  for (; k < row_length; ++k)
    for (size_t r = 0; r < kRows; ++r) std::memcpy(to + 2 * (k * h + r), file + r * stride + 2 * k, 2);
}

template <TensorType kType, size_t kValues, size_t kBytes>
void write_blocks(const std::byte* file, size_t row_length, size_t h, size_t r, std::byte* tile_row) {
  const size_t blocks = row_length / kValues;
  for (size_t b = 0; b < blocks; ++b)
    write_block<kType>(file + b * kBytes, blocks * kBytes, tile_row + b * h * kBytes, h, r);
}

}  // namespace

void make_tile_row_avx2(TensorType type, uint32_t height, size_t row_length, const std::byte* file_rows, uint32_t rows,
                        std::byte* tile_row) {
  if (rows < height || height % kRows != 0)  // at most one tile row of a weight
    return make_tile_row_scalar(type, height, row_length, file_rows, rows, tile_row);
  const size_t h = height;
  const size_t file_row_bytes = tile_row_bytes(type, 1, row_length);
  for (size_t r = 0; r < h; r += kRows) {
    const std::byte* file = file_rows + r * file_row_bytes;
    switch (type) {
      case f32:
        write_words(file, row_length, h, tile_row + 4 * r);
        break;
      case f16:
      case bf16:
        write_halves(file, row_length, h, tile_row + 2 * r);
        break;
      case q4_0:
        write_blocks<q4_0, 32, 18>(file, row_length, h, r, tile_row);
        break;
      case q4_1:
        write_blocks<q4_1, 32, 20>(file, row_length, h, r, tile_row);
        break;
      case q5_0:
        write_blocks<q5_0, 32, 22>(file, row_length, h, r, tile_row);
        break;
      case q5_1:
        write_blocks<q5_1, 32, 24>(file, row_length, h, r, tile_row);
        break;
      case q8_0:
        write_blocks<q8_0, 32, 34>(file, row_length, h, r, tile_row);
        break;
      case q4_k:
        write_blocks<q4_k, 256, 144>(file, row_length, h, r, tile_row);
        break;
      case q5_k:
        write_blocks<q5_k, 256, 176>(file, row_length, h, r, tile_row);
        break;
      case q6_k:
        write_blocks<q6_k, 256, 210>(file, row_length, h, r, tile_row);
        break;
      default:
        break;
    }
  }
}

}  // namespace gale::exec
