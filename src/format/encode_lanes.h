// Least-squares fits of scales and offsets for eight blocks at once, one block per lane of a vector. Each lane's
// numbers depend on its block alone and are added up in the order of the elements, so that every instruction set, which
// only cuts the vectors differently, gives the same bits. Included once per instruction set, hence the anonymous
// namespace.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/numbers.h"

namespace gale::format {
namespace {

constexpr int kLanes = 8;
using Floats [[gnu::vector_size(4 * kLanes)]] = float;
using Ints [[gnu::vector_size(4 * kLanes)]] = int32_t;

inline Floats all(float value) {
  return Floats{} + value;
}
inline Floats choose(Ints mask, Floats yes, Floats no) {
  return mask ? yes : no;
}
inline Floats smaller(Floats a, Floats b) {
  return choose(a < b, a, b);
}
inline Floats larger(Floats a, Floats b) {
  return choose(a > b, a, b);
}
inline Floats magnitude(Floats v) {
  return larger(v, -v);
}
// Nearest integer of numbers below 2^22: the sum has no room for a fraction.
inline Floats round_to_integer(Floats v) {
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23
  return (v + shift) - shift;
}
// 1 / v, and 0 for a scale of 0, whose block has only zeros.
inline Floats inverse_of(Floats v) {
  return choose(v != 0.0f, 1.0f / v, Floats{});
}

// Numbers as halves can hold them; too large ones become the largest.
inline Floats as_half(Floats v) {
  constexpr float largest = 65504;
  Floats out;
  for (int lane = 0; lane < kLanes; ++lane) {
    const float clamped = v[lane] > largest ? largest : v[lane] < -largest ? -largest : v[lane];
    out[lane] = half_to_float(float_to_half(clamped));
  }
  return out;
}

// The same for scales. What is not zero stays so: tiny values are better served by the smallest scale there is than by
// none.
inline Floats scale_as_half(Floats v) {
  constexpr float smallest = 0x1p-24f;
  const Floats half = as_half(v);
  return choose((half == 0.0f) & (v != 0.0f), choose(v > 0.0f, all(smallest), all(-smallest)), half);
}

// x[e] becomes element e of the blocks; lanes without a block are zero.
template <int n>
void load_lanes(const float* values, size_t blocks, Floats (&x)[n]) {
  float turned[n][kLanes] = {};
  for (size_t lane = 0; lane < blocks; ++lane) {
    for (size_t e = 0; e < n; ++e) turned[e][lane] = values[lane * n + e];
  }
  std::memcpy(x, turned, sizeof x);
}

// The values that the quants of a type stand for, in units of the scale.
struct IntegerLevels {
  float low, high;
  Floats nearest(Floats v) const { return round_to_integer(smaller(larger(v, all(low)), all(high))); }
};

// The non-linear levels of IQ4_NL.
struct Iq4Levels {
  static constexpr float values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  Floats nearest(Floats v) const {
    Floats level = all(values[0]);
    for (int i = 1; i < 16; ++i) {
      level = choose(v > (values[i] + values[i - 1]) / 2, all(values[i]), level);
    }
    return level;
  }
};

// The levels of E2M1 times two.
struct Fp4Levels {
  static constexpr float values[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  Floats nearest(Floats v) const {
    const Floats m = magnitude(v);
    Floats level = {};
    for (int i = 1; i < 8; ++i) level = choose(m > (values[i] + values[i - 1]) / 2, all(values[i]), level);
    return choose(v < 0.0f, -level, level);
  }
};

// ---- value = scale * level

template <int n, class Levels>
Floats scale_error(const Floats (&x)[n], Floats scale, const Levels& levels) {
  const Floats inverse = inverse_of(scale);
  Floats error = {};
  for (int e = 0; e < n; ++e) {
    const Floats rest = x[e] - scale * levels.nearest(x[e] * inverse);
    error += rest * rest;
  }
  return error;
}

struct ScaleFit {
  Floats scale, gain;  // gain: by how much the best scale for its quants lessens the squared error
};

// Quants as `inverse` makes them, and the best scale for these.
template <int n, class Levels>
ScaleFit refit_scale(const Floats (&x)[n], Floats inverse, const Levels& levels) {
  Floats xq = {}, qq = {};
  for (int e = 0; e < n; ++e) {
    const Floats q = levels.nearest(x[e] * inverse);
    xq += x[e] * q;
    qq += q * q;
  }
  const Floats scale = choose(qq > 0.0f, xq / qq, Floats{});
  return {scale, scale * xq};
}

// The element of the largest magnitude; of two equal ones the first.
template <int n>
Floats extreme(const Floats (&x)[n]) {
  Floats out = x[0];
  for (int e = 1; e < n; ++e) out = choose(magnitude(x[e]) > magnitude(out), x[e], out);
  return out;
}

// Values below this count as zero: no scale is so small, and their inverse would overflow.
constexpr float kTiny = 1e-20f;

// Tries scales that put the extreme value on each of `targets` (in levels), and takes the one whose quants, with their
// best scale, leave the least error; from there, quants and scale are fitted to each other in turn.
template <int n, class Levels, size_t count>
Floats fit_scale(const Floats (&x)[n], const Levels& levels, const float (&targets)[count], int rounds) {
  const Floats top = extreme(x);
  const Floats unit = choose(magnitude(top) > kTiny, 1.0f / top, Floats{});
  ScaleFit best = {};
  const auto offer = [&](Floats inverse) {
    const ScaleFit fit = refit_scale(x, inverse, levels);
    const Ints better = fit.gain > best.gain;
    best = {choose(better, fit.scale, best.scale), choose(better, fit.gain, best.gain)};
  };
  for (const float target : targets) offer(target * unit);
  for (int i = 0; i < rounds; ++i) offer(inverse_of(best.scale));
  return best.scale;
}

// ---- value = scale * integer + offset

struct Affine {
  Floats scale, offset;
};

template <int n>
Floats affine_error(const Floats (&x)[n], const Affine& fit, float top) {
  const Floats inverse = inverse_of(fit.scale);
  const IntegerLevels levels = {0, top};
  Floats error = {};
  for (int e = 0; e < n; ++e) {
    const Floats above = x[e] - fit.offset;
    const Floats rest = above - fit.scale * levels.nearest(above * inverse);
    error += rest * rest;
  }
  return error;
}

// Sums over the elements of y = x - low, and of the quants of y.
struct AffineSums {
  Floats yq = {}, q = {}, qq = {};
};

template <int n>
AffineSums affine_sums(const Floats (&y)[n], Floats inverse, Floats offset, float top) {
  const IntegerLevels levels = {0, top};
  const Floats start = -offset * inverse;
  AffineSums sums;
  for (int e = 0; e < n; ++e) {
    const Floats q = levels.nearest(y[e] * inverse + start);
    sums.yq += y[e] * q;
    sums.q += q;
    sums.qq += q * q;
  }
  return sums;
}

// As fit_scale, with an offset, that (if kNotPositive) may not be above zero. The range of the values is stretched over
// top + each of `steps` levels.
template <bool kNotPositive, int n, size_t count>
Affine fit_affine(const Floats (&x)[n], float top, const float (&steps)[count], int rounds) {
  Floats low = x[0], high = x[0];
  for (int e = 1; e < n; ++e) {
    low = smaller(low, x[e]);
    high = larger(high, x[e]);
  }
  if (kNotPositive) low = smaller(low, Floats{});
  Floats y[n];
  Floats y_sum = {};
  for (int e = 0; e < n; ++e) {
    y[e] = x[e] - low;
    y_sum += y[e];
  }
  const Floats range = high - low;
  const Floats unit = choose(range > kTiny, 1.0f / range, Floats{});

  constexpr float elements = n;
  Affine best = {};  // of y
  Floats best_gain = {};
  const auto offer = [&](Floats inverse, Floats offset) {
    const AffineSums s = affine_sums(y, inverse, offset, top);
    const Floats spread = elements * s.qq - s.q * s.q;
    const Ints solvable = spread > 0.0f;
    Affine fit;
    fit.scale = choose(solvable, (elements * s.yq - y_sum * s.q) / spread, Floats{});
    fit.offset = (y_sum - fit.scale * s.q) / elements;
    Floats gain = fit.scale * s.yq + fit.offset * y_sum;
    if (kNotPositive) {
      // The offset of x is low + that of y; where it would be positive, zero is the best that is allowed.
      const Ints above = fit.offset > -low;
      const Floats xq = s.yq + low * s.q;
      const Floats scale = choose(s.qq > 0.0f, xq / s.qq, Floats{});
      const Floats limited_gain = scale * xq - low * (2.0f * y_sum + elements * low);
      fit.scale = choose(above, scale, fit.scale);
      fit.offset = choose(above, -low, fit.offset);
      gain = choose(above, limited_gain, gain);
    }
    const Ints better = (gain > best_gain) & (fit.scale > 0.0f);
    best.scale = choose(better, fit.scale, best.scale);
    best.offset = choose(better, fit.offset, best.offset);
    best_gain = choose(better, gain, best_gain);
  };
  for (const float step : steps) offer((top + step) * unit, Floats{});
  for (int i = 0; i < rounds; ++i) offer(inverse_of(best.scale), best.offset);
  best.offset += low;
  return best;
}

}  // namespace
}  // namespace gale::format
