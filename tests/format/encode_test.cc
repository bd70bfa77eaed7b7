// Encoders: errors below stored bounds, never above the plain scale's, edge values, and the same bytes on every
// instruction set and however a tensor is cut.
#include "format/encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>

#include "base/numbers.h"

namespace gale::format {
namespace {

constexpr TensorType block_types[] = {TensorType::q4_0,   TensorType::q4_1, TensorType::q5_0, TensorType::q5_1,
                                      TensorType::q8_0,   TensorType::q4_k, TensorType::q5_k, TensorType::q6_k,
                                      TensorType::iq4_nl, TensorType::mxfp4};
constexpr TensorType plain_types[] = {TensorType::f32, TensorType::f16, TensorType::bf16};

std::vector<std::byte> encoded(TensorType type, std::span<const float> values, Isa isa = detect_isa()) {
  std::vector<std::byte> out(bytes_of(type, values.size()).value());
  const Status status = encode(type, values, out, isa);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return out;
}

std::vector<float> round_trip(TensorType type, std::span<const float> values) {
  std::vector<float> out(values.size());
  const Status status = decode(type, encoded(type, values), out);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return out;
}

double squared_error(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return sum;
}

double relative_error(TensorType type, std::span<const float> values) {
  const std::vector<float> zeros(values.size());
  return squared_error(round_trip(type, values), values) / squared_error(values, zeros);
}

double uniform(std::mt19937& random) {
  return (random() + 0.5) / 4294967296.0;
}

std::vector<float> gaussian(size_t count, float deviation, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<float> out(count);
  for (float& v : out) {
    v = deviation * static_cast<float>(std::sqrt(-2 * std::log(uniform(random))) *
                                       std::cos(2 * std::numbers::pi * uniform(random)));
  }
  return out;
}

std::vector<float> laplacian(size_t count, float scale, uint32_t seed = 2) {
  std::mt19937 random(seed);
  std::vector<float> out(count);
  for (float& v : out) v = scale * static_cast<float>(-std::log(uniform(random)) * (random() & 1 ? 1 : -1));
  return out;
}

// Values of all sizes: blocks of zeros, of one value, with a single outlier, far from zero, of one sign.
std::vector<float> mixed_values(size_t blocks) {
  std::mt19937 random(3);
  std::vector<float> out = gaussian(256 * blocks, 1, 4);
  for (size_t b = 0; b < blocks; ++b) {
    for (size_t part = 0; part < 8; ++part) {
      const std::span<float> x(out.data() + 256 * b + 32 * part, 32);
      const float scale = std::exp2(static_cast<float>(random() % 40) - 30.0f);
      const auto kind = random() % 8;
      for (float& v : x) {
        v = kind == 0   ? 0
            : kind == 1 ? scale
            : kind == 2 ? scale * (v + 20)
            : kind == 3 ? -scale * std::fabs(v)
                        : scale * v;
      }
      if (kind == 4) x[random() % 32] *= 20;
    }
  }
  return out;
}

TEST(Encode, ErrorsAreBelowTheStoredOnes) {
  // Squared error over squared values, measured with these numbers, and 1 % more.
  const struct {
    TensorType type;
    double gaussian, laplacian;
  } bounds[] = {
      {TensorType::q4_0, 6.59e-3, 1.053e-2},  {TensorType::q4_1, 4.89e-3, 6.84e-3},
      {TensorType::q5_0, 1.617e-3, 2.65e-3},  {TensorType::q5_1, 1.149e-3, 1.61e-3},
      {TensorType::q8_0, 2.74e-5, 4.40e-5},   {TensorType::q4_k, 4.93e-3, 6.93e-3},
      {TensorType::q5_k, 1.206e-3, 1.70e-3},  {TensorType::q6_k, 2.88e-4, 4.34e-4},
      {TensorType::iq4_nl, 5.43e-3, 7.26e-3}, {TensorType::mxfp4, 1.256e-2, 1.516e-2},
      {TensorType::f16, 9e-8, 9e-8},          {TensorType::bf16, 5.8e-6, 5.8e-6},
  };
  const auto normal = gaussian(1 << 18, 0.02f), peaked = laplacian(1 << 18, 0.02f);
  for (const auto& bound : bounds) {
    EXPECT_LT(relative_error(bound.type, normal), bound.gaussian) << type_name(bound.type);
    EXPECT_LT(relative_error(bound.type, peaked), bound.laplacian) << type_name(bound.type);
  }
}

// What the format makes of a block whose extreme value gets the extreme level: a scale, rounded to half, and nearest
// levels.
double plain_error(std::span<const float> block, float level, float low, float high) {
  float extreme = 0;
  for (const float v : block) extreme = std::fabs(v) > std::fabs(extreme) ? v : extreme;
  const double scale = half_to_float(float_to_half(extreme / level));
  double sum = 0;
  for (const float v : block) {
    const double q = scale == 0 ? 0 : std::clamp<double>(std::nearbyint(v / scale), low, high);
    sum += (v - scale * q) * (v - scale * q);
  }
  return sum;
}

TEST(Encode, NoBlockIsWorseThanWithThePlainScale) {
  const auto values = mixed_values(64);
  const struct {
    TensorType type;
    float level, low, high;
  } cases[] = {{TensorType::q4_0, -8, -8, 7}, {TensorType::q5_0, -16, -16, 15}, {TensorType::q8_0, 127, -127, 127}};
  for (const auto& c : cases) {
    const auto back = round_trip(c.type, values);
    for (size_t i = 0; i < values.size(); i += 32) {
      const std::span<const float> block(values.data() + i, 32);
      const double plain = plain_error(block, c.level, c.low, c.high);
      double size = 0;
      for (const float v : block) size += static_cast<double>(v) * v;
      // The slack is for sums in floats.
      ASSERT_LE(squared_error(block, std::span(back).subspan(i, 32)), plain + 1e-6 * size)
          << type_name(c.type) << " block " << i / 32;
    }
  }
}

TEST(Encode, LargestErrorOfAValue) {
  const auto values = gaussian(1 << 16, 3);
  // In parts of the largest magnitude of the block (of 256 values, in K types too: their scales share bits).
  const struct {
    TensorType type;
    float part;
  } bounds[] = {{TensorType::q4_0, 0.25f}, {TensorType::q4_1, 0.15f},  {TensorType::q5_0, 0.11f},
                {TensorType::q5_1, 0.07f}, {TensorType::q8_0, 0.006f}, {TensorType::q4_k, 0.2f},
                {TensorType::q5_k, 0.1f},  {TensorType::q6_k, 0.06f},  {TensorType::iq4_nl, 0.2f},
                {TensorType::mxfp4, 0.26f}};
  for (const auto& bound : bounds) {
    const auto back = round_trip(bound.type, values);
    const size_t block = type_info(bound.type)->values_per_block;
    for (size_t start = 0; start < values.size(); start += block) {
      float largest = 0;
      for (size_t i = start; i < start + block; ++i) largest = std::max(largest, std::fabs(values[i]));
      for (size_t i = start; i < start + block; ++i) {
        ASSERT_TRUE(std::fabs(values[i] - back[i]) <= bound.part * largest)
            << type_name(bound.type) << " " << values[i] << " became " << back[i] << ", largest " << largest;
      }
    }
  }
}

TEST(Encode, SameBytesOnEveryInstructionSet) {
  const auto values = mixed_values(200);
  for (const TensorType type : block_types) {
    const auto scalar = encoded(type, values, Isa::scalar);
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (isa > detect_isa()) continue;
      EXPECT_EQ(encoded(type, values, isa), scalar) << type_name(type) << " " << name(isa);
    }
  }
}

TEST(Encode, SameBytesHoweverCut) {
  const auto values = mixed_values(9);
  for (const TensorType type : block_types) {
    const auto whole = encoded(type, values);
    const size_t block = type_info(type)->values_per_block;
    for (size_t blocks = 1; blocks <= 17; ++blocks) {
      std::vector<std::byte> parts;
      for (size_t i = 0; i < values.size(); i += blocks * block) {
        const auto part = encoded(type, std::span(values).subspan(i, std::min(blocks * block, values.size() - i)));
        parts.insert(parts.end(), part.begin(), part.end());
      }
      EXPECT_EQ(parts, whole) << type_name(type) << " in parts of " << blocks;
    }
  }
}

TEST(Encode, ZerosStayZeros) {
  std::vector<float> zeros(512);
  for (size_t i = 0; i < zeros.size(); i += 3) zeros[i] = -0.0f;
  for (const TensorType type : block_types) {
    for (const float v : round_trip(type, zeros)) ASSERT_EQ(v, 0) << type_name(type);
  }
}

TEST(Encode, ConstantBlocks) {
  for (const float value : {1.0f, -1.0f, 0.37f, -123.4f, 60000.0f, -65504.0f, 1e-3f}) {
    const std::vector<float> values(256, value);
    for (const TensorType type : block_types) {
      for (const float v : round_trip(type, values)) {
        // One number can be met by the scale alone, within its rounding; a power of two cannot.
        const float slack = type == TensorType::mxfp4 ? 0.21f : 4e-3f;
        ASSERT_TRUE(std::fabs(v - value) <= slack * std::fabs(value)) << type_name(type) << " " << value << " " << v;
      }
    }
  }
}

TEST(Encode, HugeTinyAndSubnormalValues) {
  for (const float scale : {1e-45f, 1e-40f, 1e-30f, 1e-20f, 1e-12f, 1e-8f, 1e-7f, 1e-6f, 1e-5f, 1e4f, 1.4e4f}) {
    auto values = gaussian(512, scale);
    for (float& v : values) v = std::clamp(v, -65504.0f, 65504.0f);
    for (const TensorType type : block_types) {
      const auto back = round_trip(type, values);
      double before = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_TRUE(std::isfinite(back[i])) << type_name(type) << " " << scale;
        before += static_cast<double>(values[i]) * values[i];
      }
      // Never worse than zeros, and as good as ever where the scale is no subnormal half.
      EXPECT_TRUE(squared_error(values, back) <= before * 1.0001) << type_name(type) << " " << scale;
      if (scale >= 1e4f) {
        EXPECT_LT(relative_error(type, values), 0.02) << type_name(type) << " " << scale;
      }
    }
    if (scale > 1e-35f) {
      EXPECT_LT(relative_error(TensorType::mxfp4, values), 0.02) << scale;
    }
  }
}

