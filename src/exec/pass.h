// What every executor is given: the columns of a pass; and the choices that both executors share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace gale::exec {

using SequenceId = uint32_t;

// One token position in a pass. Columns of one sequence must come in rising, gapless order of position, beginning at
// the sequence's length; columns of several sequences may share a pass in any order.
struct Column {
  SequenceId sequence = 0;
  uint32_t position = 0;
  int32_t token = 0;
  bool wants_logits = false;
};

enum class CacheType { f16, f32, q8_0 };

inline std::string_view name(CacheType type) {
  switch (type) {
    case CacheType::f16:
      return "F16";
    case CacheType::f32:
      return "F32";
    case CacheType::q8_0:
      return "Q8_0";
  }
  return "unknown";
}

// Upper or lower case.
inline Result<CacheType> parse_cache_type(std::string_view text) {
  const auto same = [&](std::string_view known) {
    return std::equal(text.begin(), text.end(), known.begin(), known.end(),
                      [](char a, char b) { return (a >= 'a' && a <= 'z' ? a - 'a' + 'A' : a) == b; });
  };
  for (CacheType type : {CacheType::f16, CacheType::f32, CacheType::q8_0})
    if (same(name(type))) return type;
  return fail(ErrorKind::invalid_input, "unknown cache type '{}'; known: F16, F32, Q8_0", text);
}

// Bytes that one cached key or value element takes.
inline double bytes_per_element(CacheType type) {
  switch (type) {
    case CacheType::f16:
      return 2;
    case CacheType::f32:
      return 4;
    case CacheType::q8_0:
      return 34.0 / 32;  // 32 values and a half-precision scale
  }
  return 4;
}

}  // namespace gale::exec
