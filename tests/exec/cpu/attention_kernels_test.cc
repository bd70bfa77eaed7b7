// Attention kernels against double arithmetic, against each other bit for bit, and their independence of neighbours.
#include "exec/cpu/attention_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/numbers.h"
#include "exec/cpu/kv_cache.h"

namespace gale::exec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr CacheType kTypes[] = {CacheType::f32, CacheType::f16, CacheType::q8_0};
constexpr float kGuard = 777.0f;

std::vector<Isa> supported_sets() {
  std::vector<Isa> sets;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa <= detect_isa()) sets.push_back(isa);
  }
  return sets;
}

std::vector<float> random_values(size_t n, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

struct Shape {
  CacheType type;
  uint32_t head_size, value_size;
  std::string text() const {
    return std::string(name(type)) + " " + std::to_string(head_size) + "/" + std::to_string(value_size);
  }
};

bool possible(const Shape& shape) {
  return head_block_layout(shape.type, shape.head_size, shape.value_size).ok();
}

// The cache of one KV head, read back by a plain reading of the layout in kv_cache.h.
class Head {
 public:
  Head(const Shape& shape, uint32_t positions)
      : shape(shape),
        layout(*head_block_layout(shape.type, shape.head_size, shape.value_size)),
        memory_((positions + 63) / 64 * layout.bytes() + 64) {
    for (size_t i = 0; i < (positions + 63) / 64; ++i) blocks.push_back(start() + i * layout.bytes());
    while (blocks.size() % 4 != 0) blocks.push_back(nullptr);
  }

  void append(const AttentionKernels& kernels, uint32_t p, const float* key, const float* value) {
    std::byte* block = const_cast<std::byte*>(blocks[p / 64]);
    kernels.append_key(key, shape.head_size, p % 64, block);
    kernels.append_value(value, shape.value_size, p % 64, block + layout.key_bytes);
  }

  void fill(const AttentionKernels& kernels, uint32_t positions, uint32_t seed) {
    for (uint32_t p = 0; p < positions; ++p) {
      append(kernels, p, random_values(shape.head_size, seed + 2 * p).data(),
             random_values(shape.value_size, seed + 2 * p + 1).data());
    }
  }

  double key(uint32_t p, uint32_t d) const {
    const std::byte* block = blocks[p / 64];
    const uint32_t tile = p % 64 / 16, lane = p % 16;
    if (shape.type != CacheType::q8_0) return element(block, (size_t{tile} * shape.head_size + d) * 16 + lane);
    const std::byte* scales = block + (size_t{tile} * (shape.head_size / 32) + d / 32) * (32 + 512);
    return half(scales + 2 * lane) * static_cast<int>(static_cast<int8_t>(scales[32 + d % 32 * 16 + lane]));
  }

  double value(uint32_t p, uint32_t i) const {
    const std::byte* values = blocks[p / 64] + layout.key_bytes;
    if (shape.type != CacheType::q8_0) return element(values, size_t{p % 64} * shape.value_size + i);
    const std::byte* scale = values + (size_t{p % 64} * (shape.value_size / 32) + i / 32) * 34;
    return half(scale) * static_cast<int>(static_cast<int8_t>(scale[2 + i % 32]));
  }

  std::vector<std::byte> bytes() const { return {start(), start() + layout.bytes()}; }

  const Shape shape;
  const HeadBlockLayout layout;
  std::vector<const std::byte*> blocks;

 private:
  std::byte* start() const {
    return const_cast<std::byte*>(memory_.data()) + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  }
  static float half(const std::byte* p) {
    uint16_t bits;
    std::memcpy(&bits, p, 2);
    return half_to_float(bits);
  }
  double element(const std::byte* p, size_t index) const {
    if (shape.type == CacheType::f16) return half(p + 2 * index);
    float v;
    std::memcpy(&v, p + 4 * index, 4);
    return v;
  }
  std::vector<std::byte> memory_;
};

struct Row {
  uint32_t begin, end;
  uint32_t query;  // number of the random vector
};

struct Options {
  float scale = 0.125f, softcap = 0;
  float query_size = 1;
};

std::vector<float> query_of(const Head& head, uint32_t number, const Options& options) {
  return random_values(head.shape.head_size, 1000003 + number, options.query_size);
}

// Runs the chunk kernel of chunk `chunk`; partials [rows][2 + value_size], and checks that nothing else is written.
std::vector<std::vector<float>> run_chunk(Isa isa, const Head& head, uint32_t chunk, const std::vector<Row>& rows,
                                          const Options& options) {
  const uint32_t width = 2 + head.shape.value_size;
  std::vector<std::vector<float>> queries, partials(rows.size(), std::vector<float>(width + 16, kGuard));
  std::vector<QueryRow> query_rows;
  for (const Row& row : rows) queries.push_back(query_of(head, row.query, options));
  for (size_t r = 0; r < rows.size(); ++r) {
    query_rows.push_back({queries[r].data(), rows[r].begin, rows[r].end, partials[r].data()});
  }
  std::vector<float> scratch(attention_scratch_floats(static_cast<uint32_t>(rows.size())) + 16, kNan);
  ChunkArguments arguments{};
  arguments.blocks = head.blocks.data() + chunk * (kChunkPositions / kBlockPositions);
  arguments.first_position = chunk * kChunkPositions;
  arguments.head_size = head.shape.head_size;
  arguments.value_size = head.shape.value_size;
  arguments.key_bytes = head.layout.key_bytes;
  arguments.scale = options.scale;
  arguments.softcap = options.softcap;
  arguments.rows = query_rows.data();
  arguments.row_count = static_cast<uint32_t>(rows.size());
  arguments.scratch = scratch.data();
  attention_kernels(isa, head.shape.type).chunk(arguments);
  for (size_t i = scratch.size() - 16; i < scratch.size(); ++i)
    EXPECT_TRUE(std::isnan(scratch[i])) << "scratch overrun";
  for (auto& partial : partials) {
    for (size_t i = width; i < partial.size(); ++i) EXPECT_EQ(partial[i], kGuard) << "partial overrun";
    partial.resize(width);
  }
  return partials;
}

// Largest score, weights' sum, weighted values; in double.
std::vector<double> expected_partial(const Head& head, const Row& row, const Options& options) {
  const auto q = query_of(head, row.query, options);
  std::vector<double> scores, result(2 + head.shape.value_size, 0.0);
  result[0] = -kInfinity;
  for (uint32_t p = row.begin; p < row.end; ++p) {
    double score = 0;
    for (uint32_t d = 0; d < head.shape.head_size; ++d) score += q[d] * head.key(p, d);
    score *= options.scale;
    if (options.softcap != 0) score = options.softcap * std::tanh(score / options.softcap);
    scores.push_back(score);
    result[0] = std::max(result[0], score);
  }
  for (uint32_t p = row.begin; p < row.end; ++p) {
    const double weight = std::exp(scores[p - row.begin] - result[0]);
    result[1] += weight;
    for (uint32_t i = 0; i < head.shape.value_size; ++i) result[2 + i] += weight * head.value(p, i);
  }
  return result;
}

// Normalised values: |error| over the norm.
double value_error(const float* partial, const std::vector<double>& expected) {
  double error = 0, norm = 1e-60;
  for (size_t i = 2; i < expected.size(); ++i) {
    const double e = expected[i] / expected[1], d = static_cast<double>(partial[i]) / partial[1] - e;
    error += d * d;
    norm += e * e;
  }
  return std::sqrt(error / norm);
}

void expect_same(const std::vector<float>& actual, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
        << what << " element " << i << ": " << actual[i] << " and " << expected[i];
  }
}

