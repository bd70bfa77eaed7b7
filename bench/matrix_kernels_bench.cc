// Benchmarks of matrix kernels from the second-level cache, of panel writers and of tile writers, for each instruction
// set.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/numbers.h"
#include "exec/cpu/matrix_kernels.h"
#include "exec/cpu/tiles.h"

namespace gale::exec {
namespace {

using format::TensorType;

constexpr TensorType kTypes[] = {TensorType::q4_0, TensorType::q4_1, TensorType::q5_0, TensorType::q5_1,
                                 TensorType::q8_0, TensorType::q4_k, TensorType::q5_k, TensorType::q6_k,
                                 TensorType::f16,  TensorType::bf16, TensorType::f32};
constexpr size_t kLength = 2048;

// On whole cache lines, as the buffers of the executor are.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* data, size_t) { ::operator delete (data, std::align_val_t{64}); }
  bool operator==(const LineAllocator&) const { return true; }
};
template <class T>
using Lines = std::vector<T, LineAllocator<T>>;

// Random bytes whose halves are small numbers, so that sums stay ordinary.
Lines<std::byte> random_tiles(size_t bytes) {
  std::mt19937 rng(1);
  Lines<std::byte> tiles(bytes);
  for (auto& byte : tiles) byte = static_cast<std::byte>(rng() & 0x3f);
  return tiles;
}

// Walks about `bytes` bytes of tile rows again and again.
void multiply(benchmark::State& state, const MatrixKernels& kernels, TensorType type, int columns, size_t bytes) {
  const size_t row_bytes = tile_row_bytes(type, kernels.height, kLength);
  const size_t rows = std::max<size_t>(1, bytes / row_bytes);
  const auto tiles = random_tiles(rows * row_bytes);
  Lines<float> x(kLength), out(static_cast<size_t>(columns) * kernels.height);
  for (size_t k = 0; k < kLength; ++k) x[k] = static_cast<float>(k * 37 % 101) - 50.0f;
  const PanelKind kind = panel_kind(type);
  Lines<std::byte> panel(panel_bytes(kind, kLength, columns));
  for (int c = 0; c < columns; ++c) kernels.panel_writer(kind)(x.data(), kLength, columns, c, panel.data());
  const MatrixKernel kernel = kernels.kernel(type, columns);
  for (auto _ : state) {
    for (size_t row = 0; row < rows; ++row) {
      kernel(tiles.data() + row * row_bytes, panel.data(), kLength, out.data());
      benchmark::DoNotOptimize(out.data());
      benchmark::ClobberMemory();
    }
  }
  const double passes = static_cast<double>(state.iterations());
  const double values = passes * static_cast<double>(rows * kernels.height * kLength);
  using benchmark::Counter;
  state.counters["bytes/s"] = Counter(passes * static_cast<double>(tiles.size()), Counter::kIsRate);
  state.counters["op/s"] = Counter(values * 2 * columns, Counter::kIsRate);
  // Of 16 rows x 32 values, whatever the height of the tile.
  state.counters["s/block"] = Counter(values / 512, Counter::kIsRate | Counter::kInvert);
}

void write_panel(benchmark::State& state, const MatrixKernels& kernels, PanelKind kind, int columns) {
  Lines<float> x(kLength);
  for (size_t k = 0; k < kLength; ++k) x[k] = static_cast<float>(k * 37 % 101) - 50.0f;
  Lines<std::byte> panel(panel_bytes(kind, kLength, columns));
  const PanelWriter writer = kernels.panel_writer(kind);
  for (auto _ : state) {
    for (int c = 0; c < columns; ++c) writer(x.data(), kLength, columns, c, panel.data());
    benchmark::ClobberMemory();
  }
  state.counters["s/value"] = benchmark::Counter(static_cast<double>(state.iterations()) * kLength * columns,
                                                 benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void make_tiles(benchmark::State& state, TensorType type, uint32_t height) {
  const size_t bytes = tile_row_bytes(type, height, kLength);
  const auto file = random_tiles(bytes);
  Lines<std::byte> tile(bytes);
  for (auto _ : state) {
    make_tile_row(type, height, kLength, file.data(), height, tile.data());
    benchmark::DoNotOptimize(tile.data());
    benchmark::ClobberMemory();
  }
  state.counters["bytes/s"] = benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(bytes),
                                                 benchmark::Counter::kIsRate);
}

void register_all() {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const MatrixKernels& kernels = matrix_kernels(isa);
    for (const TensorType type : kTypes)
      for (int columns = 1; columns <= kMaxKernelColumns; ++columns) {
        const auto run = [&](const char* where, size_t bytes) {
          const std::string title =
              fmt::format("{}/{}/{}/columns:{}", where, name(isa), format::type_name(type), columns);
          benchmark::RegisterBenchmark(title.c_str(), [&kernels, type, columns, bytes](benchmark::State& state) {
            multiply(state, kernels, type, columns, bytes);
          });
        };
        run("cache", 256 << 10);
        if (isa != Isa::scalar) run("memory", 192 << 20);
      }
    for (const PanelKind kind : {PanelKind::int8, PanelKind::float32})
      for (const int columns : {1, 4}) {
        const std::string title =
            fmt::format("panel/{}/{}/columns:{}", name(isa), kind == PanelKind::int8 ? "int8" : "float32", columns);
        benchmark::RegisterBenchmark(title.c_str(), [&kernels, kind, columns](benchmark::State& state) {
          write_panel(state, kernels, kind, columns);
        });
      }
  }
  for (const TensorType type : kTypes)
    for (const uint32_t height : {8u, 16u})
      benchmark::RegisterBenchmark(fmt::format("tile/{}/height:{}", format::type_name(type), height).c_str(),
                                   [type, height](benchmark::State& state) { make_tiles(state, type, height); });
}

}  // namespace
}  // namespace gale::exec

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  gale::exec::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
