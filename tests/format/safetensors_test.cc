// The container: what a right file gives, and an error with the place for every way in which one can be wrong.
#include "format/safetensors.h"

#include <gtest/gtest.h>

#include "format/safetensors_bytes.h"

namespace gale::format {
namespace {

using test::bytes_of_numbers;
using test::safetensors_file;
using test::SafetensorsBytes;

std::span<const std::byte> span_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string error_of(const std::string& file) {
  const auto parsed = parse_safetensors(span_of(file), "x.safetensors");
  if (parsed.ok()) return "";
  EXPECT_TRUE(parsed.error().message.starts_with("x.safetensors: ")) << parsed.error().message;
  return parsed.error().message;
}

TEST(Safetensors, GivesTensorsInTheOrderOfTheirData) {
  const std::string header = R"({"__metadata__":{"format":"pt","note":"{}"},)"
                             R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                             R"("a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}})";
  const std::string file = safetensors_file(header, std::string(16, '\1'));
  const auto parsed = parse_safetensors(span_of(file), "x");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 2u);
  const StoredTensor &a = (*parsed)[0], &b = (*parsed)[1];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dimensions, 0u);
  EXPECT_EQ(a.values(), 1u);
  EXPECT_EQ(describe(b), "BF16 [2, 3]");
  EXPECT_EQ(b.values(), 6u);
  EXPECT_EQ(reinterpret_cast<const char*>(b.bytes.data()), file.data() + 8 + header.size() + 4);
}

TEST(Safetensors, TakesGapsTrailingBytesSpacesAndEmptyTensors) {
  const std::string gap = safetensors_file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}   )", "12345678");
  EXPECT_EQ(error_of(gap), "");
  const std::string empty = safetensors_file(
      R"({"a":{"dtype":"U8","shape":[0,9223372036854775807],"data_offsets":[0,0]},)"
      R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"c":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
      "1");
  EXPECT_EQ(error_of(empty), "");
  EXPECT_EQ(error_of(safetensors_file("{}")), "");
}

TEST(Safetensors, UnknownFieldsOfATensorAreSkipped) {
  EXPECT_EQ(error_of(safetensors_file(
                R"({"a":{"x":{"y":[1,null,-2,0.5,{"z":true}]},"dtype":"U8","shape":[1],"data_offsets":[0,1],"n":"s"}})",
                "1")),
            "");
}

struct Broken {
  const char* name;
  std::string file;
  const char* part;  // of the message
};

void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

std::string with_length(uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + rest;
}

std::string tensor(const std::string& fields) {
  return safetensors_file("{\"blk.w\":{" + fields + "}}", "12345678");
}

