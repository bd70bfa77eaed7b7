// Builds documents from the events of the JSON library, and reads typed values from them.
#include "text/json_document.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_reason.h"

namespace gale::text {
namespace {

constexpr size_t deepest = 200;  // arrays and objects inside each other

std::string_view name_of(JsonKind kind) {
  constexpr std::string_view names[] = {"null", "a boolean", "a number", "a string", "a list", "an object"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace

class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonBuilder(JsonDocument& document, size_t text_size) : nodes_(document.nodes_), bytes_(document.bytes_) {
    nodes_.reserve(text_size / 16 + 16);
    bytes_.reserve(text_size);
  }
  const std::string& problem() const { return problem_; }

  bool null() override { return add({.kind = JsonKind::null}); }
  bool boolean(bool value) override { return add({.length = value ? 1u : 0u, .kind = JsonKind::boolean}); }
  bool number_integer(number_integer_t value) override { return add_bytes(JsonKind::number, fmt::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add_bytes(JsonKind::number, fmt::to_string(value)); }
  bool number_float(number_float_t, const string_t& digits) override { return add_bytes(JsonKind::number, digits); }
  bool string(string_t& value) override { return add_bytes(JsonKind::string, value); }
  bool binary(binary_t&) override { return false; }  // not in JSON text
  bool key(string_t& value) override {
    append(JsonKind::string, value);  // members are counted with their values
    return true;
  }
  bool start_object(std::size_t) override { return open(JsonKind::object); }
  bool start_array(std::size_t) override { return open(JsonKind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    problem_ = "no valid JSON: " + json_reason(error.what());
    return false;
  }

 private:
  using Node = JsonDocument::Node;

  void append(JsonKind kind, std::string_view bytes) {
    Node node = {.begin = static_cast<uint32_t>(bytes_.size()), .length = static_cast<uint32_t>(bytes.size())};
    node.kind = kind;
    node.next = static_cast<uint32_t>(nodes_.size()) + 1;
    nodes_.push_back(node);
    bytes_ += bytes;
  }

  bool add_bytes(JsonKind kind, std::string_view bytes) {
    count();
    append(kind, bytes);
    return true;
  }

  bool add(Node node) {
    count();
    node.next = static_cast<uint32_t>(nodes_.size()) + 1;
    nodes_.push_back(node);
    return true;
  }

  bool open(JsonKind kind) {
    if (open_.size() == deepest) {
      problem_ = fmt::format("lists and objects nested more than {} deep", deepest);
      return false;
    }
    add({.kind = kind});
    open_.push_back(nodes_.size() - 1);
    return true;
  }

  bool close() {
    nodes_[open_.back()].next = static_cast<uint32_t>(nodes_.size());
    open_.pop_back();
    return true;
  }

  // One value more in the array or object that is open.
  void count() {
    if (!open_.empty()) ++nodes_[open_.back()].length;
  }

  std::vector<Node>& nodes_;
  std::string& bytes_;
  std::vector<size_t> open_;  // from the root to the innermost array or object that is not closed yet
  std::string problem_;
};

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view name) {
  constexpr size_t kMostBytes = size_t{1} << 30;  // places and sizes have 32 bits
  if (text.size() > kMostBytes)
    return fail(ErrorKind::limit, "{} has {} bytes; at most {} are possible", name, text.size(), kMostBytes);
  JsonDocument document;
  document.name_ = name;
  JsonBuilder builder(document, text.size());
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder))
    return fail(ErrorKind::invalid_input, "{}: {}", name, builder.problem());
  return document;
}

JsonKind JsonValue::kind() const {
  return document_->nodes_[index_].kind;
}

size_t JsonValue::size() const {
  return is(JsonKind::array) || is(JsonKind::object) ? document_->nodes_[index_].length : 0;
}

std::vector<JsonValue> JsonValue::items() const {
  std::vector<JsonValue> out;
  const size_t count = size();
  out.reserve(count);
  const uint32_t key = is(JsonKind::object) ? 1 : 0;
  uint32_t at = index_ + 1;
  for (size_t i = 0; i < count; ++i) {
    out.push_back({document_, at + key});
    at = document_->nodes_[at + key].next;
  }
  return out;
}

std::string_view JsonValue::text_or_empty() const {
  return is(JsonKind::string) ? document_->bytes(document_->nodes_[index_]) : std::string_view();
}

std::string_view JsonValue::key() const {
  return index_ > 0 ? JsonValue(document_, index_ - 1).text_or_empty() : std::string_view();
}

Result<std::string_view> JsonValue::text() const {
  if (!is(JsonKind::string)) return wrong_kind("a string");
  return text_or_empty();
}

Result<double> JsonValue::number() const {
  if (!is(JsonKind::number)) return wrong_kind("a number");
  const std::string_view digits = document_->bytes(document_->nodes_[index_]);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) {
    return fail(ErrorKind::invalid_input, "{} is {}: the number is too large or too small", place(), digits);
  }
  return value;
}

Result<int64_t> JsonValue::integer() const {
  if (!is(JsonKind::number)) return wrong_kind("a whole number");
  const std::string_view digits = document_->bytes(document_->nodes_[index_]);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return fail(ErrorKind::invalid_input, "{} is {}: a whole number is needed", place(), digits);
  }
  return value;
}

