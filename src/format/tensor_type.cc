// Facts about tensor element types, and decode(), which runs the block decoders over a range of values.
#include "format/tensor_type.h"

#include <cstring>

#include "base/checked.h"
#include "format/block_decoders.h"

namespace gale::format {
namespace {

struct Facts {
  TensorType type;
  std::string_view name;
  uint32_t values_per_block, bytes_per_block;
};

constexpr Facts facts[] = {
    {TensorType::f32, "F32", 1, 4},
    {TensorType::f16, "F16", 1, 2},
    {TensorType::q4_0, "Q4_0", 32, 18},
    {TensorType::q4_1, "Q4_1", 32, 20},
    {TensorType::q5_0, "Q5_0", 32, 22},
    {TensorType::q5_1, "Q5_1", 32, 24},
    {TensorType::q8_0, "Q8_0", 32, 34},
    {TensorType::q8_1, "Q8_1", 32, 36},
    {TensorType::q2_k, "Q2_K", 256, 84},
    {TensorType::q3_k, "Q3_K", 256, 110},
    {TensorType::q4_k, "Q4_K", 256, 144},
    {TensorType::q5_k, "Q5_K", 256, 176},
    {TensorType::q6_k, "Q6_K", 256, 210},
    {TensorType::q8_k, "Q8_K", 256, 292},
    {TensorType::iq2_xxs, "IQ2_XXS", 256, 66},
    {TensorType::iq2_xs, "IQ2_XS", 256, 74},
    {TensorType::iq3_xxs, "IQ3_XXS", 256, 98},
    {TensorType::iq1_s, "IQ1_S", 256, 50},
    {TensorType::iq4_nl, "IQ4_NL", 32, 18},
    {TensorType::iq3_s, "IQ3_S", 256, 110},
    {TensorType::iq2_s, "IQ2_S", 256, 82},
    {TensorType::iq4_xs, "IQ4_XS", 256, 136},
    {TensorType::i8, "I8", 1, 1},
    {TensorType::i16, "I16", 1, 2},
    {TensorType::i32, "I32", 1, 4},
    {TensorType::i64, "I64", 1, 8},
    {TensorType::f64, "F64", 1, 8},
    {TensorType::iq1_m, "IQ1_M", 256, 56},
    {TensorType::bf16, "BF16", 1, 2},
    {TensorType::tq1_0, "TQ1_0", 256, 54},
    {TensorType::tq2_0, "TQ2_0", 256, 66},
    {TensorType::mxfp4, "MXFP4", 32, 17},
    {TensorType::nvfp4, "NVFP4", 64, 36},
    {TensorType::q1_0, "Q1_0", 128, 18},
    {TensorType::q2_0, "Q2_0", 64, 18},
};

const Facts* find_facts(TensorType type) {
  for (const Facts& f : facts) {
    if (f.type == type) return &f;
  }
  return nullptr;
}

}  // namespace

std::optional<TypeInfo> type_info(TensorType type) {
  const Facts* f = find_facts(type);
  if (!f) return std::nullopt;
  return TypeInfo{f->name, f->values_per_block, f->bytes_per_block, block_decoder(type) != nullptr};
}

std::string type_name(TensorType type) {
  const Facts* f = find_facts(type);
  return f ? std::string(f->name) : fmt::format("type {}", static_cast<uint32_t>(type));
}

std::optional<uint64_t> bytes_of(TensorType type, uint64_t values) {
  const Facts* f = find_facts(type);
  if (!f || values % f->values_per_block != 0) return std::nullopt;
  return checked_multiply<uint64_t>(values / f->values_per_block, f->bytes_per_block);
}

Status decode(TensorType type, std::span<const std::byte> bytes, std::span<float> out) {
  const auto info = type_info(type);
  if (!info) return fail(ErrorKind::unsupported, "cannot decode tensor values of unknown {}", type_name(type));
  const BlockDecoder decoder = block_decoder(type);
  if (!decoder) {
    return fail(ErrorKind::unsupported, "tensor values of type {} cannot be decoded by this version", info->name);
  }
  if (out.size() % info->values_per_block != 0) {
    return fail(ErrorKind::invalid_input, "cannot decode {} values of type {}: its blocks hold {} values", out.size(),
                info->name, info->values_per_block);
  }
  const auto expected = bytes_of(type, out.size());
  if (!expected || *expected != bytes.size()) {
    return fail(ErrorKind::invalid_input, "cannot decode {} values of type {} from {} bytes: {} are needed", out.size(),
                info->name, bytes.size(), expected.value_or(0));
  }
  if (out.empty()) return {};
  if (type == TensorType::f32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return {};
  }
  const auto* in = reinterpret_cast<const uint8_t*>(bytes.data());
  const size_t blocks = out.size() / info->values_per_block;
  for (size_t b = 0; b < blocks; ++b) decoder(in + b * info->bytes_per_block, out.data() + b * info->values_per_block);
  return {};
}

}  // namespace gale::format
