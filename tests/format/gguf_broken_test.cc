// The GGUF parser on wrong files: each must give an error that names the file, the place and the reason.
#include <gtest/gtest.h>

#include "format/gguf.h"
#include "format/gguf_bytes.h"

namespace gale::format {
namespace {

using test::append;
using test::append_text;
using test::GgufBytes;
using test::KeyType;

constexpr uint64_t huge = uint64_t{1} << 60;

// Parses and gives the error's message, which must begin with the file's name and hold all `parts`.
void expect_error(const std::string& bytes, std::initializer_list<std::string_view> parts,
                  ErrorKind kind = ErrorKind::invalid_input) {
  const auto result = parse_gguf(test::bytes_of_text(bytes), "bad.gguf");
  ASSERT_FALSE(result.ok()) << "accepted; expected: " << *parts.begin();
  const std::string& message = result.error().message;
  EXPECT_EQ(result.error().kind, kind) << message;
  EXPECT_TRUE(message.starts_with("bad.gguf: ")) << message;
  for (const auto part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(GgufBroken, Magic) {
  expect_error("Hello world\nnext line", {"not a GGUF file: it starts with \"Hello world\", not \"GGUF\""});
  expect_error("GGU", {"not a GGUF file", "\"GGU\""});
  expect_error(std::string("\0\1\2\3\4", 5), {"\\x00\\x01"});
  expect_error("", {"not a GGUF file"});
  GgufBytes file;
  file.magic = "FUGG";
  expect_error(file.build(), {"not a GGUF file"});
  file.magic = "tjgg";
  expect_error(file.build(), {"convert"});
  expect_error("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", {"Git LFS"});
  expect_error(std::string("\x40\0\0\0\0\0\0\0{\"a\":{}}", 16), {"safetensors"});
}

TEST(GgufBroken, Version) {
  for (const uint32_t version : {0u, 1u, 4u, 99u, 0xFFFFFFFFu}) {
    GgufBytes file;
    file.version = version;
    expect_error(file.build(), {fmt::format("version {}", version), "not supported"}, ErrorKind::unsupported);
  }
  for (const uint32_t version : {2u, 3u}) {
    GgufBytes file;
    file.version = __builtin_bswap32(version);
    expect_error(file.build(), {"big-endian"}, ErrorKind::unsupported);
  }
}

TEST(GgufBroken, Counts) {
  GgufBytes tensors;
  tensors.extra_tensors = uint64_t{1} << 40;
  expect_error(tensors.build(), {"tensor count", "1099511627776"});
  GgufBytes keys;
  keys.trailer = std::string(68, '\0');
  keys.extra_keys = uint64_t{1} << 40;
  expect_error(keys.build(), {"key count", "1099511627776"});
  GgufBytes most;
  most.extra_tensors = ~uint64_t{0};
  expect_error(most.build(), {"tensor count"});
  // One more than there is: what follows is taken for it and must not fit.
  GgufBytes one_key_more;
  one_key_more.text("a", "b").extra_keys = 1;
  EXPECT_FALSE(parse_gguf(test::bytes_of_text(one_key_more.build()), "bad.gguf").ok());
  GgufBytes one_tensor_more;
  one_tensor_more.floats("x", {1}, {1}).extra_tensors = 1;
  EXPECT_FALSE(parse_gguf(test::bytes_of_text(one_tensor_more.build()), "bad.gguf").ok());
}

TEST(GgufBroken, KeyNames) {
  // 32 bytes: magic, version 3, no tensors, one key of length 2^48-1.
  std::string header = "GGUF";
  append<uint32_t>(header, 3);
  append<uint64_t>(header, 0);
  append<uint64_t>(header, 1);
  append<uint64_t>(header, (uint64_t{1} << 48) - 1);
  ASSERT_EQ(header.size(), 32u);
  expect_error(header, {"key"});
  header += std::string(20, 'x');
  expect_error(header, {"key 0: name", "281474976710655"});
  header.replace(24, 8, std::string(8, '\xFF'));
  expect_error(header, {"key 0: name", "18446744073709551615"});
  expect_error(GgufBytes().text("", "x").build(), {"key 0", "empty"});
  expect_error(GgufBytes().text("a.b", "x").text("c", "y").value<uint32_t>("a.b", 1).build(), {"\"a.b\"", "twice"});
  expect_error(GgufBytes().raw("line\nbreak", static_cast<KeyType>(77), "0123").build(), {"\"line\\nbreak\""});
  expect_error(GgufBytes().text("a\x1b[2J", "x").build(), {"key \"a\\x1b[2J\"", "control characters"});
  expect_error(GgufBytes().floats("a\x7F", {1}, {1}).build(), {"tensor \"a\\x7f\"", "control characters"});
}

TEST(GgufBroken, ValueTypes) {
  for (const uint32_t type : {13u, 14u, 255u, 0xFFFFFFFFu}) {
    expect_error(GgufBytes().raw("k", static_cast<KeyType>(type), "01234567").build(),
                 {"\"k\"", fmt::format("type {} is not known", type)});
    std::string array;
    append(array, type);
    append<uint64_t>(array, 0);
    expect_error(GgufBytes().raw("k", KeyType::array, array).build(), {"\"k\"", "element type", "not known"});
  }
  std::string nested;
  append(nested, static_cast<uint32_t>(KeyType::array));
  append<uint64_t>(nested, 1);
  nested += std::string(12, '\0');
  expect_error(GgufBytes().raw("k", KeyType::array, nested).build(), {"\"k\"", "arrays of arrays"});
}

TEST(GgufBroken, Bools) {
  expect_error(GgufBytes().raw("k", KeyType::boolean, "\2").build(), {"\"k\"", "0 or 1, found 2"});
  std::string array;
  append(array, static_cast<uint32_t>(KeyType::boolean));
  append<uint64_t>(array, 3);
  array += std::string("\0\1\5", 3);
  expect_error(GgufBytes().raw("k", KeyType::array, array).build(), {"\"k\"", "element 2", "found 5"});
}

TEST(GgufBroken, StringLengths) {
  for (const uint64_t length : {uint64_t{200}, huge, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string payload;
    append(payload, length);
    payload += "abc";
    expect_error(GgufBytes().raw("k", KeyType::string, payload).build(), {"\"k\": value", std::to_string(length)});
    std::string array;
    append(array, static_cast<uint32_t>(KeyType::string));
    append<uint64_t>(array, 2);
    append_text(array, "fine");
    append(array, length);
    expect_error(GgufBytes().raw("k", KeyType::array, array).build(),
                 {"\"k\": element 1", std::to_string(length), "left"});
  }
}

TEST(GgufBroken, ArrayLengths) {
  for (uint32_t type = 0; type <= 12; ++type) {
    if (static_cast<KeyType>(type) == KeyType::array) continue;
    for (const uint64_t count : {uint64_t{1000}, huge, uint64_t{1} << 61, uint64_t{1} << 63, ~uint64_t{0}}) {
      std::string array;
      append(array, type);
      append(array, count);
      array += std::string(16, '\0');
      expect_error(GgufBytes().raw("k", KeyType::array, array).build(), {"\"k\": array length", std::to_string(count)});
    }
  }
}

TEST(GgufBroken, Alignment) {
  for (const uint32_t alignment : {0u, 3u, 24u, 33u, 0xFFFFFFFFu}) {
    expect_error(GgufBytes().value<uint32_t>("general.alignment", alignment).floats("x", {1}, {1}).build(),
                 {"general.alignment", "power of two", std::to_string(alignment)});
  }
  expect_error(GgufBytes().text("general.alignment", "32").build(), {"general.alignment", "must be a u32", "string"});
  expect_error(GgufBytes().value<int32_t>("general.alignment", 32).build(), {"general.alignment", "must be a u32"});
  expect_error(GgufBytes().value<uint64_t>("general.alignment", 32).build(), {"general.alignment", "must be a u32"});
  expect_error(GgufBytes().array<uint32_t>("general.alignment", {32}).build(), {"general.alignment", "must be a u32"});
  // A power of two, but the data would begin beyond the end.
  expect_error(GgufBytes().value<uint32_t>("general.alignment", 1u << 31).floats("x", {1}, {1}).build(),
               {"\"x\"", "end of the file"});
}

TEST(GgufBroken, TensorNames) {
  expect_error(GgufBytes().floats("", {1}, {1}).build(), {"tensor 0", "empty"});
  expect_error(GgufBytes().floats(std::string(64, 'n'), {1}, {1}).build(), {"64 bytes", "63"});
  expect_error(GgufBytes().floats("x", {1}, {1}).floats("y", {1}, {1}).floats("x", {1}, {1}).build(),
               {"tensor \"x\"", "twice"});
  GgufBytes file;
  file.extra_tensors = 1;
  std::string info;
  append<uint64_t>(info, huge);
  file.pad_last = false;
  file.trailer = info + std::string(40, 'x');
  expect_error(file.build(), {"tensor 0: name", std::to_string(huge)});
}

TEST(GgufBroken, TensorShapes) {
  const std::string data(64, '\0');
  expect_error(GgufBytes().tensor_info("x", 0, {}, 0).data(data).build(), {"\"x\"", "0 dimensions"});
  expect_error(GgufBytes().tensor_info("x", 0, {1, 1, 1, 1, 1}, 0).data(data).build(), {"\"x\"", "5 dimensions"});
  for (size_t d = 0; d < 4; ++d) {
    std::vector<uint64_t> shape(4, 2);
    shape[d] = 0;
    expect_error(GgufBytes().tensor_info("x", 0, shape, 0).data(data).build(),
                 {"\"x\"", fmt::format("dimension {} is 0", d)});
  }
  const uint64_t half = uint64_t{1} << 32;
  expect_error(GgufBytes().tensor_info("x", 0, {half, half}, 0).data(data).build(), {"\"x\"", "overflows"});
  expect_error(GgufBytes().tensor_info("x", 0, {1, 3, half, half}, 0).data(data).build(), {"\"x\"", "overflows"});
  // The product of the dimensions fits, its bytes don't.
  expect_error(GgufBytes().tensor_info("x", 0, {uint64_t{1} << 62}, 0).data(data).build(), {"\"x\"", "overflows"});
  expect_error(GgufBytes().tensor_info("x", 0, {uint64_t{1} << 61}, 0).data(data).build(),
               {"\"x\"", "end of the file"});
  expect_error(GgufBytes().tensor_info("x", 0, {17}, 0).data(data).build(), {"\"x\"", "68 bytes", "end of the file"});
}

TEST(GgufBroken, TensorTypes) {
  for (const uint32_t type : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 1000u, 0xFFFFFFFFu}) {
    expect_error(GgufBytes().tensor_info("x", type, {256}, 0).data(std::string(1024, '\0')).build(),
                 {"\"x\"", fmt::format("type id {} is not known", type)}, ErrorKind::unsupported);
  }
}

TEST(GgufBroken, RowsOfPartsOfBlocks) {
  for (uint32_t id = 0; id < 43; ++id) {
    const auto info = type_info(static_cast<TensorType>(id));
    if (!info || info->values_per_block == 1) continue;
    // Two rows of half a block: the product would be a whole block.
    expect_error(
        GgufBytes().tensor_info("x", id, {info->values_per_block / 2, 2}, 0).data(std::string(512, '\0')).build(),
        {"\"x\"", "rows", info->name});
  }
}

TEST(GgufBroken, TensorOffsets) {
  const std::string data(128, '\0');
  for (const uint64_t offset : {1, 4, 31, 33}) {
    expect_error(GgufBytes().tensor_info("x", 0, {1}, offset).data(data).build(),
                 {"\"x\"", "multiple of the alignment 32"});
  }
  for (const uint64_t offset : {uint64_t{128}, uint64_t{160}, huge, ~uint64_t{0} - 31}) {
    expect_error(GgufBytes().tensor_info("x", 0, {1}, offset).data(data).build(),
                 {"\"x\"", std::to_string(offset), "end of the file"});
  }
  expect_error(GgufBytes().tensor_info("x", 0, {9}, 96).data(data).build(), {"\"x\"", "36 bytes", "end of the file"});
}

TEST(GgufBroken, TensorsThatOverlap) {
  const std::string data(128, '\0');
  expect_error(GgufBytes().tensor_info("x", 0, {1}, 32).tensor_info("y", 0, {1}, 32).data(data).build(),
               {"\"x\"", "\"y\"", "overlaps"});
  expect_error(GgufBytes().tensor_info("x", 0, {8}, 64).tensor_info("y", 0, {17}, 0).data(data).build(),
               {"\"x\"", "\"y\"", "overlaps"});
  // One inside another that begins before a third.
  expect_error(GgufBytes()
                   .tensor_info("a", 0, {32}, 0)
                   .tensor_info("b", 0, {1}, 32)
                   .tensor_info("c", 0, {1}, 96)
                   .data(data)
                   .build(),
               {"\"b\"", "\"a\"", "overlaps"});
}

// A small file with something of everything, whose last byte belongs to the last tensor.
std::string whole_file() {
  GgufBytes file;
  file.text("general.architecture", "llama").value<uint32_t>("n", 3).value("flag", true).texts("t", {"a", "bc"});
  file.array<float>("f", {1, 2}).array<bool>("b", {true, false}).array<uint16_t>("h", {1, 2, 3});
  file.floats("x", {2, 2}, {1, 2, 3, 4}).tensor("q", TensorType::q8_0, {32}, std::string(34, '\1'));
  file.pad_last = false;
  return file.build();
}

TEST(GgufBroken, TruncatedAtEveryByte) {
  const std::string bytes = whole_file();
  ASSERT_TRUE(parse_gguf(test::bytes_of_text(bytes), "bad.gguf").ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly this size, so that a sanitizer sees any read beyond it.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const auto result = parse_gguf(std::as_bytes(std::span(cut)), "bad.gguf");
    ASSERT_FALSE(result.ok()) << size;
    EXPECT_TRUE(result.error().message.starts_with("bad.gguf: ")) << result.error().message;
  }
}

TEST(GgufBroken, EveryByteDamaged) {
  // Any result is right, as long as nothing is read or allocated beyond the file (sanitizers watch) and the tensors of
  // accepted files lie inside it.
  const std::string good = whole_file();
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char value : {'\0', '\1', '\x7F', '\x80', '\xFF'}) {
      std::string bytes = good;
      bytes[at] = value;
      const auto result = parse_gguf(test::bytes_of_text(bytes), "bad.gguf");
      if (!result.ok()) continue;
      const std::byte* begin = test::bytes_of_text(bytes).data();
      for (const Tensor& t : result->tensors) {
        EXPECT_TRUE(t.bytes.data() >= begin && t.bytes.data() + t.bytes.size() <= begin + bytes.size());
        EXPECT_EQ(bytes_of(t.type, t.values()), t.bytes.size());
      }
    }
  }
}

}  // namespace
}  // namespace gale::format
