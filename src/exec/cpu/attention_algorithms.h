// Attention over one chunk of the cache, written once over sixteen lanes; each instruction set's file includes its
// Lanes and then this.
#pragma once

#include "exec/cpu/attention_kernels.h"
#include "exec/cpu/lanes_math.h"

namespace gale::exec {
namespace {

// Layout of a head block and a chunk, as in kv_cache.h (which is not included here: its inline functions must not be
// compiled for this instruction set).
constexpr uint32_t kTile = 16;    // positions of a key tile, one per lane
constexpr uint32_t kBlock = 64;   // positions of a block
constexpr uint32_t kChunk = 256;  // positions of a chunk
constexpr uint32_t kTilesPerBlock = kBlock / kTile;
constexpr uint32_t kGroupRows = 6;  // rows that share a load of a key or value: 6 x 4 accumulators of 32
constexpr uint32_t kQ8Block = 32;   // elements that share a scale
constexpr size_t kQ8KeyBytes = 2 * kTile + kQ8Block * kTile;
constexpr size_t kQ8ValueBytes = 2 + kQ8Block;

// f(0) ... f(N - 1), written out, so that arrays indexed inside live in registers with every compiler.
#define GALE_INLINE __attribute__((always_inline))
template <uint32_t N, uint32_t first = 0, class F>
[[gnu::always_inline]] inline void repeat(const F& f) {
  if constexpr (first < N) {
    f(first);
    repeat<N, first + 1>(f);
  }
}

// Asks for the cache lines of `bytes` bytes; returns what follows them. Into the second-level cache: requests for the
// first level fill its few miss buffers, and loads that the second level could serve at once wait behind them (decode
// at depth 4096 took twice as long).
template <size_t bytes>
[[gnu::always_inline]] inline const std::byte* request(const std::byte* p) {
  for (size_t offset = 0; offset < bytes; offset += 64) __builtin_prefetch(p + offset, 0, 2);
  return p + bytes;
}

// How many vectors per row one pass of `rows` rows accumulates: all of them, one loaded vector per column and one
// broadcast have to fit the registers.
template <class Lanes, uint32_t rows>
constexpr uint32_t vectors_per_row() {
  constexpr int registers = Lanes::kRegisters;
  if (static_cast<int>(rows * 4 + 5) <= registers) return 4;
  if (static_cast<int>(rows * 2 + 3) <= registers) return 2;
  return 1;
}

// Keys and values of F32 and F16 caches: E [tile][head_size][16] and E [64][value_size].
template <class Lanes, class Element>
struct PlainCache {
  static constexpr size_t kElementBytes = sizeof(Element);
  static constexpr bool kAsksAhead = true;
  static size_t tile_bytes(uint32_t head_size) { return size_t{head_size} * kTile * sizeof(Element); }
  static size_t value_row_bytes(uint32_t value_size) { return size_t{value_size} * sizeof(Element); }

  static Lanes load(const float* p) { return Lanes::load(p); }
  static Lanes load(const uint16_t* p) { return Lanes::load_half(p); }
  static Lanes load_partial(const float* p, size_t n) { return Lanes::load_partial(p, n); }
  static Lanes load_partial(const uint16_t* p, size_t n) { return Lanes::load_half_partial(p, n); }

  // score[r][t] = q[r] . keys of tile t. `ahead`: memory of the size of the tiles to ask for meanwhile, or null.
  template <uint32_t R, uint32_t T>
  static void dot(const std::byte* tiles, uint32_t head_size, const float* const* q, Lanes (&score)[R][T],
                  const std::byte* ahead) {
    const Element* key = reinterpret_cast<const Element*>(tiles);
    const size_t stride = size_t{head_size} * kTile;
    // Local, so that the compiler keeps it in registers.
    Lanes sum[R][T];
    const float* query[R];
    repeat<R>([&](uint32_t r) GALE_INLINE {
      query[r] = q[r];
      repeat<T>([&](uint32_t t) GALE_INLINE { sum[r][t] = Lanes::broadcast(0.0f); });
    });
    for (uint32_t d = 0; d < head_size; ++d, key += kTile) {
      if (ahead != nullptr) ahead = request<T * kTile * sizeof(Element)>(ahead);
      Lanes k[T];
      repeat<T>([&](uint32_t t) GALE_INLINE { k[t] = load(key + t * stride); });
      repeat<R>([&](uint32_t r) GALE_INLINE {
        const Lanes x = Lanes::broadcast(query[r][d]);
        repeat<T>([&](uint32_t t) GALE_INLINE { sum[r][t] = Lanes::fma(x, k[t], sum[r][t]); });
      });
    }
    repeat<R>([&](uint32_t r) GALE_INLINE { repeat<T>([&](uint32_t t) GALE_INLINE { score[r][t] = sum[r][t]; }); });
  }

