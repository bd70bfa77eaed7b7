// Measures a loaded model against the limit that its bytes and the machine's memory set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace gale::engine {

struct BenchmarkOptions {
  uint32_t prefill = 512;                          // tokens of the prefill measurement; 0: none
  std::vector<uint32_t> depths = {0, 1024, 4096};  // positions in the cache before decoding
  uint32_t max_columns = 8;                        // passes of 1 .. this many columns, logits for each
  uint32_t passes = 32;                            // decoding passes per round
  uint32_t rounds = 5;                             // of everything; medians are reported
};

// Median time of one pass and what it had to move.
struct PassMeasurement {
  uint32_t depth = 0;
  uint32_t columns = 1;
  double seconds = 0;
  uint64_t bytes = 0;      // weights once, cache once
  double limit_share = 0;  // bytes / bandwidth / seconds
  double tokens_per_second() const { return columns / seconds; }
  double bytes_per_second() const { return static_cast<double>(bytes) / seconds; }
};

struct BenchmarkReport {
  double bandwidth =
      0;  // bytes per second of a plain read by all threads, the median of measurements between the rounds
  uint32_t prefill_tokens = 0;
  double prefill_seconds = 0;            // median; logits for the last token
  std::vector<PassMeasurement> decode;   // one column, by depth
  std::vector<PassMeasurement> columns;  // by columns, at depth 0
  struct Phases {
    uint32_t depth = 0;
    std::vector<exec::PhaseTiming> phases;  // of one decoding pass
  };
  std::vector<Phases> phases;                     // for the first and the last depth
  std::vector<exec::PhaseTiming> prefill_phases;  // of the prefill, averaged over its passes
};

// Depths that don't fit the engine's context are left out (and said through `note`). Error: reference executor;
// whatever a pass reports; cancelled.
Result<BenchmarkReport> run_benchmark(Engine& engine, const BenchmarkOptions& options, const std::atomic<bool>* cancel,
                                      const std::function<void(std::string_view)>& note);

}  // namespace gale::engine
