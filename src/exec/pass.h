// What every executor is given: the columns of a pass; and the choices that both executors share.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace gale::exec {

using SequenceId = uint32_t;

// One token position in a pass. Columns of one sequence must come in rising, gapless order of position, beginning at the
// sequence's length; columns of several sequences may share a pass in any order.
struct Column {
  SequenceId sequence = 0;
  uint32_t position = 0;
  int32_t token = 0;
  bool wants_logits = false;
};

enum class CacheType { f16, f32, q8_0 };
std::string_view name(CacheType type);
Result<CacheType> parse_cache_type(std::string_view text);
// Bytes that one cached key or value element takes (Q8_0: 34 / 32).
double bytes_per_element(CacheType type);

}  // namespace gale::exec