  // Elements i .. i + 15 of the values of one position.
  static Lanes value(const std::byte* row, uint32_t i) { return load(reinterpret_cast<const Element*>(row) + i); }
  static Lanes value_partial(const std::byte* row, uint32_t i, uint32_t n) {
    return load_partial(reinterpret_cast<const Element*>(row) + i, n);
  }

  // To the nearest element that is finite; NaN stays NaN (the order of the operands sees to it).
  static void convert(Lanes x, float* out) { x.store(out); }
  static void convert(Lanes x, uint16_t* out) {
    const Lanes largest = Lanes::broadcast(65504.0f);
    Lanes::min(largest, Lanes::max(Lanes::broadcast(-65504.0f), x)).store_half(out);
  }

  static void append_key(const float* key, uint32_t head_size, uint32_t position, std::byte* head_block) {
    Element* out = reinterpret_cast<Element*>(head_block + position / kTile * tile_bytes(head_size)) + position % kTile;
    Element converted[kTile];
    for (uint32_t d = 0; d < head_size; d += kTile) {
      const uint32_t n = head_size - d < kTile ? head_size - d : kTile;
      convert(Lanes::load_partial(key + d, n), converted);
      for (uint32_t i = 0; i < n; ++i) out[(d + i) * kTile] = converted[i];
    }
  }

  static void append_value(const float* value, uint32_t value_size, uint32_t position, std::byte* values) {
    Element* out = reinterpret_cast<Element*>(values + position * value_row_bytes(value_size));
    Element converted[kTile];
    for (uint32_t d = 0; d < value_size; d += kTile) {
      const uint32_t n = value_size - d < kTile ? value_size - d : kTile;
      convert(Lanes::load_partial(value + d, n), converted);
      for (uint32_t i = 0; i < n; ++i) out[d + i] = converted[i];
    }
  }
};

// Q8_0: keys [tile][head_size / 32] x (f16 scale[16], i8 [32][16]), values [64][value_size / 32] x (f16 scale, i8
// [32]).
template <class Lanes>
struct Q8Cache {
  static constexpr size_t kElementBytes = 1;
  static constexpr bool kAsksAhead = false;
  static size_t tile_bytes(uint32_t head_size) { return head_size / kQ8Block * kQ8KeyBytes; }
  static size_t value_row_bytes(uint32_t value_size) { return value_size / kQ8Block * kQ8ValueBytes; }

  // Nothing is asked for ahead: decoding int8 is slower than memory.
  template <uint32_t R, uint32_t T>
  static void dot(const std::byte* tiles, uint32_t head_size, const float* const* q, Lanes (&score)[R][T],
                  const std::byte*) {
    const size_t stride = tile_bytes(head_size);
    const float* query[R];
    repeat<R>([&](uint32_t r) GALE_INLINE {
      query[r] = q[r];
      repeat<T>([&](uint32_t t) GALE_INLINE { score[r][t] = Lanes::broadcast(0.0f); });
    });
    for (uint32_t first = 0; first < head_size; first += kQ8Block, tiles += kQ8KeyBytes) {
      const int8_t* key = reinterpret_cast<const int8_t*>(tiles) + 2 * kTile;
      Lanes sum[R][T];
      repeat<R>([&](uint32_t r)
                    GALE_INLINE { repeat<T>([&](uint32_t t) GALE_INLINE { sum[r][t] = Lanes::broadcast(0.0f); }); });
      for (uint32_t d = first; d < first + kQ8Block; ++d, key += kTile) {
        Lanes k[T];
        repeat<T>([&](uint32_t t) GALE_INLINE { k[t] = Lanes::load_int8(key + t * stride); });
        repeat<R>([&](uint32_t r) GALE_INLINE {
          const Lanes x = Lanes::broadcast(query[r][d]);
          repeat<T>([&](uint32_t t) GALE_INLINE { sum[r][t] = Lanes::fma(x, k[t], sum[r][t]); });
        });
      }
      repeat<T>([&](uint32_t t) GALE_INLINE {
        const Lanes scale = Lanes::load_half(reinterpret_cast<const uint16_t*>(tiles + t * stride));
        repeat<R>([&](uint32_t r) GALE_INLINE { score[r][t] = Lanes::fma(scale, sum[r][t], score[r][t]); });
      });
    }
  }

