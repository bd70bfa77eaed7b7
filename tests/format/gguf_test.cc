// The GGUF parser on right files: every value type, versions, alignments, padding, gaps, and big vocabularies.
#include "format/gguf.h"

#include <gtest/gtest.h>

#include "format/gguf_bytes.h"

namespace gale::format {
namespace {

using test::append;
using test::GgufBytes;
using test::KeyType;

// Keeps the bytes alive that the contents point into.
struct Parsed {
  explicit Parsed(std::string file) : bytes(std::move(file)), result(parse_gguf(test::bytes_of_text(bytes), "t.gguf")) {
    EXPECT_TRUE(result.ok()) << result.error().message;
  }
  const Metadata& metadata() const { return result->metadata; }
  const Tensor& tensor(size_t i) const { return result->tensors[i]; }

  std::string bytes;
  Result<GgufContents> result;
};

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> out(tensor.values());
  EXPECT_TRUE(decode(tensor.type, tensor.bytes, out).ok());
  return out;
}

TEST(Gguf, EmptyFileOfEachVersion) {
  for (const uint32_t version : {2, 3}) {
    GgufBytes file;
    file.version = version;
    file.pad_last = false;
    const Parsed p(file.build());
    ASSERT_TRUE(p.result.ok());
    EXPECT_EQ(p.bytes.size(), 24u);
    EXPECT_TRUE(p.metadata().keys().empty());
    EXPECT_TRUE(p.result->tensors.empty());
  }
}

TEST(Gguf, EveryValueType) {
  GgufBytes file;
  file.value<uint8_t>("u8", 200).value<int8_t>("i8", -100).value<uint16_t>("u16", 60000).value<int16_t>("i16", -30000);
  file.value<uint32_t>("u32", 4000000000u).value<int32_t>("i32", -2000000000);
  file.value<uint64_t>("u64", ~uint64_t{0}).value<int64_t>("i64", -(int64_t{1} << 62));
  file.value<float>("f32", 0.1f).value<double>("f64", 0.1).value("true", true).value("false", false);
  file.text("string", "h\xC3\xA9llo").text("empty", "");
  const Parsed p(file.build());
  ASSERT_TRUE(p.result.ok());
  const Metadata& m = p.metadata();
  EXPECT_EQ(**m.unsigned_integer("u8"), 200u);
  EXPECT_EQ(**m.integer("i8"), -100);
  EXPECT_EQ(**m.unsigned_integer("u16"), 60000u);
  EXPECT_EQ(**m.integer("i16"), -30000);
  EXPECT_EQ(**m.unsigned_integer("u32"), 4000000000u);
  EXPECT_EQ(**m.integer("i32"), -2000000000);
  EXPECT_EQ(**m.unsigned_integer("u64"), ~uint64_t{0});
  EXPECT_EQ(**m.integer("i64"), -(int64_t{1} << 62));
  EXPECT_EQ(**m.number("f32"), static_cast<double>(0.1f));
  EXPECT_EQ(**m.number("f64"), 0.1);
  EXPECT_EQ(**m.boolean("true"), true);
  EXPECT_EQ(**m.boolean("false"), false);
  EXPECT_EQ(**m.text("string"), "h\xC3\xA9llo");
  EXPECT_EQ(**m.text("empty"), "");
  EXPECT_EQ(m.keys().front(), "u8");
  EXPECT_EQ(m.keys().back(), "empty");
}

TEST(Gguf, EveryArrayType) {
  GgufBytes file;
  file.array<uint8_t>("u8", {1, 255}).array<int8_t>("i8", {-1, 5}).array<uint16_t>("u16", {65535});
  file.array<int16_t>("i16", {-5}).array<uint32_t>("u32", {4000000000u}).array<int32_t>("i32", {-1, 0, 1});
  file.array<uint64_t>("u64", {1, 2}).array<int64_t>("i64", {-1, 2}).array<float>("f32", {0.5f, 1.5f});
  file.array<double>("f64", {0.5}).array<bool>("bool", {true, false, true}).texts("strings", {"a", "", "ccc"});
  file.array<int32_t>("none", {}).texts("no strings", {});
  const Parsed p(file.build());
  ASSERT_TRUE(p.result.ok());
  const Metadata& m = p.metadata();
  EXPECT_EQ(**m.integers("u8"), (std::vector<int64_t>{1, 255}));
  EXPECT_EQ(**m.integers("i8"), (std::vector<int64_t>{-1, 5}));
  EXPECT_EQ(**m.integers("u16"), (std::vector<int64_t>{65535}));
  EXPECT_EQ(**m.integers("i16"), (std::vector<int64_t>{-5}));
  EXPECT_EQ(**m.integers("u32"), (std::vector<int64_t>{4000000000}));
  EXPECT_EQ(**m.integers("i32"), (std::vector<int64_t>{-1, 0, 1}));
  EXPECT_EQ(**m.integers("u64"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(**m.integers("i64"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(**m.floats("f32"), (std::vector<float>{0.5f, 1.5f}));
  EXPECT_EQ(std::get<std::vector<double>>(*m.find("f64")), std::vector<double>{0.5});
  EXPECT_EQ(std::get<std::vector<uint8_t>>(*m.find("bool")), (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(**m.texts("strings"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_TRUE((*m.integers("none"))->empty());
  EXPECT_TRUE((*m.texts("no strings"))->empty());
  // Text is not copied.
  const char* text = (**m.texts("strings"))[2].data();
  EXPECT_TRUE(text >= p.bytes.data() && text < p.bytes.data() + p.bytes.size());
}

TEST(Gguf, TensorsOfOneToFourDimensions) {
  GgufBytes file;
  file.floats("one", {3}, {1, 2, 3}).floats("two", {2, 2}, {4, 5, 6, 7}).floats("three", {1, 2, 1}, {8, 9});
  file.floats("four", {1, 1, 1, 2}, {10, 11});
  file.tensor("q", TensorType::q8_0, {64, 2}, std::string(4 * 34, '\1'));
  const Parsed p(file.build());
  ASSERT_TRUE(p.result.ok());
  ASSERT_EQ(p.result->tensors.size(), 5u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(p.tensor(i).dimensions, i + 1);
  EXPECT_EQ(p.tensor(1).shape, (std::array<uint64_t, 4>{2, 2, 1, 1}));
  EXPECT_EQ(values_of(p.tensor(0)), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(values_of(p.tensor(1)), (std::vector<float>{4, 5, 6, 7}));
  EXPECT_EQ(values_of(p.tensor(3)), (std::vector<float>{10, 11}));
  EXPECT_EQ(p.tensor(4).rows(), 2u);
  EXPECT_EQ(p.tensor(4).bytes.size(), 4u * 34);
}

TEST(Gguf, TypesThatCannotBeDecodedCanBeRead) {
  GgufBytes file;
  file.tensor("i", TensorType::iq2_xxs, {256}, std::string(66, '\1'));
  const Parsed p(file.build());
  ASSERT_TRUE(p.result.ok());
  EXPECT_EQ(type_name(p.tensor(0).type), "IQ2_XXS");
}

TEST(Gguf, AlignmentsFromTheFile) {
  for (uint32_t alignment = 1; alignment <= 4096; alignment *= 2) {
    // The builder places tensors at multiples of 32; smaller alignments allow that as well.
    GgufBytes file;
    file.alignment = alignment;
    file.value<uint32_t>("general.alignment", alignment).floats("x", {1}, {42});
    const Parsed p(file.build());
    ASSERT_TRUE(p.result.ok()) << alignment;
    EXPECT_EQ(values_of(p.tensor(0)), std::vector<float>{42}) << alignment;
  }
}

TEST(Gguf, UnpaddedTailAndTrailingBytes) {
  // Odd size of the last tensor: 3 bytes of 8-bit integers.
  for (const size_t extra : {0, 1, 31, 1000}) {
    GgufBytes file;
    file.pad_last = false;
    file.trailer = std::string(extra, '\0');
    file.floats("x", {1}, {42}).tensor("y", TensorType::i8, {3}, "\1\2\3");
    const Parsed p(file.build());
    ASSERT_TRUE(p.result.ok()) << extra;
    EXPECT_EQ(values_of(p.tensor(0)), std::vector<float>{42});
    EXPECT_EQ(values_of(p.tensor(1)), (std::vector<float>{1, 2, 3}));
  }
}

TEST(Gguf, GapsAndAnyOrderOfTensors) {
  GgufBytes file;
  std::string data(128, '\0');
  const float one = 1, two = 2;
  std::memcpy(data.data() + 96, &one, 4);
  std::memcpy(data.data() + 32, &two, 4);
  file.tensor_info("late", 0, {1}, 96).tensor_info("early", 0, {1}, 32).data(data);
  const Parsed p(file.build());
  ASSERT_TRUE(p.result.ok());
  EXPECT_EQ(values_of(p.tensor(0)), std::vector<float>{1});
  EXPECT_EQ(values_of(p.tensor(1)), std::vector<float>{2});
}

TEST(Gguf, LongestTensorName) {
  GgufBytes file;
  file.floats(std::string(63, 'n'), {1}, {1});
  EXPECT_TRUE(Parsed(file.build()).result.ok());
}

TEST(Gguf, BigVocabulary) {
  // The shape of the largest vocabularies: read completely, in order, without copies.
  constexpr size_t tokens = 262144, merges = 500000;
  std::string list, scores, pairs;
  append<uint32_t>(list, static_cast<uint32_t>(KeyType::string));
  append<uint64_t>(list, tokens);
  for (size_t i = 0; i < tokens; ++i) test::append_text(list, fmt::format("tok{}", i));
  append<uint32_t>(scores, static_cast<uint32_t>(KeyType::f32));
  append<uint64_t>(scores, tokens);
  for (size_t i = 0; i < tokens; ++i) append<float>(scores, -static_cast<float>(i));
  append<uint32_t>(pairs, static_cast<uint32_t>(KeyType::string));
  append<uint64_t>(pairs, merges);
  for (size_t i = 0; i < merges; ++i) test::append_text(pairs, fmt::format("l{} r", i));
  GgufBytes file;
  file.raw("tokens", KeyType::array, list).raw("scores", KeyType::array, scores).raw("merges", KeyType::array, pairs);
  const Parsed p(file.build());
  ASSERT_TRUE(p.result.ok());
  const auto& read = **p.metadata().texts("tokens");
  ASSERT_EQ(read.size(), tokens);
  EXPECT_EQ(read[262143], "tok262143");
  EXPECT_EQ((**p.metadata().floats("scores"))[262143], -262143.0f);
  EXPECT_EQ((**p.metadata().texts("merges"))[499999], "l499999 r");
}

}  // namespace
}  // namespace gale::format
