// Makes rows of tensors whose file holds them in another order, another number type, or with scales beside them.
#include "format/recipe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/numbers.h"

namespace gale::format {
namespace {

constexpr struct {
  StoredType type;
  StoredTypeInfo info;
  std::optional<TensorType> same_bytes;
} kStoredTypes[] = {
    {StoredType::boolean, {"BOOL", 1}, std::nullopt},    {StoredType::u8, {"U8", 1}, std::nullopt},
    {StoredType::u16, {"U16", 2}, std::nullopt},         {StoredType::u32, {"U32", 4}, std::nullopt},
    {StoredType::u64, {"U64", 8}, std::nullopt},         {StoredType::i8, {"I8", 1}, TensorType::i8},
    {StoredType::i16, {"I16", 2}, TensorType::i16},      {StoredType::i32, {"I32", 4}, TensorType::i32},
    {StoredType::i64, {"I64", 8}, TensorType::i64},      {StoredType::f8_e4m3, {"F8_E4M3", 1}, std::nullopt},
    {StoredType::f8_e5m2, {"F8_E5M2", 1}, std::nullopt}, {StoredType::f8_e8m0, {"F8_E8M0", 1}, std::nullopt},
    {StoredType::f16, {"F16", 2}, TensorType::f16},      {StoredType::bf16, {"BF16", 2}, TensorType::bf16},
    {StoredType::f32, {"F32", 4}, TensorType::f32},      {StoredType::f64, {"F64", 8}, TensorType::f64},
};

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
double number(const std::byte* at) {
  return static_cast<double>(load<T>(at));
}

// 2^(e - 127); 255 is NaN.
double power_of_two(uint8_t e) {
  if (e == 0xFF) return std::numeric_limits<double>::quiet_NaN();
  return std::bit_cast<double>(static_cast<uint64_t>(1023 - 127 + e) << 52);
}

// E2M1: bit 3 is the sign; there is one zero, as in the decoders of GGUF's blocks.
constexpr double kFp4[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};

// The values of all codes of a type of one byte.
using ByteValues = std::array<float, 256>;

ByteValues make_byte_values(float (*value_of)(uint8_t code)) {
  ByteValues out;
  for (size_t code = 0; code < out.size(); ++code) out[code] = value_of(static_cast<uint8_t>(code));
  return out;
}

const ByteValues& e4m3_values() {
  static const ByteValues values = make_byte_values(fp8_e4m3_to_float);
  return values;
}

// Of the types that have scales.
const ByteValues& byte_values(StoredType type) {
  static const ByteValues e5m2 = make_byte_values(fp8_e5m2_to_float);
  static const ByteValues i8 =
      make_byte_values([](uint8_t code) { return static_cast<float>(static_cast<int8_t>(code)); });
  return type == StoredType::f8_e4m3 ? e4m3_values() : type == StoredType::f8_e5m2 ? e5m2 : i8;
}

void store(double value, std::byte* out) {
  const float rounded = static_cast<float>(value);
  std::memcpy(out, &rounded, sizeof rounded);
}

constexpr uint64_t kFp4Group = 16, kFp4Block = 32, kMxfp4BlockBytes = 1 + kFp4Block / 2;

// The units of a tensor: its rows, or the values of a vector.
struct Units {
  uint64_t per_row, length;

