// Takes the tags off the JSON library's messages and cuts long ones between characters.
#include "base/json_reason.h"

#include <algorithm>

namespace gale {

std::string json_reason(std::string_view what) {
  // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while ..."
  if (what.starts_with("[")) what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
  // Long texts of the file stand in the message; the place comes first.
  constexpr size_t kMost = 240;
  if (what.size() <= kMost) return std::string(what);
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(what[end]) & 0xC0) == 0x80) --end;
  return std::string(what.substr(0, end)) + "...";
}

}  // namespace gale
