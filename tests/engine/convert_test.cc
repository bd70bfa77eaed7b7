// Conversion of whole files: same bytes for any number of threads, copies, refusals, and nothing left behind.
#include "engine/convert.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "base/scratch_folder.h"
#include "format/checkpoint.h"
#include "format/gguf_bytes.h"

namespace gale::engine {
namespace {

namespace fs = std::filesystem;
using format::TensorType;
using test::GgufBytes;

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(count);
  for (float& v : out) v = (static_cast<float>(random() >> 8) / (1 << 23) - 1) * 0.1f;
  return out;
}

// A model with matrices that span several pieces, and things that a conversion must keep.
GgufBytes model() {
  GgufBytes out;
  out.text("general.architecture", "llama").value<uint32_t>("llama.block_count", 2).value<uint16_t>("odd.u16", 7);
  out.value<uint32_t>("general.file_type", 0).texts("tokenizer.ggml.tokens", {"a", "b"});
  out.floats("token_embd.weight", {256, 1500}, random_values(256 * 1500, 1));
  out.floats("blk.0.attn_norm.weight", {256}, random_values(256, 2));
  out.floats("blk.0.ffn_down.weight", {512, 700}, random_values(512 * 700, 3));
  out.floats("blk.1.attn_q.weight", {96, 3}, random_values(96 * 3, 4));
  out.floats("blk.2.nextn.eh_proj.weight", {512, 3}, random_values(512 * 3, 5));
  out.tensor("unknown.ids", TensorType::i32, {3}, "123456789012");
  return out;
}

class Convert : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  static ConvertOptions options(std::string_view mix, int threads = 2) {
    ConvertOptions out;
    out.mix = format::find_quantisation_mix(mix);
    out.threads = threads;
    return out;
  }
  std::string bytes(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  std::string error(const std::string& source, const std::string& out, const ConvertOptions& options) const {
    const auto result = convert(path(source), path(out), options);
    return result.ok() ? std::string() : result.error().message;
  }
  void expect(const std::string& message, std::string_view part) const {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "' says nothing of " << part;
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  ScratchFolder folder_;
};

TEST_F(Convert, SameBytesForAnyThreadsAndInstructionSet) {
  model().write(path("m.gguf"));
  for (const format::QuantisationMix& mix : format::quantisation_mixes()) {
    std::string first;
    for (int threads = 1; threads <= 4; ++threads) {
      ConvertOptions wanted = options(mix.name, threads);
      if (threads == 2) wanted.isa = Isa::scalar;
      const auto result = convert(path("m.gguf"), path("out.gguf"), wanted);
      ASSERT_TRUE(result.ok()) << result.error().message;
      const std::string now = bytes("out.gguf");
      EXPECT_EQ(result->bytes, now.size());
      if (threads == 1) first = now;
      EXPECT_TRUE(now == first) << mix.name << " with " << threads << " threads";
    }
  }
}

TEST_F(Convert, KeepsKeysTensorsAndTheirOrder) {
  model().write(path("m.gguf"));
  const auto result = convert(path("m.gguf"), path("out.gguf"), options("q4_k_m"));
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->tensors, 6u);
  EXPECT_EQ(result->encoded, 4u);
  const auto before = format::Checkpoint::open(path("m.gguf")), after = format::Checkpoint::open(path("out.gguf"));
  ASSERT_TRUE(after.ok()) << after.error().message;
  std::vector<std::string> keys = before->metadata().keys();
  keys.push_back("general.quantization_version");
  EXPECT_EQ(after->metadata().keys(), keys);
  EXPECT_EQ(after->metadata().stored_type("odd.u16"), format::ValueType::u16);
  EXPECT_EQ(**after->metadata().unsigned_integer("general.file_type"), 15u);
  EXPECT_EQ(**after->metadata().unsigned_integer("general.quantization_version"), 2u);
  const TensorType types[] = {TensorType::q6_k, TensorType::f32,  TensorType::q4_k,
                              TensorType::q5_0, TensorType::q4_k, TensorType::i32};
  for (size_t i = 0; i < std::size(types); ++i) {
    const format::Tensor &a = before->tensors()[i], &b = after->tensors()[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.shape, b.shape);
    EXPECT_EQ(a.dimensions, b.dimensions);
    EXPECT_EQ(b.type, types[i]) << b.name;
    if (a.type == b.type) {
      EXPECT_TRUE(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end())) << b.name;
      continue;
    }
    std::vector<float> x(a.values()), y(b.values());
    ASSERT_TRUE(format::decode(a.type, a.bytes, x).ok());
    ASSERT_TRUE(format::decode(b.type, b.bytes, y).ok());
    double error = 0, size = 0;
    for (size_t v = 0; v < x.size(); ++v) {
      error += (x[v] - y[v]) * (x[v] - y[v]);
      size += x[v] * x[v];
    }
    EXPECT_LT(error, 0.01 * size) << b.name;  // each value at its place
  }
}

