// Small JSON files as trees of values: strict, with limits, and without the keys that a reader would silently lose.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace gale::format {

struct JsonMember;

struct Json {
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;  // in the order of the text
  // monostate: null. Whole numbers are int64_t, those above it uint64_t.
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object> value;

  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&value);
  }
  // The member of an object; null: no such member, or no object.
  const Json* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  Json value;
};

// "a string", "an object", ...
std::string_view kind_name(const Json& json);

// Parses a whole text; `name` stands before the message. Errors: not JSON (with the place), a key that an object has
// twice, nested too deep, too large.
Result<Json> parse_json(std::string_view text, const std::string& name);

}  // namespace gale::format
