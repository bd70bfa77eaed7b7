// The plain executor: one step after the other, double accumulation, no tricks; every other executor is tested against
// it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/pass.h"
#include "model/program.h"

namespace gale::exec {

// Weights are decoded to float when used and kept decoded (small models only). Keys and values are cached in float32.
class ReferenceExecutor {
 public:
  // `program` and its checkpoint must outlive this.
  static Result<std::unique_ptr<ReferenceExecutor>> create(const model::Program& program);
  ~ReferenceExecutor();

  // A new, empty sequence that may grow to `max_positions`.
  Result<SequenceId> open_sequence(uint32_t max_positions);
  void close_sequence(SequenceId id);
  // Forgets positions >= length. False: what would be needed is gone (sliding windows): close it and start again.
  bool truncate(SequenceId id, uint32_t length);
  uint32_t length(SequenceId id) const;

  // Runs the columns and appends them to their sequences. `logits` gets [columns that want them x vocabulary] in column
  // order. Errors leave the sequences as they were: token out of range, positions that don't continue the sequence, a
  // sequence that is full, wrong size of `logits`.
  Status run(std::span<const Column> columns, std::span<float> logits);

 private:
  struct State;
  explicit ReferenceExecutor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gale::exec
