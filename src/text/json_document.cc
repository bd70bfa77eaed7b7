// The JSON parser, and typed reading of values.
#include "text/json_document.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/unicode.h"

namespace gale::text {
namespace {

constexpr size_t deepest = 200;  // arrays and objects inside each other

std::string_view name_of(JsonKind kind) {
  constexpr std::string_view names[] = {"null", "a boolean", "a number", "a string", "a list", "an object"};
  return names[static_cast<size_t>(kind)];
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

class JsonParser {
 public:
  JsonParser(std::string_view text, std::string_view name) {
    document_.text_ = text;
    document_.name_ = name;
  }

  Result<JsonDocument> run() {
    const std::string_view text = document_.text_;
    if (text.size() >= UINT32_MAX)
      return fail(ErrorKind::limit, "{} has {} bytes; at most {} are possible", document_.name_, text.size(),
                  UINT32_MAX - 1);
    if (text.starts_with("\xEF\xBB\xBF")) at_ = 3;
    document_.nodes_.reserve(text.size() / 16 + 16);
    if (!value(0)) return error();
    skip_space();
    if (at_ != text.size()) {
      problem_ = "more text behind the value";
      return error();
    }
    return std::move(document_);
  }

 private:
  using Node = JsonDocument::Node;

  Error error() const {
    const std::string_view before = document_.text_.substr(0, at_);
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const size_t last = before.rfind('\n');
    const size_t column = last == std::string_view::npos ? before.size() : before.size() - last - 1;
    return fail(ErrorKind::invalid_input, "{}: not valid JSON at line {}, column {} (byte {}): {}", document_.name_,
                lines + 1, column + 1, at_, problem_);
  }

  bool refuse(const char* problem) {
    problem_ = problem;
    return false;
  }

  char peek() const { return at_ < document_.text_.size() ? document_.text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < document_.text_.size()) {
      const char c = document_.text_[at_];
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
      ++at_;
    }
  }

  Node& open(JsonKind kind) {
    Node& node = document_.nodes_.emplace_back();
    node.kind = kind;
    node.next = static_cast<uint32_t>(document_.nodes_.size());
    return node;
  }

  bool value(size_t depth) {
    skip_space();
    switch (peek()) {
      case '{':
        return members(JsonKind::object, '}', depth);
      case '[':
        return members(JsonKind::array, ']', depth);
      case '"':
        return string();
      case 't':
        return word("true", JsonKind::boolean, 1);
      case 'f':
        return word("false", JsonKind::boolean, 0);
      case 'n':
        return word("null", JsonKind::null, 0);
      default:
        return number();
    }
  }

  bool word(std::string_view expected, JsonKind kind, uint32_t length) {
    if (!document_.text_.substr(at_).starts_with(expected)) return refuse("a value was expected");
    at_ += expected.size();
    open(kind).length = length;
    return true;
  }

  bool number() {
    const size_t begin = at_;
    const auto digits = [&] {
      const size_t first = at_;
      while (peek() >= '0' && peek() <= '9') ++at_;
      return at_ > first;
    };
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else if (!digits()) {
      at_ = begin;
      return refuse("a value was expected");
    }
    if (peek() == '.') {
      ++at_;
      if (!digits()) return refuse("a digit was expected");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return refuse("a digit was expected");
    }
    Node& node = open(JsonKind::number);
    node.begin = static_cast<uint32_t>(begin);
    node.length = static_cast<uint32_t>(at_ - begin);
    return true;
  }

  bool members(JsonKind kind, char end, size_t depth) {
    if (depth == deepest) return refuse("too many lists and objects inside each other");
    const size_t index = document_.nodes_.size();
    open(kind);
    ++at_;
    uint32_t count = 0;
    skip_space();
    while (peek() != end) {
      if (count > 0) {
        if (peek() != ',')
          return refuse(kind == JsonKind::object ? "',' or '}' was expected" : "',' or ']' was expected");
        ++at_;
        skip_space();
      }
      if (kind == JsonKind::object) {
        if (peek() != '"') return refuse("a key was expected");
        if (!string()) return false;
        skip_space();
        if (peek() != ':') return refuse("':' was expected");
        ++at_;
      }
      if (!value(depth + 1)) return false;
      ++count;
      skip_space();
    }
    ++at_;
    document_.nodes_[index].length = count;
    document_.nodes_[index].next = static_cast<uint32_t>(document_.nodes_.size());
    return true;
  }

  bool string() {
    const std::string_view text = document_.text_;
    const size_t begin = ++at_;
    while (at_ < text.size() && text[at_] != '"' && text[at_] != '\\' && static_cast<uint8_t>(text[at_]) >= 0x20) ++at_;
    if (at_ < text.size() && text[at_] == '\\') return escaped_string(begin);
    if (at_ >= text.size()) return refuse("the text ends inside a string");
    if (text[at_] != '"') return refuse("a control character inside a string");
    Node& node = open(JsonKind::string);
    node.begin = static_cast<uint32_t>(begin);
    node.length = static_cast<uint32_t>(at_ - begin);
    ++at_;
    return true;
  }

  // `at_` is at the first backslash of the string that begins at `begin`.
  bool escaped_string(size_t begin) {
    const std::string_view text = document_.text_;
    // An escape is longer than what it stands for, so all strings together fit the size of the file.
    if (!document_.unescaped_) document_.unescaped_.reset(new char[text.size()]);
    const size_t start = used_;
    const auto put = [&](std::string_view bytes) {
      std::copy(bytes.begin(), bytes.end(), document_.unescaped_.get() + used_);
      used_ += bytes.size();
    };
    put(text.substr(begin, at_ - begin));
    while (at_ < text.size() && text[at_] != '"') {
      if (static_cast<uint8_t>(text[at_]) < 0x20) return refuse("a control character inside a string");
      if (text[at_] != '\\') {
        put(text.substr(at_++, 1));
        continue;
      }
      const char code = at_ + 1 < text.size() ? text[at_ + 1] : '\0';
      if (code == 'u') {
        uint32_t point = 0;
        if (!hex_escape(point)) return false;
        std::string utf8;
        append_utf8(utf8, point);
        put(utf8);
        continue;
      }
      constexpr std::string_view codes = "\"\\/bfnrt";
      constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
      const size_t which = codes.find(code);
      if (code == '\0' || which == std::string_view::npos) return refuse("an unknown escape");
      put(meant.substr(which, 1));
      at_ += 2;
    }
    if (at_ >= text.size()) return refuse("the text ends inside a string");
    ++at_;
    Node& node = open(JsonKind::string);
    node.begin = static_cast<uint32_t>(start);
    node.length = static_cast<uint32_t>(used_ - start);
    node.unescaped = true;
    return true;
  }

  // \uXXXX, or two of them that are one character.
  bool hex_escape(uint32_t& point) {
    const auto unit = [&](size_t at, uint32_t& value) {
      value = 0;
      if (at + 6 > document_.text_.size() || document_.text_[at] != '\\' || document_.text_[at + 1] != 'u')
        return false;
      for (size_t i = at + 2; i < at + 6; ++i) {
        const int digit = hex_digit(document_.text_[i]);
        if (digit < 0) return false;
        value = value << 4 | static_cast<uint32_t>(digit);
      }
      return true;
    };
    if (!unit(at_, point)) return refuse("four hexadecimal digits were expected");
    at_ += 6;
    uint32_t low = 0;
    if (point >= 0xD800 && point < 0xDC00 && unit(at_, low) && low >= 0xDC00 && low < 0xE000) {
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
      at_ += 6;
    }
    return true;
  }

  JsonDocument document_;
  size_t at_ = 0;
  size_t used_ = 0;  // bytes of document_.unescaped_
  const char* problem_ = "";
};

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view name) {
  return JsonParser(text, name).run();
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