TEST_F(Convert, QuantisedSources) {
  model().write(path("m.gguf"));
  ASSERT_EQ(error("m.gguf", "q.gguf", options("q4_k_m")), "");
  // The same types again: copied bit for bit, no permission needed.
  const auto again = convert(path("q.gguf"), path("q2.gguf"), options("q4_k_m"));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->encoded, 0u);
  EXPECT_TRUE(bytes("q2.gguf") == bytes("q.gguf"));
  const std::string refused = error("q.gguf", "x.gguf", options("q8_0"));
  expect(refused, "--requantize");
  expect(refused, "token_embd.weight");
  expect(refused, "q.gguf");
  EXPECT_FALSE(fs::exists(path("x.gguf")));
  ConvertOptions allowed = options("f32");
  allowed.requantise = true;
  ASSERT_EQ(error("q.gguf", "x.gguf", allowed), "");
  EXPECT_EQ(files(), 4u);
}

TEST_F(Convert, SplitSourcesBecomeOneFile) {
  for (uint16_t part = 0; part < 2; ++part) {
    GgufBytes file;
    if (part == 0) file.text("general.architecture", "llama");
    file.value<uint16_t>("split.no", part).value<uint16_t>("split.count", 2).value<int32_t>("split.tensors.count", 2);
    file.floats(fmt::format("blk.{}.ffn_up.weight", part), {64, 2}, random_values(128, part));
    file.write(path(fmt::format("m-0000{}-of-00002.gguf", part + 1)));
  }
  ASSERT_EQ(error("m-00002-of-00002.gguf", "out.gguf", options("q8_0")), "");
  const auto out = format::Checkpoint::open(path("out.gguf"));
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->tensors().size(), 2u);
  EXPECT_EQ(out->metadata().find("split.count"), nullptr);
  EXPECT_EQ(out->metadata().find("split.no"), nullptr);
  EXPECT_EQ(out->metadata().find("split.tensors.count"), nullptr);
  expect(error("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", options("q8_0")), "the source itself");
}

TEST_F(Convert, TheSourceIsNeverOverwritten) {
  model().write(path("m.gguf"));
  const std::string before = bytes("m.gguf");
  fs::create_symlink(path("m.gguf"), path("soft.gguf"));
  fs::create_hard_link(path("m.gguf"), path("hard.gguf"));
  for (const char* out : {"m.gguf", "soft.gguf", "hard.gguf", "./m.gguf"}) {
    expect(error("m.gguf", out, options("q8_0")), "the source itself");
    expect(error("soft.gguf", out, options("q8_0")), "the source itself");
  }
  EXPECT_TRUE(bytes("m.gguf") == before);
  EXPECT_EQ(files(), 3u);
}

TEST_F(Convert, ValuesThatAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e30f}) {
    auto values = random_values(64 * 5000, 1);
    values[64 * 4321 + 17] = bad;
    values[64 * 4900] = bad;
    GgufBytes().floats("x.weight", {64, 5000}, values).write(path("m.gguf"));
    for (const char* mix : {"q8_0", "q4_0", "f16"}) {
      const std::string message = error("m.gguf", "out.gguf", options(mix, 3));
      expect(message, "'x.weight': row 4321, column 17");
      expect(message, "m.gguf");
      EXPECT_EQ(files(), 1u);
    }
  }
}

TEST_F(Convert, RefusedTypesAndFiles) {
  GgufBytes().tensor("x.weight", TensorType::iq2_xxs, {256, 2}, std::string(132, '\1')).write(path("iq.gguf"));
  ConvertOptions wanted = options("q8_0");
  wanted.requantise = true;
  expect(error("iq.gguf", "out.gguf", wanted), "IQ2_XXS");
  GgufBytes nvfp4;
  nvfp4.tensor("x.weight", TensorType::nvfp4, {64, 2}, std::string(72, '\1')).floats("x.scale", {1}, {2});
  nvfp4.write(path("nv.gguf"));
  expect(error("nv.gguf", "out.gguf", wanted), "x.scale");
  expect(error("none.gguf", "out.gguf", wanted), "none.gguf");
  GgufBytes().floats("x.weight", {64, 2}, random_values(128, 1)).write(path("m.gguf"));
  expect(error("m.gguf", "no/such/out.gguf", wanted), "no/such/out.gguf");
  expect(error("m.gguf", ".", wanted), "directory");
  EXPECT_EQ(files(), 3u);
}

TEST_F(Convert, CancelLeavesNothingBehind) {
  model().write(path("m.gguf"));
  std::atomic<bool> cancel{true};
  ConvertOptions wanted = options("q4_k_m", 1);
  wanted.cancel = &cancel;
  const auto early = convert(path("m.gguf"), path("out.gguf"), wanted);
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().kind, ErrorKind::cancelled);
  cancel = false;
  uint64_t seen = 0;
  wanted.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, seen);
    EXPECT_LT(done, total);
    seen = done;
    cancel = true;
  };
  const auto late = convert(path("m.gguf"), path("out.gguf"), wanted);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::cancelled);
  EXPECT_GT(seen, 0u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(Convert, ProgressEndsWithEverything) {
  model().write(path("m.gguf"));
  uint64_t last = 0, all = 0;
  ConvertOptions wanted = options("q8_0", 1);
  wanted.progress = [&](uint64_t done, uint64_t total) {
    last = done;
    all = total;
  };
  ASSERT_EQ(error("m.gguf", "out.gguf", wanted), "");
  EXPECT_EQ(last, all);
  EXPECT_EQ(all, (256u * 1500 + 256 + 512 * 700 + 96 * 3 + 512 * 3 + 3) * 4);
}

}  // namespace
}  // namespace gale::engine
