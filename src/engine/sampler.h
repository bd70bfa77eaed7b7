// Chooses the next token from logits: greedy, or seeded sampling with temperature, top-k, top-p, min-p and repeat
// penalty.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/result.h"

namespace gale::engine {

struct SamplingOptions {
  float temperature = 0;         // 0: greedy
  uint32_t top_k = 0;            // 0: off
  float top_p = 1;               // 1: off
  float min_p = 0;               // 0: off
  float repeat_penalty = 1;      // 1: off; divides positive, multiplies negative logits, once per distinct token
  uint32_t repeat_window = 64;   // of the last tokens
  std::optional<uint64_t> seed;  // nullopt: a fresh one for each answer
};

Status validate(const SamplingOptions& options);

class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  // `logits` [vocabulary]; `history` are the tokens so far. At least the best finite candidate survives every filter.
  // Error: no logit is finite (all tokens banned, or NaN).
  Result<int32_t> sample(std::span<const float> logits, std::span<const int32_t> history);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<std::pair<float, int32_t>> candidates_;
};

// Index of the largest logit (the first of equals); -1 if none is finite. NaN never wins.
int32_t argmax(std::span<const float> logits);

}  // namespace gale::engine
