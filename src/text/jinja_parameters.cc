// Arguments of a call, bound to the names of parameters.
#include <algorithm>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<std::string_view> names, size_t required)
    : function_(function), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size()) {
    raise("{}() takes at most {} arguments, got {}", function, names.size(), arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) raise("{}() got an unexpected keyword argument '{}'", function, name);
    const Value*& slot = values_[static_cast<size_t>(found - names.begin())];
    if (slot != nullptr) raise("{}() got multiple values for argument '{}'", function, name);
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) raise("{}() misses its argument '{}'", function, *(names.begin() + i));
  }
}

int64_t Parameters::integer(size_t i, int64_t fallback) const {
  if (values_[i] == nullptr || is_none(*values_[i])) return fallback;
  require_defined(*values_[i]);
  const auto integer = as_integer(*values_[i]);
  if (!integer) raise("{}() needs an integer, got '{}'", function_, type_name(*values_[i]));
  return *integer;
}

const MarkedText* Parameters::text(size_t i) const {
  if (values_[i] == nullptr || is_none(*values_[i])) return nullptr;
  require_defined(*values_[i]);
  const MarkedText* text = as_text(*values_[i]);
  if (text == nullptr) raise("{}() needs a string, got '{}'", function_, type_name(*values_[i]));
  return text;
}

}  // namespace gale::text::jinja