  // Half times int8 is exact in float.
  static Lanes value(const std::byte* row, uint32_t i) {
    const std::byte* block = row + i / kQ8Block * kQ8ValueBytes;
    const uint16_t scale = *reinterpret_cast<const uint16_t*>(block);
    const int8_t* values = reinterpret_cast<const int8_t*>(block + 2);
    return Lanes::broadcast_half(scale) * Lanes::load_int8(values + i % kQ8Block);
  }
  // Never needed: value sizes are multiples of 32.
  static Lanes value_partial(const std::byte* row, uint32_t i, uint32_t) { return value(row, i); }

  // Quantises 32 values; returns the bits of the scale.
  static uint16_t quantise(const float* x, int8_t* out) {
    const Lanes low = Lanes::load(x), high = Lanes::load(x + kTile);
    const float largest = Lanes::fold_max(Lanes::max(Lanes::abs(low), Lanes::abs(high)));
    uint16_t bits[kTile];
    // The largest finite half, should it be beyond; then the values are clamped.
    Lanes::min(Lanes::broadcast(65504.0f), Lanes::broadcast(largest / 127.0f)).store_half(bits);
    const bool nan = Lanes::any_nan(low) || Lanes::any_nan(high);
    const Lanes scale = Lanes::broadcast_half(bits[0]);
    if (nan || !(scale.first() > 0.0f)) {
      for (uint32_t i = 0; i < kQ8Block; ++i) out[i] = nan ? 1 : 0;
      return nan ? 0x7E00 : 0;
    }
    const Lanes limit = Lanes::broadcast(127.0f), minus_limit = Lanes::broadcast(-127.0f);
    Lanes::max(minus_limit, Lanes::min(limit, low / scale)).store_int8(out);
    Lanes::max(minus_limit, Lanes::min(limit, high / scale)).store_int8(out + kTile);
    return bits[0];
  }

  static void append_key(const float* key, uint32_t head_size, uint32_t position, std::byte* head_block) {
    std::byte* tile = head_block + position / kTile * tile_bytes(head_size);
    int8_t quantised[kQ8Block];
    for (uint32_t d = 0; d < head_size; d += kQ8Block, tile += kQ8KeyBytes) {
      reinterpret_cast<uint16_t*>(tile)[position % kTile] = quantise(key + d, quantised);
      int8_t* out = reinterpret_cast<int8_t*>(tile) + 2 * kTile + position % kTile;
      for (uint32_t i = 0; i < kQ8Block; ++i) out[i * kTile] = quantised[i];
    }
  }

