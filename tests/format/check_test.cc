// The check of values: NaN and infinity in plain numbers, scales and made rows are found where they are.
#include "format/check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/scratch_folder.h"
#include "format/gguf_bytes.h"
#include "format/hugging_face_directory.h"

namespace gale::format {
namespace {

using test::GgufBytes;
using test::TinyDirectory;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

Checkpoint open(const std::string& path) {
  auto opened = Checkpoint::open(path);
  if (!opened.ok()) throw std::runtime_error(opened.error().message);
  return std::move(opened).value();
}

std::string texts(const CheckReport& report) {
  std::string out;
  for (const Finding& finding : report.findings) out += (finding.wrong ? "wrong: " : "note: ") + finding.text + "\n";
  return out;
}

CheckReport check(const Checkpoint& checkpoint) {
  return check_values(checkpoint, {}, nullptr);
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Check, FindsNothingInGoodFiles) {
  const ScratchFolder folder;
  TinyDirectory().write(folder);
  uint64_t last = 0, total = 0;
  const Checkpoint checkpoint = open(folder.path());
  const CheckReport report = check_values(
      checkpoint,
      [&](uint64_t done, uint64_t all) {
        EXPECT_GT(done, last);
        last = done, total = all;
      },
      nullptr);
  EXPECT_EQ(texts(report), "");
  EXPECT_EQ(report.tensors, checkpoint.tensors().size());
  EXPECT_EQ(last, total);
  EXPECT_EQ(report.bytes, total);
}

TEST(Check, CountsAndPlaces) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  GgufBytes()
      .text("general.architecture", "llama")
      .floats("a", {3, 2}, {0, 1, 2, kInfinity, kNan, -kInfinity})
      .floats("b", {2}, {1, 2})
      .tensor("scale", TensorType::q8_0, {32, 2},
              std::string(34, '\0') + std::string("\x00\x7C", 2) + std::string(32, '\1'))
      .tensor("unreadable", TensorType::iq1_s, {256}, std::string(50, '\0'))
      .write(path);
  const CheckReport report = check(open(path));
  EXPECT_EQ(report.count_wrong(), 2u);
  const std::string all = texts(report);
  EXPECT_CONTAINS(
      all, "wrong: tensor 'a': 1 of 6 values are NaN, 2 of 6 values are infinite; the first is value 0 of row 1");
  EXPECT_CONTAINS(all, "wrong: tensor 'scale': 32 of 64 values are infinite; the first is value 0 of row 1");
  EXPECT_CONTAINS(all, "note: tensor 'unreadable': values of type IQ1_S");
}

TEST(Check, LargeTensorsInChunksOfAnySize) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  std::vector<float> values(3 * 200'001, 1);  // rows that are no divisor of a chunk
  values[2 * 200'001 + 7] = kNan;
  GgufBytes().text("general.architecture", "llama").floats("a", {200'001, 3}, values).write(path);
  EXPECT_CONTAINS(texts(check(open(path))), "tensor 'a': 1 of 600003 values are NaN; the first is value 7 of row 2");
}

TEST(Check, SeesScalesOfDirectories) {
  const ScratchFolder folder;
  TinyDirectory model;
  const std::string gate = "model.layers.0.mlp.gate_proj.weight";
  model.tensor(gate, "F8_E4M3", {12, 8}, std::string(96, '\x38'));
  std::vector<float> scales(12, 1);
  scales[4] = kInfinity;
  model.tensor(gate + "_scale", "F32", {12, 1}, test::bytes_of_numbers(scales));
  model.tensor("model.norm.weight", "F8_E4M3", {8}, std::string(8, '\x7F'));
  model.write(folder);
  const std::string all = texts(check(open(folder.path())));
  EXPECT_CONTAINS(all, "tensor 'blk.0.ffn_gate.weight': 8 of 96 values are infinite; the first is value 0 of row 4");
  EXPECT_CONTAINS(all, "tensor 'output_norm.weight': 8 of 8 values are NaN");
}

TEST(Check, StopsWhenAsked) {
  const ScratchFolder folder;
  TinyDirectory().write(folder);
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(check_values(open(folder.path()), {}, &cancel).tensors, 0u);
}

}  // namespace
}  // namespace gale::format
