// Integer arithmetic that reports overflow, for sizes that come from outside.
#pragma once

#include <concepts>
#include <optional>

namespace gale {

template <std::integral T>
std::optional<T> checked_add(T a, T b) {
  T out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
std::optional<T> checked_multiply(T a, T b) {
  T out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// Smallest multiple of `step` (> 0) that is >= n. The caller knows that it does not overflow.
template <std::integral T>
constexpr T round_up(T n, T step) {
  return (n + step - 1) / step * step;
}

template <std::integral T>
constexpr T divide_up(T n, T step) {
  return (n + step - 1) / step;
}

}  // namespace gale
