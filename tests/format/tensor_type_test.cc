// Type facts and decoders: golden blocks of the oracle, packed values for the types without one, and wrong sizes.
#include "format/tensor_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/numbers.h"

namespace gale::format {
namespace {

constexpr TensorType all_types[] = {
    TensorType::f32,    TensorType::f16,     TensorType::q4_0,  TensorType::q4_1,   TensorType::q5_0,
    TensorType::q5_1,   TensorType::q8_0,    TensorType::q8_1,  TensorType::q2_k,   TensorType::q3_k,
    TensorType::q4_k,   TensorType::q5_k,    TensorType::q6_k,  TensorType::q8_k,   TensorType::iq2_xxs,
    TensorType::iq2_xs, TensorType::iq3_xxs, TensorType::iq1_s, TensorType::iq4_nl, TensorType::iq3_s,
    TensorType::iq2_s,  TensorType::iq4_xs,  TensorType::i8,    TensorType::i16,    TensorType::i32,
    TensorType::i64,    TensorType::f64,     TensorType::iq1_m, TensorType::bf16,   TensorType::tq1_0,
    TensorType::tq2_0,  TensorType::mxfp4,   TensorType::nvfp4, TensorType::q1_0,   TensorType::q2_0,
};

std::vector<float> decoded(TensorType type, const std::vector<uint8_t>& bytes) {
  const auto info = type_info(type);
  std::vector<float> out(bytes.size() / info->bytes_per_block * info->values_per_block);
  const Status status = decode(type, std::as_bytes(std::span(bytes)), out);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return out;
}

template <class T>
void put(std::vector<uint8_t>& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

template <class T>
std::vector<uint8_t> bytes_from(const std::vector<T>& values) {
  std::vector<uint8_t> out;
  for (const T v : values) put(out, v);
  return out;
}

constexpr uint16_t half_1_5 = 0x3E00;  // 1.5 as f16

TEST(TensorType, FactsOfSomeTypes) {
  const auto q4_k = type_info(TensorType::q4_k);
  ASSERT_TRUE(q4_k);
  EXPECT_EQ(q4_k->name, "Q4_K");
  EXPECT_EQ(q4_k->values_per_block, 256u);
  EXPECT_EQ(q4_k->bytes_per_block, 144u);
  EXPECT_TRUE(q4_k->decodable);
  EXPECT_EQ(type_name(TensorType::iq2_xxs), "IQ2_XXS");
  EXPECT_EQ(type_name(static_cast<TensorType>(99)), "type 99");
}

TEST(TensorType, KnownIdsAreThoseOfTheTable) {
  int known = 0;
  for (uint32_t id = 0; id < 1000; ++id) known += type_info(static_cast<TensorType>(id)).has_value();
  EXPECT_EQ(known, 35);
  for (const uint32_t retired : {4, 5, 31, 32, 33, 36, 37, 38, 43}) {
    EXPECT_FALSE(type_info(static_cast<TensorType>(retired))) << retired;
    EXPECT_FALSE(bytes_of(static_cast<TensorType>(retired), 256)) << retired;
  }
  EXPECT_FALSE(type_info(static_cast<TensorType>(0xFFFFFFFF)));
}

TEST(TensorType, BytesOfRejectsPartsOfBlocksAndOverflow) {
  EXPECT_EQ(bytes_of(TensorType::q4_k, 512), 288u);
  EXPECT_EQ(bytes_of(TensorType::q4_k, 0), 0u);
  for (const TensorType type : all_types) {
    const uint64_t block = type_info(type)->values_per_block;
    EXPECT_EQ(bytes_of(type, 3 * block), 3u * type_info(type)->bytes_per_block) << type_name(type);
    for (uint64_t rest = 1; rest < block; ++rest) {
      EXPECT_FALSE(bytes_of(type, 2 * block + rest)) << type_name(type) << " " << rest;
    }
  }
  const uint64_t huge = std::numeric_limits<uint64_t>::max() / 256 * 256;
  EXPECT_FALSE(bytes_of(TensorType::f32, huge));
  EXPECT_FALSE(bytes_of(TensorType::f64, uint64_t{1} << 61));
  EXPECT_EQ(bytes_of(TensorType::q4_k, huge), huge / 256 * 144);
}

TEST(Decode, GoldenBlocks) {
  std::ifstream file(GALE_TEST_DIR "/oracle/oracle/golden_blocks.json");
  ASSERT_TRUE(file) << "the oracle's golden blocks are missing";
  const auto golden = nlohmann::json::parse(file);
  int compared = 0;
  for (const TensorType type : all_types) {
    const auto info = type_info(type);
    std::string key(info->name);
    for (char& c : key) c = c == 'K' ? 'K' : static_cast<char>(std::tolower(c));
    if (!golden.contains(key)) continue;
    ++compared;
    const std::string hex = golden[key]["hex"];
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < hex.size(); i += 2) bytes.push_back(std::stoi(hex.substr(i, 2), nullptr, 16));
    ASSERT_EQ(bytes.size(), info->bytes_per_block) << key;
    const auto out = decoded(type, bytes);
    const auto expected = golden[key]["values"].get<std::vector<double>>();
    ASSERT_EQ(out.size(), expected.size()) << key;
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_TRUE(out[i] == static_cast<float>(expected[i])) << key << " element " << i << ": " << out[i];
    }
  }
  EXPECT_EQ(compared, static_cast<int>(golden.size()));
  EXPECT_GE(compared, 14);
}

TEST(Decode, SeveralBlocksInARow) {
  // Each block is decoded at its own place: N equal blocks give N times the values of one, for every decodable type.
  std::mt19937 random(1);
  for (const TensorType type : all_types) {
    const auto info = type_info(type);
    if (!info->decodable) continue;
    std::vector<uint8_t> block(info->bytes_per_block);
    for (uint8_t& b : block) b = random() & 0x3B;  // scales stay finite
    const auto one = decoded(type, block);
    std::vector<uint8_t> five;
    for (int n = 0; n < 5; ++n) five.insert(five.end(), block.begin(), block.end());
    const auto many = decoded(type, five);
    for (size_t i = 0; i < many.size(); ++i) {
      EXPECT_TRUE(many[i] == one[i % one.size()]) << info->name << " " << i;
    }
    // An odd address must do as well: tensors of a mapped file are aligned only to what the file says.
    std::vector<uint8_t> shifted(five.size() + 1);
    std::memcpy(shifted.data() + 1, five.data(), five.size());
    std::vector<float> again(many.size());
    ASSERT_TRUE(decode(type, std::as_bytes(std::span(shifted)).subspan(1), again).ok());
    EXPECT_EQ(std::memcmp(again.data(), many.data(), many.size() * sizeof(float)), 0) << info->name;
  }
}

TEST(Decode, PlainNumbers) {
  EXPECT_EQ(decoded(TensorType::f32, bytes_from<float>({1.25f, -3e38f})), (std::vector<float>{1.25f, -3e38f}));
  EXPECT_EQ(decoded(TensorType::f16, bytes_from<uint16_t>({0x3C00, 0xC500, 0x0001})),
            (std::vector<float>{1.0f, -5.0f, 0x1p-24f}));
  EXPECT_EQ(decoded(TensorType::bf16, bytes_from<uint16_t>({0x3F80, 0xC0A0})), (std::vector<float>{1.0f, -5.0f}));
  EXPECT_EQ(decoded(TensorType::f64, bytes_from<double>({0.1, -2.5})), (std::vector<float>{0.1f, -2.5f}));
  EXPECT_EQ(decoded(TensorType::i8, bytes_from<int8_t>({-128, 127})), (std::vector<float>{-128, 127}));
  EXPECT_EQ(decoded(TensorType::i16, bytes_from<int16_t>({-32768, 5})), (std::vector<float>{-32768, 5}));
  EXPECT_EQ(decoded(TensorType::i32, bytes_from<int32_t>({-7, 1 << 30})), (std::vector<float>{-7, 0x1p30f}));
  EXPECT_EQ(decoded(TensorType::i64, bytes_from<int64_t>({-7, int64_t{1} << 62})), (std::vector<float>{-7, 0x1p62f}));
}

TEST(Decode, NanAndInfinityPass) {
  const auto f16 = decoded(TensorType::f16, bytes_from<uint16_t>({0x7C00, 0x7E00}));
  EXPECT_TRUE(std::isinf(f16[0]));
  EXPECT_TRUE(std::isnan(f16[1]));
  std::vector<uint8_t> block = bytes_from<uint16_t>({0x7E00});
  block.resize(18, 0x11);
  for (const float v : decoded(TensorType::q4_0, block)) EXPECT_TRUE(std::isnan(v));
}

TEST(Decode, Q1_0) {
  std::vector<uint8_t> block;
  put(block, half_1_5);
  std::vector<float> expected(128);
  std::mt19937 random(2);
  for (int byte = 0; byte < 16; ++byte) {
    const uint8_t bits = random();
    block.push_back(bits);
    for (int b = 0; b < 8; ++b) expected[8 * byte + b] = (bits >> b & 1) ? 1.5f : -1.5f;
  }
  EXPECT_EQ(decoded(TensorType::q1_0, block), expected);
}

TEST(Decode, Q2_0) {
  std::vector<uint8_t> block;
  put(block, half_1_5);
  std::vector<float> expected;
  std::mt19937 random(3);
  for (int byte = 0; byte < 16; ++byte) {
    int packed = 0;
    for (int i = 0; i < 4; ++i) {
      const int q = random() % 4;
      packed += q * (1 << (2 * i));
      expected.push_back(1.5f * (q - 1));
    }
    block.push_back(packed);
  }
  EXPECT_EQ(decoded(TensorType::q2_0, block), expected);
}

TEST(Decode, Tq1_0) {
  // Packs random digits as the format's writers do: five base-3 digits, first one on top, as a fraction of 243 scaled
  // to 256 and rounded up.
  std::mt19937 random(4);
  std::vector<int> digits(256);
  for (int& d : digits) d = random() % 3;
  const auto pack = [&](int first, int stride, int count) {
    int number = 0;
    for (int n = 0; n < 5; ++n) number = 3 * number + (n < count ? digits[first + n * stride] : 0);
    return static_cast<uint8_t>((number * 256 + 242) / 243);
  };
  std::vector<uint8_t> block;
  for (int j = 0; j < 32; ++j) block.push_back(pack(j, 32, 5));
  for (int j = 0; j < 16; ++j) block.push_back(pack(160 + j, 16, 5));
  for (int j = 0; j < 4; ++j) block.push_back(pack(240 + j, 4, 4));
  put(block, half_1_5);
  const auto out = decoded(TensorType::tq1_0, block);
  for (int e = 0; e < 256; ++e) EXPECT_TRUE(out[e] == 1.5f * (digits[e] - 1)) << e;
}

TEST(Decode, Tq2_0) {
  std::mt19937 random(5);
  std::vector<int> digits(256);
  for (int& d : digits) d = random() % 3;
  std::vector<uint8_t> block(64);
  for (int e = 0; e < 256; ++e) block[e / 128 * 32 + e % 32] |= digits[e] << (2 * (e % 128 / 32));
  put(block, half_1_5);
  const auto out = decoded(TensorType::tq2_0, block);
  for (int e = 0; e < 256; ++e) EXPECT_TRUE(out[e] == 1.5f * (digits[e] - 1)) << e;
}

TEST(Decode, Mxfp4AllExponents) {
  const double levels[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (int e = 0; e < 256; ++e) {
    std::vector<uint8_t> block{static_cast<uint8_t>(e)};
    for (int j = 0; j < 16; ++j) block.push_back(j | (15 - j) << 4);
    const auto out = decoded(TensorType::mxfp4, block);
    for (int j = 0; j < 16; ++j) {
      const auto expected = [&](int q) {
        const double v = std::ldexp(levels[q], e - 127);
        return std::abs(v) > std::numeric_limits<float>::max() ? std::copysign(INFINITY, static_cast<float>(levels[q]))
                                                               : static_cast<float>(v);
      };
      EXPECT_TRUE(out[j] == expected(j)) << e << " " << j;
      EXPECT_TRUE(out[j + 16] == expected(15 - j)) << e << " " << j;
    }
  }
}

TEST(Decode, Nvfp4AllScales) {
  // u = E4M3 / 2 with bias 7; codes 0 and 0x7F are zero; the sign bit is ignored.
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    double scale = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
    if ((code & 127) == 127) scale = 0;
    std::vector<uint8_t> block(36, 0);
    block[2] = code;
    block[4 + 2 * 8 + 3] = 0xF5;  // sub-block 2, byte 3: element 3 is +3, element 11 is -6
    const auto out = decoded(TensorType::nvfp4, block);
    for (int e = 0; e < 64; ++e) {
      const double level = e == 35 ? 3 : e == 43 ? -6 : 0;
      EXPECT_TRUE(out[e] == static_cast<float>(level * scale)) << code << " " << e;
    }
  }
}

TEST(Decode, WrongSizesAreErrors) {
  for (const TensorType type : all_types) {
    const auto info = type_info(type);
    if (!info->decodable) continue;
    std::vector<std::byte> bytes(3 * info->bytes_per_block);
    std::vector<float> out(2 * info->values_per_block);
    for (size_t size = 0; size <= bytes.size(); ++size) {
      const bool fits = size == 2 * info->bytes_per_block;
      EXPECT_EQ(decode(type, std::span(bytes).first(size), out).ok(), fits) << info->name << " " << size;
    }
    const auto two_blocks = std::span(bytes).first(2 * info->bytes_per_block);
    for (size_t values = info->values_per_block + 1; values < out.size(); ++values) {
      const Status status = decode(type, two_blocks, std::span(out).first(values));
      ASSERT_FALSE(status.ok()) << info->name << " " << values;
      EXPECT_NE(status.error().message.find(fmt::format("blocks hold {} values", info->values_per_block)),
                std::string::npos)
          << status.error().message;
    }
    EXPECT_TRUE(decode(type, {}, {}).ok());
  }
}

TEST(Decode, TypesWithoutDecoderAreNamed) {
  for (const TensorType type : all_types) {
    const auto info = type_info(type);
    if (info->decodable) continue;
    std::vector<std::byte> bytes(info->bytes_per_block);
    std::vector<float> out(info->values_per_block);
    const Status status = decode(type, bytes, out);
    ASSERT_FALSE(status.ok()) << info->name;
    EXPECT_EQ(status.error().kind, ErrorKind::unsupported);
    EXPECT_NE(status.error().message.find(info->name), std::string::npos) << status.error().message;
  }
  const Status unknown = decode(static_cast<TensorType>(99), {}, {});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("type 99"), std::string::npos) << unknown.error().message;
}

}  // namespace
}  // namespace gale::format
