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

// Arrays keep their element type. Text is a view into the mapped file (valid as long as the Checkpoint lives).
using Value =
    std::variant<uint64_t, int64_t, double, bool, std::string_view, std::vector<uint64_t>, std::vector<int64_t>,
                 std::vector<double>, std::vector<float>, std::vector<uint8_t>, std::vector<std::string_view>>;
// u8..u64 -> uint64_t, i8..i64 -> int64_t, f32/f64 -> double; arrays: u8..u64 -> vector<uint64_t>, i8..i64 ->
// vector<int64_t>, f32 -> vector<float>, f64 -> vector<double>, bool -> vector<uint8_t>, strings ->
// vector<string_view>.

class Metadata {
 public:
  // Error: the key is there already.
  Status add(std::string_view key, Value value);
  const Value* find(std::string_view key) const;
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
  std::unordered_map<std::string, Value, Hash, std::equal_to<>> values_;
};

// One line for people: `[49152 strings]`, `0.5`, `"llama"`; long text is cut to `max_length` characters.
std::string describe(const Value& value, size_t max_length = 60);

}  // namespace gale::format