  static void append_value(const float* value, uint32_t value_size, uint32_t position, std::byte* values) {
    std::byte* block = values + position * value_row_bytes(value_size);
    for (uint32_t d = 0; d < value_size; d += kQ8Block, block += kQ8ValueBytes) {
      *reinterpret_cast<uint16_t*>(block) = quantise(value + d, reinterpret_cast<int8_t*>(block + 2));
    }
  }
};

// Adds weight * value of `count` positions to N rows, 16 T elements from i on; with `partly`, n (fewer than 16). Asks
// for as much memory from `ahead` on (null: none) as it reads.
template <class Lanes, class Cache, uint32_t N, uint32_t T, bool partly>
[[gnu::always_inline]] inline void add_values(const std::byte* row, size_t row_bytes, uint32_t count,
                                              const float* const* weights, float* const* outs, uint32_t i, uint32_t n,
                                              const std::byte* ahead) {
  Lanes sum[N][T];
  const float* weight[N];
  repeat<N>([&](uint32_t r) GALE_INLINE {
    weight[r] = weights[r];
    repeat<T>([&](uint32_t t) GALE_INLINE {
      const float* out = outs[r] + i + t * kTile;
      sum[r][t] = partly ? Lanes::load_partial(out, n) : Lanes::load(out);
    });
  });
  for (uint32_t p = 0; p < count; ++p, row += row_bytes) {
    if (ahead != nullptr) ahead = request<T * kTile * Cache::kElementBytes>(ahead);
    Lanes v[T];
    repeat<T>([&](uint32_t t)
                  GALE_INLINE { v[t] = partly ? Cache::value_partial(row, i, n) : Cache::value(row, i + t * kTile); });
    repeat<N>([&](uint32_t r) GALE_INLINE {
      const Lanes w = Lanes::broadcast(weight[r][p]);
      repeat<T>([&](uint32_t t) GALE_INLINE { sum[r][t] = Lanes::fma(w, v[t], sum[r][t]); });
    });
  }
  repeat<N>([&](uint32_t r) GALE_INLINE {
    repeat<T>([&](uint32_t t) GALE_INLINE {
      float* out = outs[r] + i + t * kTile;
      partly ? sum[r][t].store_partial(out, n) : sum[r][t].store(out);
    });
  });
}

// The same for all `size` elements. Not inline: used from every size of group.
template <class Lanes, class Cache, uint32_t N>
[[gnu::noinline]] void add_positions(const std::byte* row, size_t row_bytes, uint32_t count,
                                     const float* const* weights, float* const* outs, uint32_t size,
                                     const std::byte* ahead) {
  constexpr uint32_t T = vectors_per_row<Lanes, N>();
  uint32_t i = 0;
  for (; i + T * kTile <= size; i += T * kTile) {
    add_values<Lanes, Cache, N, T, false>(row, row_bytes, count, weights, outs, i, 0, ahead);
    if (ahead != nullptr) ahead += size_t{count} * T * kTile * Cache::kElementBytes;
  }
  if constexpr (T > 1) {
    for (; i + kTile <= size; i += kTile) {
      add_values<Lanes, Cache, N, 1, false>(row, row_bytes, count, weights, outs, i, 0, nullptr);
    }
  }
  if (i < size) add_values<Lanes, Cache, N, 1, true>(row, row_bytes, count, weights, outs, i, size - i, nullptr);
}

// [begin, end) inside a chunk.
struct Span {
  uint32_t begin, end;
};
inline uint32_t lesser(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}
inline uint32_t greater(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

// Turns the scores of a row [256] into weights, exactly 0 outside `span` in the tiles that it touches.
template <class Lanes>
[[gnu::noinline]] void softmax(float* row, Span span, float* partial) {
  const uint32_t begin = span.begin, end = span.end, first = begin / kTile * kTile;
  const Lanes nothing = Lanes::broadcast(-__builtin_inff());
  const auto only_inside = [&](uint32_t p, Lanes x, Lanes outside) {
    if (p >= begin && end - p >= kTile) return x;
    return Lanes::select(Lanes::range(p < begin ? begin - p : 0, lesser(end - p, kTile)), x, outside);
  };
  Lanes largest = nothing;
  for (uint32_t p = first; p < end; p += kTile) {
    largest = Lanes::max(only_inside(p, Lanes::load(row + p), nothing), largest);
  }
  const float max = Lanes::fold_max(largest);
  const Lanes maxes = Lanes::broadcast(max);
  Lanes sum = Lanes::broadcast(0.0f);
  for (uint32_t p = first; p < end; p += kTile) {
    const Lanes e = only_inside(p, exponential(Lanes::load(row + p) - maxes), Lanes::broadcast(0.0f));
    e.store(row + p);
    sum = sum + e;
  }
  partial[0] = max;
  partial[1] = Lanes::fold_sum(sum);
}

// R rows of one chunk. Scores, then weights, of row r stand in scratch [R][256].
template <class Lanes, class Cache, uint32_t R>
struct RowGroup {
  static constexpr uint32_t kVectors = vectors_per_row<Lanes, R>();

  const ChunkArguments& arguments;
  const float* q[R];
  Span span[R];
  float* partial[R];
  float* scratch;
  bool asks_ahead;  // for the values while it reads the keys, for the next chunk's keys while it reads the values

  // Scores of T tiles from position `first` of the chunk on.
  template <uint32_t T>
  void scores(const std::byte* tiles, uint32_t first, const std::byte* ahead) {
    Lanes score[R][T];
    Cache::template dot<R, T>(tiles, arguments.head_size, q, score, ahead);
    const Lanes scale = Lanes::broadcast(arguments.scale), cap = Lanes::broadcast(arguments.softcap);
    for (uint32_t r = 0; r < R; ++r) {
      for (uint32_t t = 0; t < T; ++t) {
        Lanes s = score[r][t] * scale;
        if (arguments.softcap != 0) s = soft_capped(s, cap);
        s.store(scratch + r * kChunk + first + t * kTile);
      }
    }
  }

  void all_scores(Span all) {
    const size_t tile_bytes = Cache::tile_bytes(arguments.head_size);
    for (uint32_t b = all.begin / kBlock; b * kBlock < all.end; ++b) {
      const std::byte* block = arguments.blocks[b];
      if (block == nullptr) continue;  // between rows whose ranges lie apart
      const uint32_t end = (lesser(all.end - b * kBlock, kBlock) + kTile - 1) / kTile;
      uint32_t t = greater(all.begin, b * kBlock) / kTile % kTilesPerBlock;
      const size_t value_bytes = kTile * Cache::value_row_bytes(arguments.value_size);
      const auto values = [&] { return asks_ahead ? block + arguments.key_bytes + t * value_bytes : nullptr; };
      for (; t + kVectors <= end; t += kVectors) {
        scores<kVectors>(block + t * tile_bytes, b * kBlock + t * kTile, values());
      }
      for (; t < end; ++t) scores<1>(block + t * tile_bytes, b * kBlock + t * kTile, values());
    }
  }

  // Adds positions [begin, end) of the chunk, which lie in one block, to N rows from `first_row` on.
  template <uint32_t N>
  void add(const std::byte* values, uint32_t first_row, Span positions, const std::byte* ahead = nullptr) {
    if (positions.begin >= positions.end) return;
    const float* weights[N];
    float* outs[N];
    for (uint32_t r = 0; r < N; ++r) {
      weights[r] = scratch + (first_row + r) * kChunk + positions.begin;
      outs[r] = partial[first_row + r] + 2;
    }
    const size_t row_bytes = Cache::value_row_bytes(arguments.value_size);
    add_positions<Lanes, Cache, N>(values + positions.begin % kBlock * row_bytes, row_bytes,
                                   positions.end - positions.begin, weights, outs, arguments.value_size, ahead);
  }

  // Positions that every row sees are done for all rows at once; what only some see, row by row before and after, so
  // that every row adds its positions in rising order and touches no other.
  void all_values(Span all, Span common) {
    for (uint32_t b = all.begin / kBlock; b * kBlock < all.end; ++b) {
      if (arguments.blocks[b] == nullptr) continue;
      const std::byte* values = arguments.blocks[b] + arguments.key_bytes;
      const uint32_t first = b * kBlock, last = first + kBlock;
      const Span shared = {greater(common.begin, first), lesser(common.end, last)};
      uint32_t done = first;
      if (shared.begin < shared.end) {
        for (uint32_t r = 0; r < R; ++r) add<1>(values, r, {greater(span[r].begin, first), shared.begin});
        add<R>(values, 0, shared, asks_ahead && arguments.next_blocks != nullptr ? arguments.next_blocks[b] : nullptr);
        done = shared.end;
      }
      for (uint32_t r = 0; r < R; ++r) add<1>(values, r, {greater(span[r].begin, done), lesser(span[r].end, last)});
    }
  }
};

template <class Lanes, class Cache, uint32_t R>
void attend_rows(const ChunkArguments& arguments, const QueryRow* rows) {
  const bool first = rows == arguments.rows;  // later groups find everything in the caches
  RowGroup<Lanes, Cache, R> group{arguments, {}, {}, {}, arguments.scratch, first && Cache::kAsksAhead};
  Span all = {kChunk, 0}, common = {0, kChunk};
  for (uint32_t r = 0; r < R; ++r) {
    const Span span = {rows[r].begin - arguments.first_position, rows[r].end - arguments.first_position};
    group.q[r] = rows[r].q;
    group.span[r] = span;
    group.partial[r] = rows[r].partial;
    all = {lesser(all.begin, span.begin), greater(all.end, span.end)};
    common = {greater(common.begin, span.begin), lesser(common.end, span.end)};
    for (uint32_t i = 0; i < arguments.value_size; ++i) rows[r].partial[2 + i] = 0;
  }
  group.all_scores(all);
  for (uint32_t r = 0; r < R; ++r) softmax<Lanes>(group.scratch + r * kChunk, group.span[r], group.partial[r]);
  group.all_values(all, common);
}

template <class Lanes, class Cache>
void attend(const ChunkArguments& arguments) {
  const QueryRow* rows = arguments.rows;
  // Groups of nearly equal size: 8 rows are 4 + 4, since small groups use loads and fma units badly.
  uint32_t left = arguments.row_count;
  for (uint32_t groups = (left + kGroupRows - 1) / kGroupRows; groups > 0; --groups) {
    const uint32_t count = (left + groups - 1) / groups;
    switch (count) {
      case 1:
        attend_rows<Lanes, Cache, 1>(arguments, rows);
        break;
      case 2:
        attend_rows<Lanes, Cache, 2>(arguments, rows);
        break;
      case 3:
        attend_rows<Lanes, Cache, 3>(arguments, rows);
        break;
      case 4:
        attend_rows<Lanes, Cache, 4>(arguments, rows);
        break;
      case 5:
        attend_rows<Lanes, Cache, 5>(arguments, rows);
        break;
      default:
        attend_rows<Lanes, Cache, 6>(arguments, rows);
        break;
    }
    rows += count;
    left -= count;
  }
}

// out = sum of e^(max - overall max) * values / sum of e^(max - overall max) * sums
template <class Lanes>
void merge(const float* partials, size_t stride, uint32_t chunks, uint32_t value_size, float* out) {
  constexpr float kNothing = -__builtin_inff();  // the maximum of a chunk that saw nothing
  float max = kNothing;
  for (uint32_t c = 0; c < chunks; ++c) max = partials[c * stride] > max ? partials[c * stride] : max;
  for (uint32_t i = 0; i < value_size; ++i) out[i] = 0;
  float sum = 0;
  for (uint32_t first = 0; first < chunks; first += kTile) {
    const uint32_t count = lesser(chunks - first, kTile);
    float factors[kTile] = {};
    for (uint32_t c = 0; c < count; ++c) factors[c] = partials[(first + c) * stride];
    exponential(Lanes::load(factors) - Lanes::broadcast(max)).store(factors);
    for (uint32_t c = 0; c < count; ++c) {
      const float* partial = partials + (first + c) * stride;
      if (partial[0] == kNothing) continue;
      sum = __builtin_fmaf(factors[c], partial[1], sum);
      const Lanes factor = Lanes::broadcast(factors[c]);
      for (uint32_t i = 0; i < value_size; i += kTile) {
        const uint32_t n = lesser(value_size - i, kTile);
        const Lanes value = Lanes::load_partial(partial + 2 + i, n);
        Lanes::fma(factor, value, Lanes::load_partial(out + i, n)).store_partial(out + i, n);
      }
    }
  }
  if (sum == 0) return;
  const Lanes sums = Lanes::broadcast(sum);
  for (uint32_t i = 0; i < value_size; i += kTile) {
    const uint32_t n = lesser(value_size - i, kTile);
    (Lanes::load_partial(out + i, n) / sums).store_partial(out + i, n);
  }
}

template <class Lanes, class Cache>
inline constexpr AttentionKernels kAttentionTable = {attend<Lanes, Cache>, Cache::append_key, Cache::append_value,
                                                     merge<Lanes>};

template <class Lanes>
const AttentionKernels& attention_table(CacheType type) {
  switch (type) {
    case CacheType::f32:
      return kAttentionTable<Lanes, PlainCache<Lanes, float>>;
    case CacheType::f16:
      return kAttentionTable<Lanes, PlainCache<Lanes, uint16_t>>;
    case CacheType::q8_0:
      break;
  }
  return kAttentionTable<Lanes, Q8Cache<Lanes>>;
}

}  // namespace
}  // namespace gale::exec
