// The GGUF writer: golden bytes, every kind of value there and back, alignments, parts in any order, refusals.
#include "format/gguf_writer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/scratch_folder.h"
#include "format/gguf.h"
#include "format/gguf_bytes.h"

namespace gale::format {
namespace {

using test::GgufBytes;

TensorEntry entry(std::string name, TensorType type, std::vector<uint64_t> shape) {
  TensorEntry out;
  out.name = std::move(name);
  out.type = type;
  out.dimensions = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), out.shape.begin());
  return out;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The file that the writer makes of these; data[i] goes to tensor i.
std::string written(const Metadata& metadata, const std::vector<TensorEntry>& tensors,
                    const std::vector<std::string>& data) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/w.gguf";
  auto writer = GgufWriter::create(path, metadata, tensors);
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  for (size_t i = data.size(); i-- > 0;) {
    // In two parts, the later ones first.
    const std::string_view bytes = data[i];
    const size_t half = bytes.size() / 2;
    EXPECT_TRUE(writer->write(i, half, test::bytes_of_text(bytes.substr(half))).ok());
    EXPECT_TRUE(writer->write(i, 0, test::bytes_of_text(bytes.substr(0, half))).ok());
  }
  const Status status = writer->finish();
  EXPECT_TRUE(status.ok()) << status.error().message;
  return content(path);
}

