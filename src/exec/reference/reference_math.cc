// Plain loops, one formula each; nothing here is meant to be fast.
#include "exec/reference/reference_math.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gale::exec::reference {

Vector rms(std::span<const double> x, const float* w, float epsilon) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + static_cast<double>(epsilon));
  Vector out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = w[i] * x[i] * factor;
  return out;
}

Vector multiply(const float* weight, size_t rows, std::span<const double> x) {
  Vector out(rows);
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += weight[r * x.size() + i] * x[i];
    out[r] = sum;
  }
  return out;
}

double activate(model::Activation activation, double x) {
  if (activation == model::Activation::silu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * x * (1 + 0.044715 * x * x)));
}

double softcap(double x, float cap) {
  return cap > 0 ? cap * std::tanh(x / cap) : x;
}

Rotation::Rotation(const model::Rope& rope, const float* divisors, uint32_t position) : pairs_(rope.pairs) {
  for (uint32_t i = 0; i < rope.dimensions / 2; ++i) {
    double angle = position * std::pow(static_cast<double>(rope.base), -2.0 * i / rope.dimensions) / rope.factor;
    if (divisors) angle /= divisors[i];
    cosines_.push_back(std::cos(angle));
    sines_.push_back(std::sin(angle));
  }
}

void Rotation::apply(std::span<double> head) const {
  const size_t half = cosines_.size();
  for (size_t i = 0; i < half; ++i) {
    const bool neighbours = pairs_ == model::Rope::Pairs::neighbours;
    double& first = head[neighbours ? 2 * i : i];
    double& second = head[neighbours ? 2 * i + 1 : i + half];
    const double a = first, b = second;
    first = a * cosines_[i] - b * sines_[i];
    second = a * sines_[i] + b * cosines_[i];
  }
}

void norm_and_rotate(Vector& row, size_t head_size, const float* norm_weight, float epsilon, const Rotation& rotation) {
  for (size_t begin = 0; begin < row.size(); begin += head_size) {
    const std::span<double> head = std::span(row).subspan(begin, head_size);
    if (norm_weight) std::ranges::copy(rms(head, norm_weight, epsilon), head.begin());
    rotation.apply(head);
  }
}

void attend(const model::AttentionStep& step, const Vector& query, std::span<const float> keys,
            std::span<const float> values, uint32_t position, Vector& output) {
  const size_t visible = step.window == 0 ? position + size_t{1} : std::min<size_t>(position + size_t{1}, step.window);
  const size_t first = position + size_t{1} - visible;
  Vector scores(visible);
  for (size_t head = 0; head < step.heads; ++head) {
    const size_t kv_head = head / (step.heads / step.kv_heads);
    const double* q = query.data() + head * step.head_size;
    for (size_t i = 0; i < visible; ++i) {
      const float* k = keys.data() + ((first + i) * step.kv_heads + kv_head) * step.head_size;
      double dot = 0;
      for (size_t d = 0; d < step.head_size; ++d) dot += q[d] * k[d];
      scores[i] = softcap(dot * step.scale, step.softcap);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - top);
    double* out = output.data() + head * step.value_size;
    std::fill(out, out + step.value_size, 0.0);
    for (size_t i = 0; i < visible; ++i) {
      const float* v = values.data() + ((first + i) * step.kv_heads + kv_head) * step.value_size;
      for (size_t d = 0; d < step.value_size; ++d) out[d] += scores[i] / total * v[d];
    }
  }
}

}  // namespace gale::exec::reference
