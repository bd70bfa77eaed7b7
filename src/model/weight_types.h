// Which tensor types may be the weights of a step.
#pragma once

#include "format/tensor_type.h"

namespace gale::model {

// Decodable, and no list of integers.
inline bool is_matrix_type(format::TensorType type) {
  using enum format::TensorType;
  const auto info = format::type_info(type);
  return info && info->decodable && type != i8 && type != i16 && type != i32 && type != i64;
}

// Norm weights and the like are never quantised.
inline bool is_float(format::TensorType type) {
  return type == format::TensorType::f32 || type == format::TensorType::f16 || type == format::TensorType::bf16;
}

}  // namespace gale::model