TEST(GgufWriter, GoldenBytes) {
  Metadata metadata;
  ASSERT_TRUE(metadata.add("a", std::string_view("hi")).ok());
  ASSERT_TRUE(metadata.add("n", uint64_t{258}).ok());
  const std::string file = written(metadata, {entry("t", TensorType::i8, {3})}, {"xyz"});
  std::string expected("GGUF\3\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 24);
  expected += std::string("\1\0\0\0\0\0\0\0a\10\0\0\0\2\0\0\0\0\0\0\0hi", 8 + 1 + 4 + 8 + 2);
  expected += std::string("\1\0\0\0\0\0\0\0n\4\0\0\0\2\1\0\0", 8 + 1 + 4 + 4);
  expected += std::string("\1\0\0\0\0\0\0\0t\1\0\0\0\3\0\0\0\0\0\0\0\x18\0\0\0\0\0\0\0\0\0\0\0", 8 + 1 + 4 + 8 + 4 + 8);
  expected.resize(128);  // 97 bytes so far
  expected += "xyz" + std::string(29, '\0');
  EXPECT_EQ(file, expected);
}

GgufBytes every_value() {
  GgufBytes file;
  file.value<uint8_t>("u8", 200).value<int8_t>("i8", -100).value<uint16_t>("u16", 60000).value<int16_t>("i16", -30000);
  file.value<uint32_t>("u32", 4000000000u).value<int32_t>("i32", -2000000000).value<uint64_t>("u64", 5);
  file.value<int64_t>("i64", -5).value<float>("f32", 0.1f).value<double>("f64", 0.1).value("b", true).text("s", "h\n");
  file.array<uint8_t>("u8s", {1, 255}).array<int8_t>("i8s", {-1, 5}).array<uint16_t>("u16s", {65535});
  file.array<int16_t>("i16s", {-5}).array<uint32_t>("u32s", {4000000000u}).array<int32_t>("i32s", {-1, 0});
  file.array<uint64_t>("u64s", {1, ~uint64_t{0}}).array<int64_t>("i64s", {-1}).array<float>("f32s", {0.5f, 0.1f});
  file.array<double>("f64s", {0.1}).array<bool>("bs", {true, false}).texts("ss", {"a", "", "ccc"});
  file.array<int32_t>("none", {}).texts("no strings", {});
  return file;
}

TEST(GgufWriter, WhatWasReadIsWrittenAsItWas) {
  GgufBytes file = every_value();
  file.floats("x", {3}, {1, 2, 3}).floats("four", {1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
  file.tensor("q", TensorType::q8_0, {64, 3}, std::string(6 * 34, '\5')).tensor("y", TensorType::i8, {1}, "z");
  const std::string bytes = file.build();
  const auto read = parse_gguf(test::bytes_of_text(bytes), "t");
  ASSERT_TRUE(read.ok()) << read.error().message;
  std::vector<TensorEntry> entries;
  std::vector<std::string> data;
  for (const Tensor& t : read->tensors) {
    entries.push_back({t.name, t.type, t.shape, t.dimensions});
    data.emplace_back(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  }
  EXPECT_EQ(written(read->metadata, entries, data), bytes);
}

TEST(GgufWriter, AlignmentsOfTheKey) {
  for (uint32_t alignment = 1; alignment <= 4096; alignment *= 8) {
    Metadata metadata;
    ASSERT_TRUE(metadata.add("general.alignment", uint64_t{alignment}).ok());
    const std::string file =
        written(metadata, {entry("a", TensorType::i8, {5}), entry("b", TensorType::i8, {2})}, {"12345", "67"});
    EXPECT_EQ(file.size() % alignment, 0u);
    const auto read = parse_gguf(test::bytes_of_text(file), "t");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(std::memcmp(read->tensors[0].bytes.data(), "12345", 5), 0);
    EXPECT_EQ(std::memcmp(read->tensors[1].bytes.data(), "67", 2), 0);
    EXPECT_EQ((read->tensors[1].bytes.data() - reinterpret_cast<const std::byte*>(file.data())) % alignment, 0);
  }
}

TEST(GgufWriter, UsualTypesOfNewKeys) {
  Metadata m;
  const auto type = [&](Value value) {
    m.set("k", std::move(value));
    return m.stored_type("k");
  };
  EXPECT_EQ(type(uint64_t{7}), ValueType::u32);
  EXPECT_EQ(type(uint64_t{1} << 32), ValueType::u64);
  EXPECT_EQ(type(int64_t{-7}), ValueType::i32);
  EXPECT_EQ(type(int64_t{1} << 31), ValueType::i64);
  EXPECT_EQ(type(0.1), ValueType::f32);
  EXPECT_EQ(type(true), ValueType::boolean);
  EXPECT_EQ(type(std::string_view("x")), ValueType::string);
  EXPECT_EQ(type(std::vector<int64_t>{1, -1}), ValueType::i32);
  EXPECT_EQ(type(std::vector<int64_t>{1, int64_t{1} << 40}), ValueType::i64);
  EXPECT_EQ(type(std::vector<uint64_t>{}), ValueType::u32);
  EXPECT_EQ(type(std::vector<uint64_t>{~uint64_t{0}}), ValueType::u64);
  EXPECT_EQ(type(std::vector<float>{1}), ValueType::f32);
  EXPECT_EQ(type(std::vector<double>{1}), ValueType::f64);
  EXPECT_EQ(type(std::vector<uint8_t>{1}), ValueType::boolean);
  EXPECT_EQ(m.keys().size(), 1u);
  m.remove("k");
  m.remove("k");
  EXPECT_TRUE(m.keys().empty());
  EXPECT_EQ(m.find("k"), nullptr);
}

TEST(GgufWriter, LayoutRefusals) {
  const auto error = [](const std::vector<TensorEntry>& tensors, const Metadata& metadata = {}) {
    const auto layout = layout_gguf(metadata, tensors);
    return layout.ok() ? std::string() : layout.error().message;
  };
  const auto expect = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "' says nothing of " << part;
  };
  EXPECT_EQ(error({entry(std::string(63, 'n'), TensorType::f32, {1})}), "");
  expect(error({entry(std::string(64, 'n'), TensorType::f32, {1})}), "64 bytes");
  expect(error({entry("", TensorType::f32, {1})}), "0 bytes");
  expect(error({entry("x", TensorType::f32, {1}), entry("x", TensorType::f32, {1})}), "'x'");
  expect(error({entry("x", TensorType::q4_k, {255})}), "Q4_K");
  expect(error({entry("x", TensorType::f32, {uint64_t{1} << 62, 4})}), "'x'");
  expect(
      error({entry("x", TensorType::f32, {1, uint64_t{1} << 60}), entry("y", TensorType::f32, {1, uint64_t{1} << 60})}),
      "'y'");
  expect(error({entry("x", TensorType::f32, {0})}), "'x'");
  Metadata alignment, key;
  ASSERT_TRUE(alignment.add("general.alignment", uint64_t{24}).ok());
  expect(error({}, alignment), "general.alignment");
  ASSERT_TRUE(key.add(std::string(65536, 'k'), true).ok());
  expect(error({}, key), "65536");
}

TEST(GgufWriter, WritesOutsideAndMissingBytesAreErrors) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/w.gguf";
  {
    const std::vector<TensorEntry> tensors = {entry("a", TensorType::i8, {4})};
    auto writer = GgufWriter::create(path, {}, tensors);
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    EXPECT_FALSE(writer->write(0, 2, test::bytes_of_text("abc")).ok());
    EXPECT_FALSE(writer->write(0, 5, {}).ok());
    ASSERT_TRUE(writer->write(0, 1, test::bytes_of_text("abc")).ok());
    const Status status = writer->finish();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("1 bytes"), std::string::npos) << status.error().message;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace gale::format