std::vector<Row> random_rows(size_t count, uint32_t first, uint32_t end, std::mt19937& random) {
  std::vector<Row> rows;
  for (size_t r = 0; r < count; ++r) {
    uint32_t a = first + random() % (end - first), b = first + random() % (end - first);
    if (random() % 4 == 0) a = first;
    if (random() % 4 == 0) b = end - 1;
    rows.push_back({std::min(a, b), std::max(a, b) + 1, static_cast<uint32_t>(random() % 1000)});
  }
  return rows;
}

const std::vector<std::pair<uint32_t, uint32_t>> kSizes = {{2, 2},   {8, 8},   {20, 14},   {32, 32},   {64, 64},
                                                           {80, 80}, {64, 96}, {128, 128}, {256, 256}, {40, 72}};

TEST(AttentionKernels, appended_elements_are_where_the_layout_says) {
  for (CacheType type : kTypes) {
    for (auto [k, v] : kSizes) {
      const Shape shape{type, k, v};
      if (!possible(shape)) continue;
      for (Isa isa : supported_sets()) {
        Head head(shape, 128);
        for (uint32_t p : {70u, 64u, 127u, 95u, 80u}) {
          const auto key = random_values(k, p), value = random_values(v, p + 1000);
          head.append(attention_kernels(isa, type), p, key.data(), value.data());
          const auto check = [&](const std::vector<float>& x, auto read) {
            for (uint32_t i = 0; i < x.size(); ++i) {
              if (type == CacheType::f32) {
                ASSERT_EQ(read(i), x[i]) << shape.text();
              } else if (type == CacheType::f16) {
                ASSERT_EQ(read(i), half_to_float(float_to_half(x[i]))) << shape.text();
              } else {
                float largest = 0;
                for (uint32_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) largest = std::max(largest, std::fabs(x[j]));
                // Half a step; the scale's own rounding (2^-11) may clip the largest value.
                ASSERT_LT(std::fabs(read(i) - x[i]), largest * (0.5 / 127 + 1.0 / 2048)) << shape.text();
              }
            }
          };
          check(key, [&](uint32_t i) { return head.key(p, i); });
          check(value, [&](uint32_t i) { return head.value(p, i); });
        }
        for (uint32_t i = 0; i < k; ++i) ASSERT_EQ(head.key(71, i), 0.0) << "neighbours stay as they were";
        for (uint32_t i = 0; i < v; ++i) ASSERT_EQ(head.value(71, i), 0.0);
      }
    }
  }
}

