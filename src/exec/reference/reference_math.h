// The arithmetic of the steps in double: norms, products, rotary embedding, attention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/program.h"

namespace gale::exec::reference {

using Vector = std::vector<double>;

// w * x / sqrt(mean(x^2) + epsilon)
Vector rms(std::span<const double> x, const float* w, float epsilon);
// weight [rows x x.size()] . x
Vector multiply(const float* weight, size_t rows, std::span<const double> x);
double activate(model::Activation activation, double x);
// cap * tanh(x / cap); x itself if cap is 0.
double softcap(double x, float cap);

// The angles of one position.
class Rotation {
 public:
  // angle of pair i = position * base^(-2i / dimensions) / divisors[i] / factor
  Rotation(const model::Rope& rope, const float* divisors, uint32_t position);
  // Rotates the first `dimensions` elements of a head.
  void apply(std::span<double> head) const;

 private:
  model::Rope::Pairs pairs_;
  std::vector<double> cosines_, sines_;
};

// For every head of `row`: norm (if norm_weight isn't null), then rotation.
void norm_and_rotate(Vector& row, size_t head_size, const float* norm_weight, float epsilon, const Rotation& rotation);

// Softmax attention of one query [heads x head_size] at `position` over rows 0 .. position of its window.
// keys [positions x kv_heads x head_size], values [positions x kv_heads x value_size], output [heads x value_size].
void attend(const model::AttentionStep& step, const Vector& query, std::span<const float> keys,
            std::span<const float> values, uint32_t position, Vector& output);

}  // namespace gale::exec::reference
