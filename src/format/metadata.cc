// Settings of a model file: storage, typed access with named errors, and a one-line description of values.
#include "format/metadata.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace gale::format {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string_view kind_name(const Value& value) {
  return std::visit(Overloaded{
                        [](uint64_t) { return "an unsigned integer"; },
                        [](int64_t) { return "a signed integer"; },
                        [](double) { return "a floating-point number"; },
                        [](bool) { return "a bool"; },
                        [](std::string_view) { return "a string"; },
                        [](const std::vector<uint64_t>&) { return "an array of unsigned integers"; },
                        [](const std::vector<int64_t>&) { return "an array of signed integers"; },
                        [](const std::vector<double>&) { return "an array of 64-bit floats"; },
                        [](const std::vector<float>&) { return "an array of 32-bit floats"; },
                        [](const std::vector<uint8_t>&) { return "an array of bools"; },
                        [](const std::vector<std::string_view>&) { return "an array of strings"; },
                    },
                    value);
}

Error wrong_type(std::string_view key, std::string_view expected, const Value& found) {
  return fail(ErrorKind::invalid_input, "metadata key '{}': expected {}, found {} ({})", key, expected,
              kind_name(found), describe(found));
}

constexpr uint64_t int64_max = std::numeric_limits<int64_t>::max();

// Text in quotes on one line: control characters as escapes, cut to `max_length` bytes at a character border.
std::string quote(std::string_view text, size_t max_length) {
  size_t length = text.size();
  if (length > max_length) {
    length = max_length;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  }
  std::string out = "\"";
  for (const char c : text.substr(0, length)) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += '"';
  if (length < text.size()) out += "...";
  return out;
}

// Shortest text that reads back as the same number; values that came from a 32-bit float are shown as such.
std::string number_text(double value) {
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) == value) return fmt::format("{}", narrow);
  return fmt::format("{}", value);
}

// Short arrays show their elements, long ones only their count.
template <class T, class Show>
std::string array_text(const std::vector<T>& values, std::string_view noun, size_t max_length, Show show) {
  constexpr size_t few = 8;
  if (!values.empty() && values.size() <= few) {
    std::string out = "[";
    for (const T& value : values) {
      if (out.size() > 1) out += ", ";
      out += show(value);
    }
    out += ']';
    if (out.size() <= max_length) return out;
  }
  return fmt::format("[{} {}]", values.size(), noun);
}

}  // namespace

ValueType usual_type(const Value& value) {
  const auto whole = [](const auto& values) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    const auto fits = [](T v) { return std::in_range<std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>(v); };
    const bool narrow = std::all_of(values.begin(), values.end(), fits);
    if constexpr (std::is_signed_v<T>) return narrow ? ValueType::i32 : ValueType::i64;
    return narrow ? ValueType::u32 : ValueType::u64;
  };
  return std::visit(Overloaded{
                        [&](uint64_t v) { return whole(std::initializer_list<uint64_t>{v}); },
                        [&](int64_t v) { return whole(std::initializer_list<int64_t>{v}); },
                        [](double) { return ValueType::f32; },
                        [](bool) { return ValueType::boolean; },
                        [](std::string_view) { return ValueType::string; },
                        [&](const std::vector<uint64_t>& v) { return whole(v); },
                        [&](const std::vector<int64_t>& v) { return whole(v); },
                        [](const std::vector<double>&) { return ValueType::f64; },
                        [](const std::vector<float>&) { return ValueType::f32; },
                        [](const std::vector<uint8_t>&) { return ValueType::boolean; },
                        [](const std::vector<std::string_view>&) { return ValueType::string; },
                    },
                    value);
}

Status Metadata::add(std::string_view key, Value value) {
  const ValueType type = usual_type(value);
  return add(key, std::move(value), type);
}

Status Metadata::add(std::string_view key, Value value, ValueType type) {
  const auto [at, inserted] = entries_.try_emplace(std::string(key), Entry{std::move(value), type});
  if (!inserted) return fail(ErrorKind::invalid_input, "metadata key '{}' is there twice", key);
  keys_.push_back(at->first);
  return {};
}

void Metadata::set(std::string_view key, Value value) {
  const ValueType type = usual_type(value);
  const auto [at, inserted] = entries_.insert_or_assign(std::string(key), Entry{std::move(value), type});
  if (inserted) keys_.push_back(at->first);
}

void Metadata::remove(std::string_view key) {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return;
  entries_.erase(at);
  keys_.erase(std::find(keys_.begin(), keys_.end(), key));
}

const Value* Metadata::find(std::string_view key) const {
  const auto at = entries_.find(key);
  return at == entries_.end() ? nullptr : &at->second.value;
}

ValueType Metadata::stored_type(std::string_view key) const {
  return entries_.find(key)->second.type;
}

