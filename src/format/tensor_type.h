// Tensor element types as they stand in model files: names, block sizes, and exact decoding to float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gale::format {

// Values are GGUF's ids (ggml_type).
enum class TensorType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};

struct TypeInfo {
  std::string_view name;      // as users write it: "Q4_K"
  uint32_t values_per_block;  // 1 for plain types
  uint32_t bytes_per_block;
  bool decodable;  // decode() knows it
};

// Facts about a type id from a file; nullopt for an id that is not known.
std::optional<TypeInfo> type_info(TensorType type);
// Name for messages; "type 99" for unknown ids.
std::string type_name(TensorType type);

// Bytes of `values` consecutive values; nullopt if the type is unknown, `values` is no multiple of its block, or on
// overflow.
std::optional<uint64_t> bytes_of(TensorType type, uint64_t values);

// Decodes values to float, exactly as the format defines them (one rounding to float at most).
// `bytes` must be bytes_of(type, out.size()). Errors: unsupported type, sizes that don't fit.
Status decode(TensorType type, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace gale::format
