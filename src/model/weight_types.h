// Which tensor types may be the weights of a step.
#pragma once

#include "format/tensor_type.h"

namespace gale::model {

inline bool is_decodable(format::TensorType type) {
  const auto info = format::type_info(type);
  return info && info->decodable;
}

// Norm weights and the like are never quantised.
inline bool is_float(format::TensorType type) {
  return type == format::TensorType::f32 || type == format::TensorType::f16 || type == format::TensorType::bf16;
}

}  // namespace gale::model
