// encode(): checks, plain number types, and the choice of the block encoder.
#include "format/encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/numbers.h"
#include "format/block_encoders.h"

namespace gale::format {
namespace {

bool is_plain(TensorType type) {
  return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16;
}

BlockEncoder encoder_for(TensorType type, Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx2) return block_encoder_avx2(type);
#endif
  return block_encoder(type);
}

// The largest magnitude that a type takes.
float largest_value(TensorType type) {
  switch (type) {
    case TensorType::f32:
    case TensorType::bf16:
    case TensorType::mxfp4:
      return std::numeric_limits<float>::max();
    default:
      return 65504;  // the largest half; scales stay below it
  }
}

template <uint16_t (*convert)(float)>
void encode_halves(std::span<const float> values, std::byte* out) {
  for (const float value : values) {
    const uint16_t bits = convert(value);
    std::memcpy(out, &bits, sizeof bits);
    out += sizeof bits;
  }
}

}  // namespace

bool encodable(TensorType type) {
  return is_plain(type) || block_encoder(type) != nullptr;
}

std::optional<size_t> first_unencodable(TensorType type, std::span<const float> values) {
  const float limit = largest_value(type);
  constexpr size_t stride = 256;  // tested as a whole, which the compiler can vectorise
  for (size_t start = 0; start < values.size(); start += stride) {
    const auto part = values.subspan(start, std::min(stride, values.size() - start));
    bool bad = false;
    for (const float v : part) bad |= !(std::fabs(v) <= limit);
    if (!bad) continue;
    for (size_t i = 0;; ++i) {
      if (!(std::fabs(part[i]) <= limit)) return start + i;
    }
  }
  return std::nullopt;
}

Status encode(TensorType type, std::span<const float> values, std::span<std::byte> out, Isa isa) {
  if (!encodable(type)) {
    return fail(ErrorKind::unsupported, "values cannot be encoded as {} by this version", type_name(type));
  }
  const auto expected = bytes_of(type, values.size());
  if (!expected || *expected != out.size()) {
    return fail(ErrorKind::invalid_input, "cannot encode {} values as {} into {} bytes", values.size(), type_name(type),
                out.size());
  }
  if (const auto bad = first_unencodable(type, values)) {
    if (!std::isfinite(values[*bad])) {
      return fail(ErrorKind::invalid_input, "value {} is {}: only finite numbers can be encoded", *bad, values[*bad]);
    }
    return fail(ErrorKind::invalid_input, "value {} is {}: {} holds magnitudes up to {}", *bad, values[*bad],
                type_name(type), largest_value(type));
  }
  switch (type) {
    case TensorType::f32:
      if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
      return {};
    case TensorType::f16:
      encode_halves<float_to_half>(values, out.data());
      return {};
    case TensorType::bf16:
      encode_halves<float_to_bfloat16>(values, out.data());
      return {};
    default: {
      const size_t blocks = values.size() / type_info(type)->values_per_block;
      encoder_for(type, isa)(values.data(), blocks, reinterpret_cast<uint8_t*>(out.data()));
      return {};
    }
  }
}

}  // namespace gale::format
