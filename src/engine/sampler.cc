// Greedy and seeded sampling.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gale::engine {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

void apply_repeat_penalty(std::vector<std::pair<float, int32_t>>& candidates, std::span<const int32_t> history,
                          float penalty) {
  // `candidates` is still in the order of ids here.
  std::vector<int32_t> seen(history.begin(), history.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const int32_t token : seen) {
    if (token < 0 || static_cast<size_t>(token) >= candidates.size()) continue;
    float& logit = candidates[static_cast<size_t>(token)].first;
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

uint64_t fresh_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

Status validate(const SamplingOptions& o) {
  if (!(o.temperature >= 0) || !std::isfinite(o.temperature)) {
    return fail(ErrorKind::invalid_input, "temperature is {}, but must be 0 (greedy) or more", o.temperature);
  }
  if (!(o.top_p >= 0 && o.top_p <= 1))
    return fail(ErrorKind::invalid_input, "top-p is {}, but must be between 0 and 1", o.top_p);
  if (!(o.min_p >= 0) || !std::isfinite(o.min_p)) {
    return fail(ErrorKind::invalid_input, "min-p is {}, but must be between 0 and 1", o.min_p);
  }
  if (!(o.repeat_penalty > 0) || !std::isfinite(o.repeat_penalty)) {
    return fail(ErrorKind::invalid_input, "repeat penalty is {}, but must be more than 0 (1 is off)", o.repeat_penalty);
  }
  return {};
}

int32_t argmax(std::span<const float> logits) {
  int32_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kBanned) || std::isinf(logits[i])) continue;  // NaN and both infinities never win
    if (best < 0 || logits[i] > logits[static_cast<size_t>(best)]) best = static_cast<int32_t>(i);
  }
  return best;
}

Sampler::Sampler(const SamplingOptions& options)
    : options_(options), random_(options.seed ? *options.seed : fresh_seed()) {}

Result<int32_t> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history) {
  const auto nothing_left = [&] {
    return fail(ErrorKind::invalid_input, "no token can be chosen: none of the {} logits is a finite number",
                logits.size());
  };
  const bool penalised = options_.repeat_penalty != 1 && options_.repeat_window > 0 && !history.empty();
  if (options_.temperature == 0 && !penalised) {
    const int32_t token = argmax(logits);
    if (token < 0) return nothing_left();
    return token;
  }
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates_.emplace_back(std::isfinite(logits[i]) ? logits[i] : kBanned, static_cast<int32_t>(i));
  }
  if (penalised) {
    apply_repeat_penalty(candidates_, history.last(std::min<size_t>(history.size(), options_.repeat_window)),
                         options_.repeat_penalty);
  }
  std::erase_if(candidates_, [](const auto& c) { return !std::isfinite(c.first); });
  if (candidates_.empty()) return nothing_left();
  // Best first; equal logits in the order of ids, so that the choice depends on nothing else.
  const auto better = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  if (options_.temperature == 0) return std::min_element(candidates_.begin(), candidates_.end(), better)->second;
  if (options_.top_k > 0 && options_.top_k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + options_.top_k - 1, candidates_.end(), better);
    candidates_.resize(options_.top_k);
  }
  std::sort(candidates_.begin(), candidates_.end(), better);

  // top-p and min-p look at the distribution before temperature, in the order of the usual sampler chain.
  const double best = candidates_[0].first;
  std::vector<double> weights(candidates_.size());
  double total = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) total += weights[i] = std::exp(candidates_[i].first - best);
  size_t keep = candidates_.size();
  if (options_.top_p < 1) {
    double sum = 0;
    for (size_t i = 0; i < keep; ++i) {
      sum += weights[i];
      if (sum >= options_.top_p * total) keep = i + 1;
    }
  }
  while (keep > 1 && weights[keep - 1] < options_.min_p) --keep;  // weights are relative to the best: its own is 1

  total = 0;
  for (size_t i = 0; i < keep; ++i)
    total += weights[i] = std::exp((candidates_[i].first - best) / options_.temperature);
  // 53 random bits to [0, 1): the same on every standard library, unlike std::uniform_real_distribution.
  double point = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
  for (size_t i = 0; i < keep; ++i) {
    point -= weights[i];
    if (point < 0) return candidates_[i].second;
  }
  return candidates_[0].second;
}

}  // namespace gale::engine
