// Element-wise and per-row arithmetic of a pass: norms, activations, rotary embedding; the same bits on every
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace gale::exec {

// Sums over a row use 16 virtual lanes (lane = index % 16), each in rising order with fused multiply-add, folded as
// l[i] + l[i + 8], then + 4, + 2, + 1. exp is one polynomial (error below 2 ulp) with the same operations everywhere.
struct VectorKernels {
  // out = w * (x / sqrt(mean(x^2) + epsilon)), computed as (x * inverse) * w. out may be x.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, size_t n, float* out);
  // sum = residual + rms(x; post_weight)
  void (*add_rms_norm)(const float* x, const float* post_weight, float epsilon, const float* residual, size_t n,
                       float* sum);
  // out = silu(gate) * up, gelu_tanh(gate) * up. out may be gate.
  void (*silu_gated)(const float* gate, const float* up, size_t n, float* out);
  void (*gelu_gated)(const float* gate, const float* up, size_t n, float* out);
  // x = cap * tanh(x / cap)
  void (*softcap)(float* x, float cap, size_t n);
  // x += y
  void (*add)(float* x, const float* y, size_t n);
  // x = scale * x
  void (*scale)(float* x, float scale, size_t n);
  // Rotates one head in place: pair i turns by cos[i], sin[i] (n / 2 of them); neighbours (2i, 2i+1) or halves (i, i +
  // n/2).
  void (*rope_neighbours)(float* head, const float* cos, const float* sin, size_t n);
  void (*rope_halves)(float* head, const float* cos, const float* sin, size_t n);
};

const VectorKernels& vector_kernels(Isa isa);
const VectorKernels& scalar_vector_kernels();
#if defined(__x86_64__)
const VectorKernels& avx2_vector_kernels();
const VectorKernels& avx512_vector_kernels();
#endif

}  // namespace gale::exec