TEST(AttentionKernels, appending_extremes_gives_no_infinity_and_the_same_bytes_everywhere) {
  const std::vector<float> special = {1e5f,  -1e5f, kInfinity, -kInfinity, 65504.0f, 65519.0f, 65520.0f, 1e38f,
                                      1e-8f, 3e-8f, 6e-8f,     -5.9e-8f,   0.0f,     -0.0f,    6.1e-5f,  1e-45f};
  for (CacheType type : {CacheType::f16, CacheType::q8_0}) {
    for (int kind = 0; kind < 6; ++kind) {
      auto key = random_values(64, static_cast<uint32_t>(kind), kind == 3 ? 1e-9f : kind == 4 ? 3e7f : 1);
      auto value = key;
      for (size_t i = 0; i < key.size(); ++i) {
        if (kind == 0 || (kind == 1 && i % 7 == 0)) key[i] = special[i % special.size()];
        if (kind == 2) value[i] = 0;
        if (kind == 5) value[i] = i == 40 ? kNan : value[i];
      }
      std::vector<std::byte> expected;
      for (Isa isa : supported_sets()) {
        Head head({type, 64, 64}, 64);
        head.append(attention_kernels(isa, type), 17, key.data(), value.data());
        for (uint32_t i = 0; i < 64; ++i) {
          ASSERT_TRUE(std::isfinite(head.key(17, i)));
          if (kind == 0) {
            ASSERT_EQ(std::signbit(head.key(17, i)) && head.key(17, i) != 0, key[i] < 0 && head.key(17, i) != 0);
          }
          if (kind != 5) {
            ASSERT_TRUE(std::isfinite(head.value(17, i)));
          } else {
            const bool nan = type == CacheType::f16 ? i == 40 : i >= 32;
            ASSERT_EQ(std::isnan(head.value(17, i)), nan) << "a NaN stays visible";
          }
        }
        if (type == CacheType::f16 && kind == 0) {
          ASSERT_EQ(head.key(17, 0), 65504.0);
          ASSERT_EQ(head.key(17, 3), -65504.0);
        }
        if (expected.empty()) expected = head.bytes();
        ASSERT_TRUE(kind == 5 || head.bytes() == expected) << name(isa) << " " << name(type) << " kind " << kind;
      }
    }
  }
}