Result<bool> JsonValue::boolean() const {
  if (!is(JsonKind::boolean)) return wrong_kind("true or false");
  return document_->nodes_[index_].length != 0;
}

Result<JsonValue> JsonValue::array() const {
  if (!is(JsonKind::array)) return wrong_kind("a list");
  return *this;
}

Result<JsonValue> JsonValue::object() const {
  if (!is(JsonKind::object)) return wrong_kind("an object");
  return *this;
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  std::optional<JsonValue> found;
  if (!is(JsonKind::object)) return found;
  uint32_t at = index_ + 1;
  for (size_t i = 0; i < size(); ++i) {
    if (JsonValue(document_, at).text_or_empty() == key) found = JsonValue(document_, at + 1);
    at = document_->nodes_[at + 1].next;
  }
  return found && found->is(JsonKind::null) ? std::nullopt : found;
}

Result<JsonValue> JsonValue::member(std::string_view key) const {
  if (!is(JsonKind::object)) return wrong_kind("an object");
  const auto found = find(key);
  if (!found) return fail(ErrorKind::invalid_input, "{}: the key '{}' is missing", place(), key);
  return *found;
}

namespace {

template <class T>
Result<std::optional<T>> optional_of(const std::optional<JsonValue>& value, Result<T> (JsonValue::*read)() const) {
  if (!value) return std::optional<T>();
  const Result<T> result = ((*value).*read)();
  if (!result) return result.error();
  return std::optional<T>(*result);
}

}  // namespace

Result<std::optional<std::string_view>> JsonValue::find_text(std::string_view key) const {
  return optional_of(find(key), &JsonValue::text);
}
Result<std::optional<int64_t>> JsonValue::find_integer(std::string_view key) const {
  return optional_of(find(key), &JsonValue::integer);
}
Result<std::optional<bool>> JsonValue::find_boolean(std::string_view key) const {
  return optional_of(find(key), &JsonValue::boolean);
}

std::string JsonValue::place() const {
  // The way down: of the members of each value the one whose nodes hold this one's.
  std::string path;
  JsonValue at = document_->root();
  while (at.index_ != index_) {
    const std::vector<JsonValue> members = at.items();
    const auto inside = std::find_if(members.begin(), members.end(), [&](const JsonValue& v) {
      return v.index_ <= index_ && index_ < document_->nodes_[v.index_].next;
    });
    if (inside == members.end()) break;
    if (at.is(JsonKind::object)) {
      path += fmt::format("{}{}", path.empty() ? "" : ".", inside->key());
    } else {
      path += fmt::format("[{}]", inside - members.begin());
    }
    at = *inside;
  }
  return path.empty() ? document_->name_ : fmt::format("{}: {}", document_->name_, path);
}

Error JsonValue::wrong_kind(std::string_view expected) const {
  return fail(ErrorKind::invalid_input, "{} is {}; {} is needed", place(), name_of(kind()), expected);
}

}  // namespace gale::text
