// Every weight of the oracle's Hugging Face directories, bit for bit against numpy; settings against the GGUF file of
// the same model.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>

#include "exec/oracle_model.h"
#include "format/checkpoint.h"
#include "format/safetensors.h"

namespace gale::format {
namespace {

using test::OracleModel;
using test::OracleOptions;

Checkpoint open(const std::string& path) {
  auto opened = Checkpoint::open(path);
  if (!opened.ok()) throw std::runtime_error(opened.error().message);
  return std::move(opened).value();
}

// What numpy makes of the directory, written beside it on first use.
std::string decoded_file(const OracleModel& model) {
  using namespace test::oracle_detail;
  const std::string script = std::string(GALE_TEST_DIR) + "/oracle_decoded.py";
  const std::string out = model.directory + "/../decoded-" + std::to_string(hash(contents(script))) + ".safetensors";
  FileLock lock(out + ".lock");
  if (!std::filesystem::exists(out)) {
    const std::string command = "PYTHONDONTWRITEBYTECODE=1 " + quoted(python()) + " " + quoted(script) + " " +
                                quoted(model.directory) + " " + quoted(out);
    if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
  }
  return out;
}

// All values, read `step` rows at a time.
std::vector<float> values_of(const Tensor& tensor, uint64_t step) {
  std::vector<float> out(tensor.values());
  std::vector<std::byte> buffer;
  for (uint64_t row = 0; row < tensor.rows(); row += step) {
    const uint64_t count = std::min(step, tensor.rows() - row);
    const Status status = decode_rows(tensor, row, count, buffer,
                                      std::span(out).subspan(row * tensor.row_length(), count * tensor.row_length()));
    if (!status.ok()) throw std::runtime_error(status.error().message);
  }
  return out;
}

// Index of the first value with other bits; the size if there is none.
size_t first_difference(std::span<const float> a, std::span<const float> b) {
  size_t i = 0;
  while (i < a.size() && std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i])) ++i;
  return i;
}

class OracleDirectory : public testing::TestWithParam<OracleOptions> {};

TEST_P(OracleDirectory, ValuesAreNumpysToTheBit) {
  if (const auto why = test::oracle_missing(); !why.empty()) GTEST_SKIP() << why;
  const OracleModel model = test::make_oracle_model(GetParam());
  const Checkpoint checkpoint = open(model.directory);
  const auto expected_file = MappedFile::open(decoded_file(model));
  ASSERT_TRUE(expected_file.ok());
  const auto expected = parse_safetensors(expected_file->bytes(), "decoded");
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const StoredTensor& want : *expected) {
    const Tensor* tensor = checkpoint.find(want.name);
    ASSERT_NE(tensor, nullptr) << want.name;
    const std::vector<uint64_t> found(tensor->shape.begin(), tensor->shape.begin() + tensor->dimensions);
    std::vector<uint64_t> shape(want.sizes().rbegin(), want.sizes().rend());
    if (shape.empty()) shape.push_back(1);
    EXPECT_EQ(found, shape) << want.name;
    ASSERT_EQ(tensor->values(), want.values()) << want.name;
    std::vector<float> values(want.values());
    std::memcpy(values.data(), want.bytes.data(), want.bytes.size());
    for (const uint64_t step : {tensor->rows(), uint64_t{1}, uint64_t{7}}) {
      const std::vector<float> got = values_of(*tensor, step);
      const size_t at = first_difference(values, got);
      ASSERT_EQ(at, values.size()) << want.name << " by " << step << " rows: value " << at << " is " << got[at]
                                   << ", expected " << values[at];
    }
  }
  EXPECT_EQ(checkpoint.tensors().size(), expected->size()) << "more tensors than numpy reads";
}

TEST_P(OracleDirectory, SettingsAreThoseOfTheGgufFile) {
  if (const auto why = test::oracle_missing(); !why.empty()) GTEST_SKIP() << why;
  const OracleModel model = test::make_oracle_model(GetParam());
  const Checkpoint directory = open(model.directory), gguf = open(model.path);
  const std::string prefix = std::string(**gguf.metadata().text("general.architecture")) + ".";
  EXPECT_EQ(directory.directory(), model.directory);
  EXPECT_EQ(directory.metadata().text("general.architecture")->value(), prefix.substr(0, prefix.size() - 1));
  if (prefix != "llama." && prefix != "gemma3.") return;  // the settings of these are mapped
  for (const auto* one : {&directory, &gguf}) {
    const Checkpoint& other = one == &gguf ? directory : gguf;
    for (const std::string& key : one->metadata().keys()) {
      if (!key.starts_with(prefix)) continue;
      const Value *a = one->metadata().find(key), *b = other.metadata().find(key);
      ASSERT_NE(b, nullptr) << key;
      EXPECT_TRUE(*a == *b) << key << ": " << describe(*a) << " and " << describe(*b);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Mapped, OracleDirectory, testing::ValuesIn(test::mapped_directories()),
                         [](const auto& info) { return test::test_name(info.param); });

INSTANTIATE_TEST_SUITE_P(
    OwnNames, OracleDirectory,
    testing::Values(OracleOptions{.arch = "qwen3", .greedy = 0, .hf = "fp8"},
                    OracleOptions{.arch = "qwen3moe", .greedy = 0, .hf = "fp8"},
                    OracleOptions{.arch = "gemma4", .variant = "dense", .greedy = 0, .hf = "bf16"},
                    OracleOptions{.arch = "gemma4", .variant = "e", .greedy = 0, .hf = "nvfp4-pack"},
                    OracleOptions{.arch = "gemma4", .variant = "moe", .greedy = 0, .hf = "fp8"},
                    OracleOptions{.arch = "qwen35", .greedy = 0, .hf = "nvfp4"},
                    OracleOptions{.arch = "qwen35moe", .greedy = 0, .hf = "fp8-channel"},
                    OracleOptions{.arch = "qwen35moe", .greedy = 0, .hf = "f32"},
                    OracleOptions{.arch = "deepseek2", .greedy = 0, .hf = "fp8"},
                    OracleOptions{.arch = "deepseek2", .variant = "mtp", .greedy = 0, .hf = "fp8-block"},
                    OracleOptions{.arch = "gpt-oss", .greedy = 0, .hf = "f16"},
                    OracleOptions{.arch = "gpt-oss", .greedy = 0, .hf = "mxfp4"}),
    [](const auto& info) { return test::test_name(info.param); });

}  // namespace
}  // namespace gale::format