TEST(Encode, ValuesThatCannotBeHeld) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::byte> out(4096);
  const auto error_of = [&](TensorType type, const std::vector<float>& values) {
    const Status status = encode(type, values, std::span(out).first(*bytes_of(type, values.size())), detect_isa());
    return status.ok() ? std::string() : status.error().message;
  };
  for (const auto types : {std::span<const TensorType>(block_types), std::span<const TensorType>(plain_types)}) {
    for (const TensorType type : types) {
      for (const float bad : {infinity, -infinity, nan}) {
        for (const size_t at : {0, 255, 256, 511}) {
          std::vector<float> values(512, 1);
          values[at] = bad;
          EXPECT_EQ(first_unencodable(type, values), at);
          EXPECT_NE(error_of(type, values).find(fmt::format("value {} is", at)), std::string::npos) << type_name(type);
        }
      }
      const bool any_size = type == TensorType::f32 || type == TensorType::bf16 || type == TensorType::mxfp4;
      std::vector<float> values(256, 65504);
      EXPECT_EQ(error_of(type, values), "");
      values[7] = -65536;
      EXPECT_EQ(error_of(type, values).empty(), any_size) << type_name(type);
      values[7] = 3e38f;
      EXPECT_EQ(error_of(type, values).empty(), any_size) << type_name(type);
    }
  }
}

