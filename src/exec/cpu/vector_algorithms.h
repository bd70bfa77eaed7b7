// The vector kernels, written once over sixteen lanes; each instruction set's file includes its Lanes and then this.
#pragma once

#include "exec/cpu/lanes_math.h"
#include "exec/cpu/vector_kernels.h"

namespace gale::exec {
namespace {

constexpr size_t kLanes = 16;

template <class Lanes>
struct VectorAlgorithms {
  // out[i] = f(a[i], b[i]), 16 at a time; a lane never sees another one, so the tail's padding doesn't matter.
  template <class F>
  static void for_each(const float* a, const float* b, size_t n, float* out, F f) {
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) f(Lanes::load(a + i), Lanes::load(b + i)).store(out + i);
    if (i < n) f(Lanes::load_partial(a + i, n - i), Lanes::load_partial(b + i, n - i)).store_partial(out + i, n - i);
  }

  // 1 / sqrt(mean(x^2) + epsilon)
  static float inverse_rms(const float* x, float epsilon, size_t n) {
    Lanes sum = Lanes::broadcast(0.0f);
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Lanes v = Lanes::load(x + i);
      sum = Lanes::fma(v, v, sum);
    }
    if (i < n) {
      const Lanes v = Lanes::load_partial(x + i, n - i);
      sum = Lanes::fma(v, v, sum);
    }
    const float mean = Lanes::fold_sum(sum) / static_cast<float>(n);
    return 1.0f / Lanes::sqrt(Lanes::broadcast(mean + epsilon)).first();
  }

  static void rms_norm(const float* x, const float* weight, float epsilon, size_t n, float* out) {
    if (n == 0) return;
    const Lanes inverse = Lanes::broadcast(inverse_rms(x, epsilon, n));
    for_each(x, weight, n, out, [&](Lanes v, Lanes w) { return v * inverse * w; });
  }

  static void add_rms_norm(const float* x, const float* post_weight, float epsilon, const float* residual, size_t n,
                           float* sum) {
    if (n == 0) return;
    const Lanes inverse = Lanes::broadcast(inverse_rms(x, epsilon, n));
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      (Lanes::load(residual + i) + Lanes::load(x + i) * inverse * Lanes::load(post_weight + i)).store(sum + i);
    }
    if (i < n) {
      const size_t rest = n - i;
      const Lanes scaled = Lanes::load_partial(x + i, rest) * inverse * Lanes::load_partial(post_weight + i, rest);
      (Lanes::load_partial(residual + i, rest) + scaled).store_partial(sum + i, rest);
    }
  }

  static void silu_gated(const float* gate, const float* up, size_t n, float* out) {
    for_each(gate, up, n, out, [](Lanes g, Lanes u) { return silu(g) * u; });
  }

  static void gelu_gated(const float* gate, const float* up, size_t n, float* out) {
    for_each(gate, up, n, out, [](Lanes g, Lanes u) { return gelu_tanh(g) * u; });
  }

  static void softcap(float* x, float cap, size_t n) {
    const Lanes caps = Lanes::broadcast(cap);
    for_each(x, x, n, x, [&](Lanes v, Lanes) { return soft_capped(v, caps); });
  }

  static void add(float* x, const float* y, size_t n) {
    for_each(x, y, n, x, [](Lanes a, Lanes b) { return a + b; });
  }

  static void scale(float* x, float scale, size_t n) {
    const Lanes factor = Lanes::broadcast(scale);
    for_each(x, x, n, x, [&](Lanes v, Lanes) { return factor * v; });
  }

  // (a, b) turned by (c, s).
  static void rotate(Lanes& a, Lanes& b, Lanes c, Lanes s) {
    const Lanes turned = Lanes::fnma(b, s, a * c);
    b = Lanes::fma(a, s, b * c);
    a = turned;
  }

  static void rope_halves(float* head, const float* cos, const float* sin, size_t n) {
    const size_t half = n / 2;
    float* second = head + half;
    size_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      Lanes a = Lanes::load(head + i), b = Lanes::load(second + i);
      rotate(a, b, Lanes::load(cos + i), Lanes::load(sin + i));
      a.store(head + i);
      b.store(second + i);
    }
    if (i < half) {
      const size_t rest = half - i;
      Lanes a = Lanes::load_partial(head + i, rest), b = Lanes::load_partial(second + i, rest);
      rotate(a, b, Lanes::load_partial(cos + i, rest), Lanes::load_partial(sin + i, rest));
      a.store_partial(head + i, rest);
      b.store_partial(second + i, rest);
    }
  }

  static void rope_neighbours(float* head, const float* cos, const float* sin, size_t n) {
    const size_t pairs = n / 2;
    size_t i = 0;
    Lanes a, b;
    for (; i + kLanes <= pairs; i += kLanes) {
      Lanes::load_pairs(head + 2 * i, a, b);
      rotate(a, b, Lanes::load(cos + i), Lanes::load(sin + i));
      Lanes::store_pairs(head + 2 * i, a, b);
    }
    if (i < pairs) {
      const size_t rest = pairs - i;
      float padded[2 * kLanes] = {};
      for (size_t k = 0; k < 2 * rest; ++k) padded[k] = head[2 * i + k];
      Lanes::load_pairs(padded, a, b);
      rotate(a, b, Lanes::load_partial(cos + i, rest), Lanes::load_partial(sin + i, rest));
      Lanes::store_pairs(padded, a, b);
      for (size_t k = 0; k < 2 * rest; ++k) head[2 * i + k] = padded[k];
    }
  }

  static constexpr VectorKernels table() {
    return {rms_norm, add_rms_norm, silu_gated, gelu_gated, softcap, add, scale, rope_neighbours, rope_halves};
  }
};

}  // namespace
}  // namespace gale::exec