TEST(AttentionKernels, chunk_matches_double) {
  std::mt19937 random(1);
  for (CacheType type : kTypes) {
    for (auto [k, v] : kSizes) {
      const Shape shape{type, k, v};
      if (!possible(shape)) continue;
      Head head(shape, 512);
      head.fill(attention_kernels(Isa::scalar, type), 512, k);
      for (size_t count = 1; count <= 9; ++count) {
        Options options;
        options.scale = 1.0f / std::sqrt(static_cast<float>(k));
        options.query_size = count % 3 == 0 ? 20.0f : 1.0f;
        if (count % 2 == 0) options.softcap = 5.0f;
        const uint32_t chunk = count % 2;
        const auto rows = random_rows(count, chunk * 256, chunk * 256 + 256, random);
        std::vector<std::vector<double>> expected;
        for (const Row& row : rows) expected.push_back(expected_partial(head, row, options));
        for (Isa isa : supported_sets()) {
          const auto partials = run_chunk(isa, head, chunk, rows, options);
          for (size_t r = 0; r < count; ++r) {
            const std::string what = std::string(name(isa)) + " " + shape.text() + " rows " + std::to_string(count) +
                                     " row " + std::to_string(r);
            // A score is a chain of k products, each about query * 1 * scale in size: sqrt(k) * query * scale for all.
            const double score_error = (std::sqrt(static_cast<double>(k)) + 8) * options.query_size * 8 * 0x1p-24;
            ASSERT_LT(std::fabs(partials[r][0] - expected[r][0]), score_error) << what;
            ASSERT_LT(std::fabs(partials[r][1] / expected[r][1] - 1), 2 * score_error + 32 * 0x1p-24) << what;
            ASSERT_LT(value_error(partials[r].data(), expected[r]), 8 * score_error + 300 * 0x1p-24) << what;
          }
        }
      }
    }
  }
}

