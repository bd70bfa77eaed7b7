// Encoding of floats into the tensor types that Gale writes; the values are chosen for the least squared error.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/cpu.h"
#include "base/result.h"
#include "format/tensor_type.h"

namespace gale::format {

// F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_NL, MXFP4.
bool encodable(TensorType type);

// Index of the first value that the type cannot hold: NaN, infinity, or beyond 65504 where a half-precision number is
// the type's value or scale.
std::optional<size_t> first_unencodable(TensorType type, std::span<const float> values);

// Whole blocks: `out` must be bytes_of(type, values.size()). The bytes depend on nothing but the values: not on `isa`,
// and not on how a tensor is cut into calls.
// Errors: unsupported type, sizes that don't fit, a value that the type cannot hold (the message has its index).
Status encode(TensorType type, std::span<const float> values, std::span<std::byte> out, Isa isa);

}  // namespace gale::format