TEST(Encode, PlainNumbers) {
  const std::vector<float> values = {0, -0.0f, 1, 1.0f / 3, -65504, 6e-8f, 1e-40f, 2049, 0.1f};
  const auto f32 = encoded(TensorType::f32, values), f16 = encoded(TensorType::f16, values);
  const auto bf16 = encoded(TensorType::bf16, values);
  EXPECT_EQ(std::memcmp(f32.data(), values.data(), f32.size()), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = 0, brain = 0;
    std::memcpy(&half, f16.data() + 2 * i, 2);
    std::memcpy(&brain, bf16.data() + 2 * i, 2);
    EXPECT_EQ(half, float_to_half(values[i]));
    EXPECT_EQ(brain, float_to_bfloat16(values[i]));
  }
}

TEST(Encode, WrongSizesAndTypes) {
  std::vector<float> values(256);
  std::vector<std::byte> out(1024);
  EXPECT_FALSE(encode(TensorType::q4_k, values, std::span(out).first(143), Isa::scalar).ok());
  EXPECT_FALSE(encode(TensorType::q4_k, std::span(values).first(255), out, Isa::scalar).ok());
  const Status status = encode(TensorType::q2_k, values, out, Isa::scalar);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::unsupported);
  EXPECT_NE(status.error().message.find("Q2_K"), std::string::npos);
  EXPECT_FALSE(encodable(TensorType::q2_k));
  for (const TensorType type : block_types) {
    EXPECT_TRUE(encodable(type));
    EXPECT_TRUE(encode(type, {}, {}, Isa::scalar).ok());
  }
}

}  // namespace
}  // namespace gale::format