TEST(AttentionKernels, a_row_does_not_depend_on_its_neighbours_or_the_instruction_set) {
  std::mt19937 random(2);
  for (CacheType type : kTypes) {
    for (auto [k, v] : kSizes) {
      const Shape shape{type, k, v};
      if (!possible(shape)) continue;
      Head head(shape, 256);
      head.fill(attention_kernels(Isa::scalar, type), 256, 3 * k);
      for (size_t count : {1, 2, 3, 4, 5, 6, 7, 9, 13}) {
        Options options;
        if (count % 2 == 0) options.softcap = 3.0f;
        const auto rows = random_rows(count, 0, 256, random);
        std::vector<std::vector<float>> alone;
        for (const Row& row : rows) alone.push_back(run_chunk(Isa::scalar, head, 0, {row}, options)[0]);
        for (Isa isa : supported_sets()) {
          const auto together = run_chunk(isa, head, 0, rows, options);
          for (size_t r = 0; r < count; ++r) {
            expect_same(together[r], alone[r],
                        std::string(name(isa)) + " " + shape.text() + " row " + std::to_string(r));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Scores that are infinite, NaN or subnormal: not useful, but the same everywhere.
TEST(AttentionKernels, instruction_sets_agree_on_special_values) {
  const float special[] = {kInfinity, -kInfinity, kNan, 1e-40f, -1e-45f, 3e38f, -3e38f, 0.0f, -0.0f};
  for (int kind = 0; kind < 9; ++kind) {
    const Shape shape{CacheType::f32, 32, 48};
    Head head(shape, 256);
    head.fill(scalar_attention_kernels(CacheType::f32), 256, 5);
    for (uint32_t p = 0; p < 256; p += 37) {
      auto key = random_values(32, p), value = random_values(48, p + 1);
      key[p % 32] = special[kind];
      value[p % 48] = special[(kind + p) % 9];
      head.append(scalar_attention_kernels(CacheType::f32), p, key.data(), value.data());
    }
    const std::vector<Row> rows = {{0, 256, 1}, {38, 74, 2}, {3, 40, 3}, {100, 256, 4}, {36, 38, 5}};
    for (float softcap : {0.0f, 2.0f}) {
      Options options;
      options.softcap = softcap;
      const auto expected = run_chunk(Isa::scalar, head, 0, rows, options);
      for (Isa isa : supported_sets()) {
        const auto actual = run_chunk(isa, head, 0, rows, options);
        for (size_t r = 0; r < rows.size(); ++r) {
          expect_same(actual[r], expected[r], std::string(name(isa)) + " kind " + std::to_string(kind));
        }
      }
    }
  }
}

TEST(AttentionKernels, positions_outside_the_range_do_not_exist) {
  for (CacheType type : kTypes) {
    const Shape shape{type, 64, 64};
    for (Isa isa : supported_sets()) {
      const AttentionKernels& kernels = attention_kernels(isa, type);
      Head clean(shape, 256), poisoned(shape, 256);
      clean.fill(kernels, 256, 11);
      poisoned.fill(kernels, 256, 11);
      const std::vector<float> nan(64, kNan);
      for (uint32_t p = 0; p < 256; ++p) {
        if (p < 20 || p >= 133) poisoned.append(kernels, p, nan.data(), nan.data());
      }
      poisoned.blocks[3] = nullptr;  // 192 .. 255: nobody looks there
      const std::vector<Row> rows = {{20, 133, 1}, {21, 22, 2},   {64, 128, 3}, {63, 65, 4},
                                     {20, 21, 5},  {132, 133, 6}, {30, 100, 7}};
      const auto expected = run_chunk(isa, clean, 0, rows, {}), actual = run_chunk(isa, poisoned, 0, rows, {});
      for (size_t r = 0; r < rows.size(); ++r) {
        expect_same(actual[r], expected[r], shape.text() + " row " + std::to_string(r));
        for (float x : actual[r]) ASSERT_TRUE(std::isfinite(x));
      }
      // A single position has weight 1.
      ASSERT_EQ(actual[1][1], 1.0f);
      for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(actual[1][2 + i], static_cast<float>(clean.value(21, i)));
    }
  }
}

TEST(AttentionKernels, blocks_between_distant_rows_may_be_missing) {
  for (Isa isa : supported_sets()) {
    Head whole({CacheType::f16, 32, 32}, 256);
    whole.fill(attention_kernels(isa, CacheType::f16), 256, 21);
    Head holes = whole;
    holes.blocks = whole.blocks;
    holes.blocks[1] = holes.blocks[2] = nullptr;
    const std::vector<Row> rows = {{0, 64, 1}, {200, 256, 2}, {192, 193, 3}};
    const auto expected = run_chunk(isa, whole, 0, rows, {}), actual = run_chunk(isa, holes, 0, rows, {});
    for (size_t r = 0; r < rows.size(); ++r) expect_same(actual[r], expected[r], std::string(name(isa)));
  }
}

// Attention over several chunks, windows included, is the softmax over all of them.
TEST(AttentionKernels, merged_chunks_match_double_across_boundaries) {
  for (CacheType type : kTypes) {
    for (auto [k, v] : {std::pair{64u, 64u}, {80u, 72u}}) {
      const Shape shape{type, k, v};
      if (!possible(shape)) continue;
      Head head(shape, 1024);
      head.fill(attention_kernels(Isa::scalar, type), 1024, 31);
      const std::pair<uint32_t, uint32_t> ranges[] = {{0, 1},     {0, 255},   {0, 256},   {0, 257},
                                                      {255, 256}, {255, 257}, {256, 512}, {100, 900},
                                                      {511, 513}, {0, 1024},  {768, 1000}};
      for (auto [begin, end] : ranges) {
        std::vector<float> first_result;
        for (Isa isa : supported_sets()) {
          const uint32_t first_chunk = begin / 256, chunks = (end - 1) / 256 + 1 - first_chunk;
          const size_t stride = 2 + v + 5;
          std::vector<float> partials(stride * chunks, kNan);
          for (uint32_t c = 0; c < chunks; ++c) {
            const uint32_t start = (first_chunk + c) * 256;
            const Row row{std::max(begin, start), std::min(end, start + 256), 8};
            const auto partial = run_chunk(isa, head, first_chunk + c, {row}, {})[0];
            std::copy(partial.begin(), partial.end(), partials.begin() + static_cast<std::ptrdiff_t>(c * stride));
          }
          std::vector<float> out(v + 8, kGuard);
          attention_kernels(isa, type).merge(partials.data(), stride, chunks, v, out.data());
          for (size_t i = v; i < out.size(); ++i) ASSERT_EQ(out[i], kGuard);
          out.resize(v);
          const auto expected = expected_partial(head, {begin, end, 8}, {});
          std::vector<float> as_partial = {0.0f, 1.0f};
          as_partial.insert(as_partial.end(), out.begin(), out.end());
          ASSERT_LT(value_error(as_partial.data(), expected), 600 * 0x1p-24)
              << shape.text() << " " << begin << " " << end;
          if (first_result.empty()) first_result = out;
          expect_same(out, first_result, std::string(name(isa)));
        }
      }
    }
  }
}

TEST(AttentionKernels, merge_of_nothing_is_zero_and_empty_chunks_do_not_count) {
  for (Isa isa : supported_sets()) {
    const auto merge = attention_kernels(isa, CacheType::f16).merge;
    std::vector<float> out(20, kGuard);
    merge(nullptr, 0, 0, 20, out.data());
    EXPECT_EQ(out, std::vector<float>(20, 0.0f));

    const std::vector<float> empty = {-kInfinity, 0, 0, 0, 0}, full = {3.0f, 2.0f, 4.0f, -6.0f, 1.0f};
    const auto merged = [&](const std::vector<const std::vector<float>*>& parts) {
      std::vector<float> partials, result(3, kGuard);
      for (const auto* part : parts) partials.insert(partials.end(), part->begin(), part->end());
      merge(partials.data(), 5, static_cast<uint32_t>(parts.size()), 3, result.data());
      return result;
    };
    const std::vector<float> expected = {2.0f, -3.0f, 0.5f};
    EXPECT_EQ(merged({&full}), expected);
    EXPECT_EQ(merged({&empty, &full}), expected);
    EXPECT_EQ(merged({&full, &empty}), expected);
    EXPECT_EQ(merged({&empty, &full, &empty, &full}), expected);
    EXPECT_EQ(merged({&empty, &empty}), std::vector<float>(3, 0.0f));
    // Far apart: the small one vanishes, nothing overflows.
    const std::vector<float> tiny = {-1e4f, 1.0f, 9.0f, 9.0f, 9.0f};
    EXPECT_EQ(merged({&tiny, &full}), expected);
  }
}

TEST(AttentionKernels, large_scores_do_not_overflow) {
  for (Isa isa : supported_sets()) {
    Head head({CacheType::f16, 64, 64}, 256);
    head.fill(attention_kernels(isa, CacheType::f16), 256, 41);
    Options options;
    options.query_size = 1e4f;
    const auto partials = run_chunk(isa, head, 0, {{0, 256, 1}, {0, 17, 2}}, options);
    for (const auto& partial : partials) {
      for (float x : partial) ASSERT_TRUE(std::isfinite(x));
      ASSERT_GE(partial[1], 1.0f);
    }
  }
}

}  // namespace
}  // namespace gale::exec