Result<std::optional<uint64_t>> Metadata::unsigned_integer(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<uint64_t>();
  if (const auto* u = std::get_if<uint64_t>(value)) return std::optional<uint64_t>(*u);
  const auto* i = std::get_if<int64_t>(value);
  if (i && *i >= 0) return std::optional<uint64_t>(static_cast<uint64_t>(*i));
  return wrong_type(key, "an integer that is not negative", *value);
}

Result<std::optional<int64_t>> Metadata::integer(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<int64_t>();
  if (const auto* i = std::get_if<int64_t>(value)) return std::optional<int64_t>(*i);
  const auto* u = std::get_if<uint64_t>(value);
  if (u && *u <= int64_max) return std::optional<int64_t>(static_cast<int64_t>(*u));
  return wrong_type(key, "an integer of at most 63 bits", *value);
}

Result<std::optional<double>> Metadata::number(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<double>();
  if (const auto* d = std::get_if<double>(value)) return std::optional<double>(*d);
  if (const auto* u = std::get_if<uint64_t>(value)) return std::optional<double>(static_cast<double>(*u));
  if (const auto* i = std::get_if<int64_t>(value)) return std::optional<double>(static_cast<double>(*i));
  return wrong_type(key, "a number", *value);
}

Result<std::optional<bool>> Metadata::boolean(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<bool>();
  if (const auto* b = std::get_if<bool>(value)) return std::optional<bool>(*b);
  return wrong_type(key, "a bool", *value);
}

Result<std::optional<std::string_view>> Metadata::text(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::optional<std::string_view>();
  if (const auto* s = std::get_if<std::string_view>(value)) return std::optional<std::string_view>(*s);
  return wrong_type(key, "a string", *value);
}

Result<const std::vector<std::string_view>*> Metadata::texts(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return static_cast<const std::vector<std::string_view>*>(nullptr);
  if (const auto* v = std::get_if<std::vector<std::string_view>>(value)) return v;
  return wrong_type(key, "an array of strings", *value);
}

Result<std::optional<std::vector<int64_t>>> Metadata::integers(std::string_view key) const {
  using Out = std::optional<std::vector<int64_t>>;
  const Value* value = find(key);
  if (!value) return Out();
  const auto single = [](int64_t v) { return Out(std::vector<int64_t>(1, v)); };
  if (const auto* u = std::get_if<uint64_t>(value); u && *u <= int64_max) return single(static_cast<int64_t>(*u));
  if (const auto* i = std::get_if<int64_t>(value)) return single(*i);
  if (const auto* b = std::get_if<bool>(value)) return single(*b ? 1 : 0);
  if (const auto* v = std::get_if<std::vector<int64_t>>(value)) return Out(*v);
  if (const auto* v = std::get_if<std::vector<uint8_t>>(value)) return Out(std::vector<int64_t>(v->begin(), v->end()));
  if (const auto* v = std::get_if<std::vector<uint64_t>>(value)) {
    std::vector<int64_t> out(v->size());
    for (size_t i = 0; i < v->size(); ++i) {
      if ((*v)[i] > int64_max) {
        return fail(ErrorKind::invalid_input, "metadata key '{}': element {} is {}, larger than 63 bits can hold", key,
                    i, (*v)[i]);
      }
      out[i] = static_cast<int64_t>((*v)[i]);
    }
    return Out(std::move(out));
  }
  return wrong_type(key, "an array of integers", *value);
}

Result<const std::vector<float>*> Metadata::floats(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return static_cast<const std::vector<float>*>(nullptr);
  if (const auto* v = std::get_if<std::vector<float>>(value)) return v;
  return wrong_type(key, "an array of 32-bit floats", *value);
}

std::string describe(const Value& value, size_t max_length) {
  const auto plain = [](auto v) { return fmt::format("{}", v); };
  const auto real = [](double v) { return number_text(v); };
  return std::visit(Overloaded{
                        [&](uint64_t v) { return plain(v); },
                        [&](int64_t v) { return plain(v); },
                        [&](double v) { return real(v); },
                        [&](bool v) { return plain(v); },
                        [&](std::string_view v) { return quote(v, max_length); },
                        [&](const std::vector<uint64_t>& v) { return array_text(v, "integers", max_length, plain); },
                        [&](const std::vector<int64_t>& v) { return array_text(v, "integers", max_length, plain); },
                        [&](const std::vector<double>& v) { return array_text(v, "numbers", max_length, real); },
                        [&](const std::vector<float>& v) { return array_text(v, "numbers", max_length, real); },
                        [&](const std::vector<uint8_t>& v) {
                          return array_text(v, "bools", max_length, [&](uint8_t b) { return plain(b != 0); });
                        },
                        [&](const std::vector<std::string_view>& v) {
                          return array_text(v, "strings", max_length,
                                            [&](std::string_view t) { return quote(t, max_length); });
                        },
                    },
                    value);
}

std::string in_quotes(std::string_view text) {
  return describe(Value(text), 80);
}

bool has_control_characters(std::string_view name) {
  return std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

}  // namespace gale::format
