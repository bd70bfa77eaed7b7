// Attention kernels on one thread: decoding at depth 4096 in bytes/s of cache, and prefill in flop/s, per instruction
// set and cache type.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/memory.h"
#include "exec/cpu/attention_kernels.h"
#include "exec/cpu/kv_cache.h"
#include "exec/cpu/vector_kernels.h"

namespace {

using namespace gale;
using namespace gale::exec;

struct Shape {
  CacheType type;
  uint32_t head_size, heads, columns, depth;  // heads: query heads that share the KV head
};

// `heads * columns` rows over the blocks of one KV head; column c sees depth - columns + c + 1 positions.
struct Workload {
  explicit Workload(const Shape& shape)
      : shape(shape),
        layout(*head_block_layout(shape.type, shape.head_size, shape.head_size)),
        memory(std::move(PageBuffer::allocate(layout.bytes() * (shape.depth / kBlockPositions), true)).value()) {
    const AttentionKernels& kernels = scalar_attention_kernels(shape.type);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(shape.head_size);
    const auto fresh = [&] {
      for (float& v : values) v = normal(random);
      return values.data();
    };
    for (uint32_t p = 0; p < shape.depth; ++p) {
      std::byte* block = memory.data() + p / kBlockPositions * layout.bytes();
      kernels.append_key(fresh(), shape.head_size, p % kBlockPositions, block);
      kernels.append_value(fresh(), shape.head_size, p % kBlockPositions, block + layout.key_bytes);
    }
    for (uint32_t b = 0; b < shape.depth / kBlockPositions; ++b) blocks.push_back(memory.data() + b * layout.bytes());
    const uint32_t rows = shape.heads * shape.columns;
    queries.resize(size_t{rows} * shape.head_size);
    for (float& q : queries) q = normal(random);
    chunks = shape.depth / kChunkPositions;
    partials.resize(size_t{rows} * chunks * (2 + shape.head_size));
    scratch.resize(attention_scratch_floats(rows));
    out.resize(shape.head_size);
  }

  void run(const AttentionKernels& kernels) {
    const uint32_t row_count = shape.heads * shape.columns;
    std::vector<QueryRow> rows(row_count);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const uint32_t first = chunk * kChunkPositions;
      uint32_t used = 0;
      for (uint32_t r = 0; r < row_count; ++r) {
        const uint32_t end = std::min(first + kChunkPositions, shape.depth - shape.columns + r / shape.heads + 1);
        if (end <= first) continue;
        rows[used++] = {queries.data() + size_t{r} * shape.head_size, first, end,
                        partials.data() + (size_t{r} * chunks + chunk) * (2 + shape.head_size)};
      }
      kernels.chunk({blocks.data() + chunk * (kChunkPositions / kBlockPositions), first, shape.head_size,
                     shape.head_size, layout.key_bytes, 1 / std::sqrt(static_cast<float>(shape.head_size)), 0,
                     rows.data(), used, scratch.data()});
    }
    for (uint32_t r = 0; r < row_count; ++r) {
      kernels.merge(partials.data() + size_t{r} * chunks * (2 + shape.head_size), 2 + shape.head_size, chunks,
                    shape.head_size, out.data());
    }
    benchmark::DoNotOptimize(out.data());
  }

  double bytes() const { return static_cast<double>(layout.bytes()) * shape.depth / kBlockPositions; }
  // One fma per row, position and element for the scores, and one for the values; full blocks counted.
  double flops() const {
    return 4.0 * shape.heads * shape.columns * shape.head_size * (shape.depth - shape.columns / 2.0);
  }

  Shape shape;
  HeadBlockLayout layout;
  PageBuffer memory;
  std::vector<const std::byte*> blocks;
  std::vector<float> queries, partials, scratch, out;
  uint32_t chunks;
};

void attention(benchmark::State& state, Isa isa, Shape shape) {
  Workload workload(shape);
  const AttentionKernels& kernels = attention_kernels(isa, shape.type);
  for (auto _ : state) workload.run(kernels);
  const double runs = static_cast<double>(state.iterations());
  state.counters["B/s"] = benchmark::Counter(runs * workload.bytes(), benchmark::Counter::kIsRate);
  state.counters["flop/s"] = benchmark::Counter(runs * workload.flops(), benchmark::Counter::kIsRate);
}

void silu(benchmark::State& state, Isa isa) {
  std::vector<float> gate(1536, 0.7f), up(1536, 1.3f), out(1536);
  for (auto _ : state) {
    vector_kernels(isa).silu_gated(gate.data(), up.data(), gate.size(), out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(gate.size()));
}

}  // namespace

int main(int argc, char** argv) {
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const std::string set(name(isa));
    benchmark::RegisterBenchmark(("silu/" + set).c_str(), [=](auto& state) { silu(state, isa); });
    for (CacheType type : {CacheType::f16, CacheType::q8_0, CacheType::f32}) {
      const std::string suffix = set + "/" + std::string(name(type));
      const auto add = [&](const char* what, Shape shape) {
        const std::string text = std::string(what) + "/head" + std::to_string(shape.head_size) + "x" +
                                 std::to_string(shape.heads) + "/columns" + std::to_string(shape.columns) + "/" +
                                 suffix;
        benchmark::RegisterBenchmark(text.c_str(), [=](auto& state) { attention(state, isa, shape); });
      };
      add("decode", {type, 64, 3, 1, 4096});
      add("decode", {type, 64, 1, 1, 4096});
      add("decode", {type, 256, 4, 1, 4096});
      add("verify", {type, 64, 3, 4, 4096});
      add("prefill", {type, 64, 3, 32, 1024});
      add("prefill", {type, 128, 4, 16, 1024});
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