std::vector<Broken> broken_files() {
  const std::string two = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)";
  return {
      {"empty", "", "header length"},
      {"seven_bytes", "1234567", "header length"},
      {"git_lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
      {"length_beyond_file", with_length(100, "{}"), "claims 100 bytes, but only 2"},
      {"length_2_48", with_length((uint64_t{1} << 48) - 1, "{}"), "header length"},
      {"length_all_ones", with_length(~uint64_t{0}, "{}"), "header length"},
      {"length_zero", with_length(0, "{}"), "no valid JSON"},
      {"cut_off", safetensors_file(R"({"a":{"dtype":"U8")"), "no valid JSON"},
      {"text_after", safetensors_file("{}x"), "no valid JSON"},
      {"bad_utf8", safetensors_file("{\"\xff\":{}}"), "no valid JSON"},
      {"zero_byte", safetensors_file(std::string("{\0}", 3)), "no valid JSON"},
      {"not_an_object", safetensors_file("[]"), "an array where none belongs"},
      {"only_a_number", safetensors_file("1"), "a number where none belongs"},
      {"tensor_no_object", safetensors_file(R"({"a":1})"), "a number where none belongs"},
      {"tensor_an_array", safetensors_file(R"({"a":[]})"), "an array where none belongs"},
      {"deep", safetensors_file("{\"a\":{\"b\":" + std::string(100000, '[')), "nested more than"},
      {"metadata_twice", safetensors_file(R"({"__metadata__":{},"__metadata__":{}})"),
       "__metadata__: it is there twice"},
      {"metadata_number", safetensors_file(R"({"__metadata__":{"a":1}})"), "__metadata__: a number"},
      {"metadata_nested", safetensors_file(R"({"__metadata__":{"a":{}}})"), "__metadata__: an object"},
      {"empty_name", safetensors_file(R"({"":{}})"), "a name of 0 bytes"},
      {"long_name", safetensors_file("{\"" + std::string(600, 'n') + "\":{}}"), "a name of 600 bytes"},
      {"control_character", safetensors_file(R"({"a\u001b[2J":{}})"), "control characters"},
      {"no_fields", tensor(""), "\"blk.w\": the field \"dtype\" is missing"},
      {"no_shape", tensor(R"("dtype":"U8","data_offsets":[0,1])"), "the field \"shape\" is missing"},
      {"no_offsets", tensor(R"("dtype":"U8","shape":[1])"), "the field \"data_offsets\" is missing"},
      {"dtype_twice", tensor(R"("dtype":"U8","dtype":"U8")"), "the field \"dtype\" is there twice"},
      {"dtype_unknown", tensor(R"("dtype":"F6_E2M3","shape":[1],"data_offsets":[0,1])"),
       "\"F6_E2M3\" is not supported"},
      {"dtype_number", tensor(R"("dtype":8)"), "a number where none belongs"},
      {"shape_a_string", tensor(R"("dtype":"U8","shape":"1")"), "a string where none belongs"},
      {"shape_negative", tensor(R"("dtype":"U8","shape":[-1])"), "a negative number"},
      {"shape_fraction", tensor(R"("dtype":"U8","shape":[1.0])"), "a number that is no integer"},
      {"shape_beyond_64_bits", tensor(R"("dtype":"U8","shape":[18446744073709551616])"), "a number that is no integer"},
      {"shape_nested", tensor(R"("dtype":"U8","shape":[[1]])"), "an array where none belongs"},
      {"shape_null", tensor(R"("dtype":"U8","shape":null)"), "null where none belongs"},
      {"nine_dimensions", tensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1])"), "more than 8 dimensions"},
      {"one_offset", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), "data_offsets has 1 numbers"},
      {"three_offsets", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), "more than two numbers"},
      {"backwards", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[2,1])"), "end before they begin"},
      {"too_few_bytes", tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
       "hold 4 bytes, but its shape [2] of F32 needs 8"},
      {"too_many_bytes", tensor(R"("dtype":"U8","shape":[],"data_offsets":[0,4])"), "hold 4 bytes"},
      {"beyond_end", tensor(R"("dtype":"U8","shape":[2],"data_offsets":[7,9])"), "lie beyond the end of the file"},
      {"far_beyond_end",
       tensor(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615])"),
       "lie beyond the end of the file"},
      {"shape_overflows", tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), "overflows"},
      {"size_overflows", tensor(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), "overflows"},
      {"same_name", safetensors_file("{" + two + R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", "12345678"),
       "tensor \"a\": it is there twice"},
      {"overlap", safetensors_file("{" + two + R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})", "12345678"),
       "tensor \"b\": its data at offset 3 overlaps with that of tensor \"a\""},
      {"inside", safetensors_file("{" + two + R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "12345678"),
       "overlaps"},
  };
}

class BrokenSafetensors : public testing::TestWithParam<Broken> {};

TEST_P(BrokenSafetensors, IsAnErrorThatNamesThePlace) {
  const std::string message = error_of(GetParam().file);
  EXPECT_NE(message.find(GetParam().part), std::string::npos) << "message: " << message;
}

INSTANTIATE_TEST_SUITE_P(All, BrokenSafetensors, testing::ValuesIn(broken_files()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Safetensors, NoCutOfARightFileIsTaken) {
  const std::string file = SafetensorsBytes().floats("a", {2}, {1, 2}).floats("b", {1, 1}, {3}).build();
  EXPECT_EQ(error_of(file), "");
  for (size_t size = 0; size < file.size(); ++size) EXPECT_NE(error_of(file.substr(0, size)), "") << size;
}

}  // namespace
}  // namespace gale::format
