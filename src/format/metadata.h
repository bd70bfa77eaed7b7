// Typed key/value settings of a model file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"

namespace gale::format {

// GGUF's types of values and of array elements, with GGUF's numbers.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// Arrays keep their element type. Text is a view into the mapped file (valid as long as the Checkpoint lives).
using Value =
    std::variant<uint64_t, int64_t, double, bool, std::string_view, std::vector<uint64_t>, std::vector<int64_t>,
                 std::vector<double>, std::vector<float>, std::vector<uint8_t>, std::vector<std::string_view>>;
// u8..u64 -> uint64_t, i8..i64 -> int64_t, f32/f64 -> double; arrays: u8..u64 -> vector<uint64_t>, i8..i64 ->
// vector<int64_t>, f32 -> vector<float>, f64 -> vector<double>, bool -> vector<uint8_t>, strings ->
// vector<string_view>.

// The type that GGUF files usually give to a value, or to the elements of an array: u32 and i32 where the numbers fit,
// f32 for numbers with a fraction.
ValueType usual_type(const Value& value);

class Metadata {
 public:
  // Error: the key is there already. Without a type it gets usual_type().
  Status add(std::string_view key, Value value);
  // `type` is what the file had (for an array: its elements), so that it can be written again as it was.
  Status add(std::string_view key, Value value, ValueType type);
  // Adds the key, or gives the one that is there another value in its place.
  void set(std::string_view key, Value value);
  void remove(std::string_view key);

  const Value* find(std::string_view key) const;
  // Type of the value, or of the elements of an array, in the file; the key must be there.
  ValueType stored_type(std::string_view key) const;
  // Keys in file order.
  const std::vector<std::string>& keys() const { return keys_; }

  // Typed access that converts between integer kinds when the value fits. nullopt: key absent.
  // Error (with the key, the expected and the found type): key present with another type or out of range.
  Result<std::optional<uint64_t>> unsigned_integer(std::string_view key) const;
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;  // integers count as numbers
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> text(std::string_view key) const;
  // Arrays; null: key absent.
  Result<const std::vector<std::string_view>*> texts(std::string_view key) const;
  // Any integer array, converted; nullopt: absent. A single integer or bool counts as an array of one.
  Result<std::optional<std::vector<int64_t>>> integers(std::string_view key) const;
  Result<const std::vector<float>*> floats(std::string_view key) const;

 private:
  std::vector<std::string> keys_;
  // Lets find() look up a string_view without making a string.
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Entry {
    Value value;
    ValueType type;
  };
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
};

// One line for people: `[49152 strings]`, `0.5`, `"llama"`; long text is cut to `max_length` characters.
std::string describe(const Value& value, size_t max_length = 60);
// A name or text of a file for messages: in quotes, on one line, not too long.
std::string in_quotes(std::string_view text);

// Names of keys and tensors stand in messages and lists for people, on terminals too, and so must have none.
bool has_control_characters(std::string_view name);

}  // namespace gale::format
