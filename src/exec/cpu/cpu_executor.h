// The CPU executor: a team of threads walks the lowered program together over re-tiled weights.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/team.h"
#include "exec/pass.h"
#include "model/program.h"

namespace gale::exec {

struct CpuOptions {
  int threads = 1;
  bool pin_threads = true;
  Isa isa = Isa::scalar;
  CacheType cache_type = CacheType::f16;
  uint32_t max_columns = 512;  // of one pass
};

// What one phase of the last passes cost, for `gale bench`.
struct PhaseTiming {
  std::string name;    // "q/k/v", "attention", ...
  uint64_t bytes = 0;  // weights and cache that one pass had to read in phases of this name
  double seconds = 0;  // of one pass, averaged
};

// Column results do not depend, to the last bit, on the other columns of a pass, on how a prompt was cut into passes,
// on the number of threads, or on the instruction set.
class CpuExecutor {
 public:
  // Re-tiles all weights (this reads the file; pages are given back as it goes). `program` and `checkpoint` must
  // outlive this. Errors: a tensor type without a kernel (named), not enough memory (with both numbers).
  static Result<std::unique_ptr<CpuExecutor>> create(const model::Program& program,
                                                     const format::Checkpoint& checkpoint, const CpuOptions& options);
  ~CpuExecutor();

  Result<SequenceId> open_sequence(uint32_t max_positions);
  void close_sequence(SequenceId id);
  bool truncate(SequenceId id, uint32_t length);
  uint32_t length(SequenceId id) const;
  // As ReferenceExecutor::run. At most options.max_columns columns.
  Status run(std::span<const Column> columns, std::span<float> logits);

  // Bytes that a sequence of `positions` takes for its cache (windowed layers hold only their window).
  uint64_t cache_bytes(uint32_t positions) const;
  uint64_t weight_memory_bytes() const;
  // Timing per phase since the last call; off by default since it reads the clock in every phase.
  void set_profiling(bool on);
  std::vector<PhaseTiming> take_profile();
  Team& team();

 private:
  struct State;
  explicit CpuExecutor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gale::exec