  explicit Units(const Recipe& recipe, const Tensor& tensor)
      : per_row(recipe.head_rows > 0 && tensor.dimensions == 1 ? tensor.row_length() : 1),
        length(tensor.row_length() / per_row) {}
};

uint64_t stored_unit(const Recipe& recipe, uint64_t unit) {
  const uint64_t n = recipe.head_rows;
  if (n == 0) return unit;
  const uint64_t row = unit % n;
  return unit - row + row % 2 * (n / 2) + row / 2;
}

void make_copy(const Recipe& recipe, uint64_t unit, uint64_t length, std::byte* out) {
  const uint64_t bytes = length * stored_type_info(recipe.stored).bytes;
  std::memcpy(out, recipe.data.data() + unit * bytes, bytes);
}

void make_numbers(const Recipe& recipe, uint64_t unit, uint64_t length, std::byte* out) {
  const uint64_t size = stored_type_info(recipe.stored).bytes;
  const std::byte* in = recipe.data.data() + unit * length * size;
  const double addend = static_cast<double>(recipe.addend);
  for (uint64_t i = 0; i < length; ++i, in += size, out += sizeof(float))
    store(stored_value(recipe.stored, in) + addend, out);
}

// The product of 8 bits and the 24 of a scale fits a double, so that float's own product is it, rounded once.
void make_scaled(const Recipe& recipe, uint64_t unit, uint64_t length, std::byte* out) {
  const ByteValues& values = byte_values(recipe.stored);
  const uint64_t scale_size = stored_type_info(recipe.scale_type).bytes;
  const std::byte* in = recipe.data.data() + unit * length;
  const std::byte* scale_at = recipe.scales.data() + unit / recipe.scale_height * recipe.scale_columns * scale_size;
  for (uint64_t begin = 0; begin < length; begin += recipe.scale_width, scale_at += scale_size) {
    const auto scale = static_cast<float>(stored_value(recipe.scale_type, scale_at));
    const uint64_t end = std::min(length, begin + recipe.scale_width);
    for (uint64_t i = begin; i < end; ++i) {
      const float value = values[static_cast<uint8_t>(in[i])] * scale;
      std::memcpy(out + i * sizeof value, &value, sizeof value);
    }
  }
}

void make_nvfp4(const Recipe& recipe, uint64_t unit, uint64_t length, std::byte* out) {
  const std::byte* in = recipe.data.data() + unit * (length / 2);
  const std::byte* scale_at = recipe.scales.data() + unit * (length / kFp4Group);
  const double stored_factor = stored_value(recipe.factor_type, recipe.factor.data());
  const double factor = recipe.factor_divides ? 1 / stored_factor : stored_factor;
  for (uint64_t group = 0; group < length / kFp4Group; ++group) {
    const auto scale = static_cast<double>(e4m3_values()[static_cast<uint8_t>(scale_at[group])]);
    for (uint64_t j = 0; j < kFp4Group / 2; ++j, ++in, out += 2 * sizeof(float)) {
      const auto pair = static_cast<uint8_t>(*in);
      store(kFp4[pair & 15] * scale * factor, out);
      store(kFp4[pair >> 4] * scale * factor, out + sizeof(float));
    }
  }
}

// Stored: byte j has values 2j (low) and 2j + 1. GGUF: the exponent, then byte j with values j (low) and j + 16.
void make_mxfp4(const Recipe& recipe, uint64_t unit, uint64_t length, std::byte* out) {
  const uint64_t blocks = length / kFp4Block;
  const std::byte* in = recipe.data.data() + unit * (length / 2);
  const std::byte* scale_at = recipe.scales.data() + unit * blocks;
  constexpr uint64_t half = kFp4Block / 2;
  for (uint64_t block = 0; block < blocks; ++block, in += half, out += kMxfp4BlockBytes) {
    const auto code = [in](uint64_t value) {
      const auto pair = static_cast<uint8_t>(in[value / 2]);
      return value % 2 == 0 ? pair & 15 : pair >> 4;
    };
    out[0] = scale_at[block];
    for (uint64_t j = 0; j < half; ++j) out[1 + j] = static_cast<std::byte>(code(j) | code(j + half) << 4);
  }
}

}  // namespace

StoredTypeInfo stored_type_info(StoredType type) {
  return kStoredTypes[static_cast<size_t>(type)].info;
}

std::optional<StoredType> parse_stored_type(std::string_view name) {
  for (const auto& known : kStoredTypes)
    if (known.info.name == name) return known.type;
  return std::nullopt;
}

std::optional<TensorType> same_bytes_type(StoredType type) {
  return kStoredTypes[static_cast<size_t>(type)].same_bytes;
}

double stored_value(StoredType type, const std::byte* at) {
  switch (type) {
    case StoredType::boolean:
      return load<uint8_t>(at) != 0 ? 1 : 0;
    case StoredType::u8:
      return number<uint8_t>(at);
    case StoredType::u16:
      return number<uint16_t>(at);
    case StoredType::u32:
      return number<uint32_t>(at);
    case StoredType::u64:
      return number<uint64_t>(at);
    case StoredType::i8:
      return number<int8_t>(at);
    case StoredType::i16:
      return number<int16_t>(at);
    case StoredType::i32:
      return number<int32_t>(at);
    case StoredType::i64:
      return number<int64_t>(at);
    case StoredType::f8_e4m3:
      return static_cast<double>(e4m3_values()[load<uint8_t>(at)]);
    case StoredType::f8_e5m2:
      return static_cast<double>(fp8_e5m2_to_float(load<uint8_t>(at)));
    case StoredType::f8_e8m0:
      return power_of_two(load<uint8_t>(at));
    case StoredType::f16:
      return static_cast<double>(half_to_float(load<uint16_t>(at)));
    case StoredType::bf16:
      return static_cast<double>(bfloat16_to_float(load<uint16_t>(at)));
    case StoredType::f32:
      return number<float>(at);
    case StoredType::f64:
      return number<double>(at);
  }
  return 0;
}

void make_rows(const Recipe& recipe, const Tensor& tensor, uint64_t first, uint64_t count, std::byte* out) {
  const Units units(recipe, tensor);
  const uint64_t unit_bytes = tensor.row_bytes() / units.per_row;
  for (uint64_t unit = first * units.per_row; unit < (first + count) * units.per_row; ++unit, out += unit_bytes) {
    const uint64_t from = stored_unit(recipe, unit);
    switch (recipe.kind) {
      case Recipe::Kind::copy:
        make_copy(recipe, from, units.length, out);
        break;
      case Recipe::Kind::number:
        make_numbers(recipe, from, units.length, out);
        break;
      case Recipe::Kind::scaled:
        make_scaled(recipe, from, units.length, out);
        break;
      case Recipe::Kind::nvfp4:
        make_nvfp4(recipe, from, units.length, out);
        break;
      case Recipe::Kind::mxfp4:
        make_mxfp4(recipe, from, units.length, out);
        break;
    }
  }
}

}  // namespace gale::format
