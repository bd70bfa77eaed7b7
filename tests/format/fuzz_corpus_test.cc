// Runs every file of the fuzz corpus through the parser, and keeps that corpus: with GALE_WRITE_CORPUS=1 it is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "format/gguf.h"
#include "format/gguf_bytes.h"

namespace gale::format {
namespace {

namespace fs = std::filesystem;
using test::GgufBytes;
using test::KeyType;

const fs::path folder = fs::path(GALE_TEST_DIR) / "fuzz/corpus/gguf";

void write_corpus() {
  fs::create_directories(folder);
  const auto write = [](const char* name, const GgufBytes& file) { file.write((folder / name).string()); };

  GgufBytes values;
  values.value<uint8_t>("u8", 1).value<int8_t>("i8", -1).value<uint16_t>("u16", 2).value<int16_t>("i16", -2);
  values.value<uint32_t>("u32", 3).value<int32_t>("i32", -3).value<uint64_t>("u64", 4).value<int64_t>("i64", -4);
  values.value<float>("f32", 0.5f).value<double>("f64", 0.5).value("bool", true).text("s", "text");
  write("values", values);

  GgufBytes arrays;
  arrays.array<uint8_t>("u8", {1, 2}).array<int16_t>("i16", {-1}).array<uint32_t>("u32", {1, 2, 3});
  arrays.array<int64_t>("i64", {-1}).array<float>("f32", {1, 2}).array<double>("f64", {1});
  arrays.array<bool>("bool", {true, false}).texts("tokenizer.ggml.tokens", {"a", "", "bc"});
  write("arrays", arrays);

  // One block of every type, with scales that are plain numbers.
  GgufBytes types;
  types.value<uint32_t>("general.alignment", 8);
  types.alignment = 8;
  for (uint32_t id = 0; id < 43; ++id) {
    const auto info = type_info(static_cast<TensorType>(id));
    if (!info) continue;
    types.tensor(fmt::format("t{}", id), static_cast<TensorType>(id), {info->values_per_block},
                 std::string(info->bytes_per_block, '\x2A'));
  }
  write("types", types);

  GgufBytes shapes;
  shapes.version = 2;
  shapes.text("general.architecture", "llama").floats("a", {3}, {1, 2, 3}).floats("b", {1, 2, 1, 2}, {1, 2, 3, 4});
  shapes.pad_last = false;
  write("shapes_v2", shapes);

  GgufBytes split;
  split.value<uint16_t>("split.no", 0).value<uint16_t>("split.count", 2).value<int32_t>("split.tensors.count", 1);
  write("split", split);
}

TEST(FuzzCorpus, IsSmallAndParses) {
  if (std::getenv("GALE_WRITE_CORPUS")) write_corpus();
  int accepted = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    EXPECT_LT(bytes.size(), 6000u) << entry.path();
    const auto contents = parse_gguf(test::bytes_of_text(bytes), "corpus");
    accepted += contents.ok();
  }
  EXPECT_GE(accepted, 5);
}

}  // namespace
}  // namespace gale::format
