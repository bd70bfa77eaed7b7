// Exponential and what is built on it, for the Lanes type of the including file: the same operations on every set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gale::exec {
namespace {

// e^x, error below 2 ulp; underflows to 0 (through subnormals), overflows to infinity, NaN stays NaN.
template <class Lanes>
inline Lanes exponential(Lanes x) {
  // Beyond these the result is 0 and infinity. The order of the operands keeps a NaN.
  x = Lanes::max(Lanes::broadcast(-104.0f), x);
  x = Lanes::min(Lanes::broadcast(89.0f), x);
  // x = n ln 2 + r with |r| <= ln(2) / 2; adding 1.5 * 2^23 rounds to an integer.
  const Lanes magic = Lanes::broadcast(12582912.0f);
  const Lanes n = Lanes::fma(x, Lanes::broadcast(1.44269504f), magic) - magic;
  Lanes r = Lanes::fnma(n, Lanes::broadcast(0.693147182f), x);
  r = Lanes::fnma(n, Lanes::broadcast(-1.90465430e-9f), r);
  // e^r = 1 + r + r^2 q(r): minimax q, relative error 3e-9.
  Lanes q = Lanes::broadcast(0.001381432f);
  q = Lanes::fma(q, r, Lanes::broadcast(0.008368852f));
  q = Lanes::fma(q, r, Lanes::broadcast(0.0416684f));
  q = Lanes::fma(q, r, Lanes::broadcast(0.1666652f));
  q = Lanes::fma(q, r, Lanes::broadcast(0.49999994f));
  const Lanes p = Lanes::fma(q, r * r, r) + Lanes::broadcast(1.0f);
  return Lanes::scale_by_power(p, n);
}

// tanh(x), error below 3 ulp.
template <class Lanes>
inline Lanes hyperbolic_tangent(Lanes x) {
  const Lanes one = Lanes::broadcast(1.0f), size = Lanes::abs(x);
  // 1 - 2 / (e^2|x| + 1) loses digits near 0; there x + x^3 P(x^2) is used, minimax on |x| < 0.625.
  const Lanes far = one - Lanes::broadcast(2.0f) / (exponential(size + size) + one);
  const Lanes z = x * x;
  Lanes p = Lanes::broadcast(-0.0057094945f);
  p = Lanes::fma(p, z, Lanes::broadcast(0.020644134f));
  p = Lanes::fma(p, z, Lanes::broadcast(-0.053741623f));
  p = Lanes::fma(p, z, Lanes::broadcast(0.1333147f));
  p = Lanes::fma(p, z, Lanes::broadcast(-0.33333284f));
  const Lanes near = Lanes::fma(p, z * x, x);
  return Lanes::select(Lanes::less(size, Lanes::broadcast(0.625f)), near, Lanes::copy_sign(far, x));
}

// cap * tanh(x / cap)
template <class Lanes>
inline Lanes soft_capped(Lanes x, Lanes cap) {
  return cap * hyperbolic_tangent(x / cap);
}

template <class Lanes>
inline Lanes silu(Lanes x) {
  return x / (Lanes::broadcast(1.0f) + exponential(Lanes::broadcast(0.0f) - x));
}

// x / 2 (1 + tanh u) = x / (1 + e^(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3): no cancellation for negative x.
template <class Lanes>
inline Lanes gelu_tanh(Lanes x) {
  const Lanes cubic = Lanes::fma(x * x, Lanes::broadcast(0.044715f), Lanes::broadcast(1.0f));
  const Lanes minus_two_u = x * (cubic * Lanes::broadcast(-1.59576912f));  // -2 sqrt(2 / pi)
  return x / (Lanes::broadcast(1.0f) + exponential(minus_two_u));
}

}  // namespace
}  // namespace gale::exec
