// How the values of a tensor are made from what a file holds when its bytes are not the values themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "format/tensor.h"

namespace gale::format {

// Element types of safetensors files.
enum class StoredType : uint8_t {
  boolean,
  u8,
  u16,
  u32,
  u64,
  i8,
  i16,
  i32,
  i64,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f16,
  bf16,
  f32,
  f64,
};

struct StoredTypeInfo {
  std::string_view name;  // as it stands in the header of a file: "BF16"
  uint32_t bytes = 0;     // of one value
};
StoredTypeInfo stored_type_info(StoredType type);
// nullopt: not known.
std::optional<StoredType> parse_stored_type(std::string_view name);
// The GGUF type with the same bytes; nullopt: there is none.
std::optional<TensorType> same_bytes_type(StoredType type);
// One value, exact but for 64-bit integers; any alignment.
double stored_value(StoredType type, const std::byte* at);

// A matrix of R rows (for a vector: R values) is stored as R units one after the other. All values of a recipe that
// gives floats are what double arithmetic gives in the order that the comments show, rounded to float once.
struct Recipe {
  enum class Kind {
    copy,    // the bytes of the unit
    number,  // value + addend
    scaled,  // value * scale[row / scale_height][column / scale_width]; of F8_E4M3, F8_E5M2 and I8
    nvfp4,   // fp4 * scale[row][column / 16] * factor
    mxfp4,   // 32 values as a GGUF block: gives TensorType::mxfp4
  };
  Kind kind = Kind::copy;
  StoredType stored = StoredType::f32;  // of copy, number, scaled
  std::span<const std::byte> data;      // all units
  float addend = 0;

  std::span<const std::byte> scales;  // scaled, nvfp4: [scale rows x scale_columns]; mxfp4: a byte per 32 values
  StoredType scale_type = StoredType::f32;
  uint64_t scale_height = 1, scale_width = 1, scale_columns = 1;

  std::span<const std::byte> factor;  // nvfp4: one number
  StoredType factor_type = StoredType::f32;
  bool factor_divides = false;  // its reciprocal is the factor

  // Rows of a rotary head: files of one kind rotate row i with row i + n / 2 of a head of n rows, GGUF rows 2i and
  // 2i + 1, so row 2i + j of a head is unit j * n / 2 + i. 0: units are rows in order.
  uint64_t head_rows = 0;
};

// Writes `count` rows from `first` on, `count * tensor.row_bytes()` bytes.
void make_rows(const Recipe& recipe, const Tensor& tensor, uint64_t first, uint64_t count, std::byte* out);

}  // namespace gale::format
