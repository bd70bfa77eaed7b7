// JSON files as a flat list of values: tokenizer files hold a million of them, and are read each time a model starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gale::text {

enum class JsonKind : uint8_t { null, boolean, number, string, array, object };

class JsonDocument;

// A value inside a JsonDocument, which must outlive it. Errors name the file and the place ("tokenizer.json:
// model.merges[17] ..."). Errors of the typed readers: the value is of another kind.
class JsonValue {
 public:
  JsonKind kind() const;
  bool is(JsonKind k) const { return kind() == k; }
  size_t size() const;                     // of an array or object; else 0
  std::vector<JsonValue> items() const;    // of an array; of an object the values
  std::string_view text_or_empty() const;  // of a string
  std::string_view key() const;            // of a value in an object
  Result<std::string_view> text() const;
  Result<int64_t> integer() const;  // a whole number that fits
  Result<double> number() const;
  Result<bool> boolean() const;
  Result<JsonValue> array() const;  // itself
  Result<JsonValue> object() const;

  // The value of a key; of equal keys the last. nullopt: it is missing, or null. Not an object: nullopt.
  std::optional<JsonValue> find(std::string_view key) const;
  Result<JsonValue> member(std::string_view key) const;  // error: missing or null
  // As find, and of that kind.
  Result<std::optional<std::string_view>> find_text(std::string_view key) const;
  Result<std::optional<int64_t>> find_integer(std::string_view key) const;
  Result<std::optional<bool>> find_boolean(std::string_view key) const;

  // "tokenizer.json: model.merges[17]"
  std::string place() const;

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument* document, uint32_t index) : document_(document), index_(index) {}
  Error wrong_kind(std::string_view expected) const;
  const JsonDocument* document_;
  uint32_t index_;
};

class JsonDocument {
 public:
  // `name` is the file's, for messages. Errors: what is no JSON, with line and column; nested too deep; too large.
  static Result<JsonDocument> parse(std::string_view text, std::string_view name);
  JsonValue root() const { return {this, 0}; }

 private:
  friend class JsonValue;
  friend class JsonBuilder;
  // Values in the order of the file; a member of an object is its key, a string, and then its value.
  struct Node {
    uint32_t begin = 0;   // a string or number: of its bytes; else unused
    uint32_t length = 0;  // a string or number: bytes; an array or object: members; a boolean: 0 or 1
    uint32_t next = 0;    // index of the node behind this value and all in it
    JsonKind kind = JsonKind::null;
  };
  std::string_view bytes(const Node& node) const { return std::string_view(bytes_).substr(node.begin, node.length); }
  std::string name_;
  std::vector<Node> nodes_;
  std::string bytes_;  // of all strings, without escapes, and numbers
};

}  // namespace gale::text
