// Programs of both families: golden prints, bytes by hand, drawings, and errors about tensors.
#include "model/program.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/tiny_model.h"

namespace gale::model {
namespace {

using format::TensorType;
using test::contains;
using test::TinyModel;

struct Built {
  format::Checkpoint checkpoint;
  Program program;
};

// On the heap, so that the program's weights stay where they are.
std::unique_ptr<Built> build(const TinyModel& model) {
  auto out = std::make_unique<Built>(Built{model.open(), {}});
  const auto hparams = read_hparams(out->checkpoint);
  if (!hparams.ok()) throw std::runtime_error(hparams.error().message);
  auto program = build_program(out->checkpoint, *hparams);
  if (!program.ok()) throw std::runtime_error(program.error().message);
  out->program = std::move(program).value();
  return out;
}

std::string error_of(const TinyModel& model, ErrorKind kind) {
  const format::Checkpoint checkpoint = model.open();
  const auto hparams = read_hparams(checkpoint);
  if (!hparams.ok()) return "settings: " + hparams.error().message;
  const auto program = build_program(checkpoint, *hparams);
  if (program.ok()) return "no error";
  EXPECT_EQ(static_cast<int>(program.error().kind), static_cast<int>(kind)) << program.error().message;
  return program.error().message;
}

// What a program of tests/model/golden must look like; after an intended change the file is edited by hand.
std::string golden(const std::string& name) {
  std::ifstream in(std::string(GALE_TEST_DIR) + "/model/golden/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Program, GoldenPrintOfLlama) {
  TinyModel model("llama");
  model.tensor("blk.1.attn_v.weight", {8, 4}, TensorType::f16).tensor("rope_freqs.weight", {2});
  EXPECT_EQ(print(build(model)->program), golden("llama.txt"));
}

TEST(Program, GoldenPrintOfGemma3) {
  TinyModel model("gemma3");
  model.set("rope.scaling.factor", 8.0f).set("final_logit_softcapping", 30.0f).set("attn_logit_softcapping", 50.0f);
  EXPECT_EQ(print(build(model)->program), golden("gemma3.txt"));
}

TEST(Program, HeadIsTiedWhenThereIsNoOutput) {
  const auto head = [](const TinyModel& model) {
    const auto built = build(model);
    return std::get<MatrixStep>(built->program.steps.back()).groups[0].weight->name;
  };
  for (const char* architecture : {"llama", "gemma3"}) {
    EXPECT_EQ(head(TinyModel(architecture).without_tensor("output.weight")), "token_embd.weight");
    EXPECT_EQ(head(TinyModel(architecture).tensor("output.weight", {8, 10})), "output.weight");
  }
}

TEST(Program, VaryingWidthsGetBuffersOfTheirOwn) {
  TinyModel model("llama");
  model.array<uint32_t>("feed_forward_length", {12, 20})
      .array<uint32_t>("attention.head_count", {2, 4})
      .set("attention.key_length", 4u)
      .set("attention.value_length", 2u);
  for (const char* name : {"ffn_gate", "ffn_up"}) model.tensor(std::string("blk.1.") + name + ".weight", {8, 20});
  model.tensor("blk.1.ffn_down.weight", {20, 8}).tensor("blk.1.attn_q.weight", {8, 16});
  model.tensor("blk.0.attn_v.weight", {8, 2}).tensor("blk.1.attn_v.weight", {8, 2});
  model.tensor("blk.0.attn_output.weight", {4, 8}).tensor("blk.1.attn_output.weight", {8, 8});
  const auto built = build(model);
  std::vector<std::string> names;
  for (const Buffer& buffer : built->program.buffers) names.push_back(buffer.name + ":" + std::to_string(buffer.width));
  EXPECT_EQ(names,
            (std::vector<std::string>{"x:8", "q:8", "k:4", "v:2", "a:4", "g:12", "q.16:16", "a.8:8", "g.20:20"}));
}

TEST(Program, MissingTensorsAreNamed) {
  for (const char* architecture : {"llama", "gemma3"}) {
    std::vector<std::string> names{"output_norm.weight"};
    for (const char* name :
         {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"})
      names.push_back(std::string("blk.1.") + name + ".weight");
    if (std::string(architecture) == "gemma3")
      for (const char* name : {"attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"})
        names.push_back(std::string("blk.1.") + name + ".weight");
    for (const std::string& name : names)
      EXPECT_TRUE(contains(error_of(TinyModel(architecture).without_tensor(name), ErrorKind::not_found),
                           "'" + name + "' is missing"));
  }
  // More blocks than the file has.
  EXPECT_TRUE(
      contains(error_of(TinyModel("llama").set("block_count", 3u), ErrorKind::not_found), "blk.2.attn_norm.weight"));
}

TEST(Program, WrongShapesAreToldWithBothShapes) {
  const auto wrong = [](const char* architecture, const char* name, std::vector<uint64_t> shape, const char* part) {
    EXPECT_TRUE(contains(error_of(TinyModel(architecture).tensor(name, std::move(shape)), ErrorKind::invalid_input),
                         std::string("'") + name + "' has the shape " + part));
  };
  wrong("llama", "token_embd.weight", {6, 10}, "6 x 10; expected 8 x 10");
  wrong("llama", "output.weight", {8, 11}, "8 x 11; expected 8 x 10");
  wrong("llama", "output_norm.weight", {9}, "9; expected 8");
  wrong("llama", "rope_freqs.weight", {3}, "3; expected 2");
  wrong("llama", "blk.0.attn_q.weight", {8, 12}, "8 x 12; expected 8 x 8");
  wrong("llama", "blk.1.attn_k.weight", {4, 8}, "4 x 8; expected 8 x 4");
  wrong("llama", "blk.1.attn_v.weight", {8, 8}, "8 x 8; expected 8 x 4");
  wrong("llama", "blk.0.attn_output.weight", {8, 4, 2}, "8 x 4 x 2; expected 8 x 8");
  wrong("llama", "blk.0.attn_norm.weight", {4, 2}, "4 x 2; expected 8");
  wrong("llama", "blk.0.ffn_gate.weight", {12, 8}, "12 x 8; expected 8 x 12");
  wrong("llama", "blk.0.ffn_up.weight", {8, 13}, "8 x 13; expected 8 x 12");
  wrong("llama", "blk.0.ffn_down.weight", {8, 12}, "8 x 12; expected 12 x 8");
  wrong("gemma3", "blk.0.attn_q_norm.weight", {8}, "8; expected 4");
  wrong("gemma3", "blk.1.post_ffw_norm.weight", {4}, "4; expected 8");
}

TEST(Program, WrongTypesAreNamed) {
  EXPECT_TRUE(contains(
      error_of(TinyModel("llama").tensor("blk.0.attn_q.weight", {8, 8}, TensorType::i32), ErrorKind::unsupported),
      "'blk.0.attn_q.weight' has the type I32"));
  EXPECT_TRUE(contains(
      error_of(TinyModel("llama").tensor("blk.0.attn_norm.weight", {8}, TensorType::i16), ErrorKind::unsupported),
      "'blk.0.attn_norm.weight' has the type I16"));
}

TEST(Program, TensorsThatWouldBeIgnoredAreRefused) {
  for (const char* architecture : {"llama", "gemma3"})
    for (const char* name :
         {"blk.1.attn_q.bias", "blk.0.attn_output.bias", "blk.0.ffn_down.bias", "blk.0.attn_norm.bias",
          "output_norm.bias", "blk.1.attn_k.scale", "blk.1.ffn_up.input_scale"})
      EXPECT_TRUE(contains(error_of(TinyModel(architecture).tensor(name, {8}), ErrorKind::unsupported),
                           std::string("'") + name + "'"));
  for (const char* architecture : {"llama", "gemma3"})
    EXPECT_TRUE(
        contains(error_of(TinyModel(architecture).tensor("blk.0.attn_qkv.weight", {8, 16}), ErrorKind::unsupported),
                 "attn_qkv"));
  EXPECT_TRUE(contains(error_of(TinyModel("llama").tensor("blk.1.ffn_gate_inp.weight", {8, 4}), ErrorKind::unsupported),
                       "ffn_gate_inp"));
}

TEST(Program, UnusedTensors) {
  TinyModel model("llama");
  model.tensor("blk.0.attn_rot_embd.weight", {4}).tensor("vision.patch", {8, 2});
  const auto built = build(model);
  EXPECT_EQ(unused_tensors(built->checkpoint, built->program),
            (std::vector<std::string>{"blk.0.attn_rot_embd.weight", "vision.patch"}));
}

TEST(Program, WeightBytesByHand) {
  // A block: norms 2 x 8, q 8 x 8, k and v 8 x 4, output 8 x 8, gate, up and down 8 x 12.
  const uint64_t block = 4 * (2 * 8 + 8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 12);
  const uint64_t row = 4 * 8, head = 4 * 8 * 10, norm = 4 * 8;
  EXPECT_EQ(weight_bytes(build(TinyModel("llama"))->program), row + 2 * block + norm + head);
  // Tied: the matrix is read once, and the row is part of it.
  const auto tied = build(TinyModel("llama").without_tensor("output.weight"));
  EXPECT_EQ(weight_bytes(tied->program), 2 * block + norm + head);
  // Gemma adds norms of q and k [4] and two post-norms [8] to a block.
  EXPECT_EQ(weight_bytes(build(TinyModel("gemma3"))->program), 2 * (block + 4 * (2 * 4 + 2 * 8)) + norm + head);
  // Divisors are used by each block and count once.
  EXPECT_EQ(weight_bytes(build(TinyModel("llama").tensor("rope_freqs.weight", {2}))->program),
            row + 2 * block + norm + head + 4 * 2);

  const std::vector<Step>& steps = tied->program.steps;
  EXPECT_EQ(weight_bytes(steps[0]), row);
  EXPECT_EQ(weight_bytes(steps[1]), 4u * (8 + 8 * 8 + 2 * 8 * 4));
  EXPECT_EQ(weight_bytes(steps[2]), 0u);
  EXPECT_EQ(weight_bytes(steps[5]), 4u * 8 * 12);
  EXPECT_EQ(weight_bytes(steps.back()), norm + head);
  // A quantised row: 34 bytes for 32 values.
  TinyModel quantised("llama");
  quantised.tensor("token_embd.weight", {64, 10}, TensorType::q8_0);
  const format::Checkpoint checkpoint = quantised.open();
  EXPECT_EQ(weight_bytes(Step(EmbedStep{.weight = checkpoint.find("token_embd.weight")})), 68u);
}

TEST(Program, CacheBytesByHand) {
  // Two caches of 1 head with 4 + 4 elements a position; gemma's first keeps a window of 16.
  const auto llama = build(TinyModel("llama")), gemma = build(TinyModel("gemma3"));
  EXPECT_EQ(cache_bytes(llama->program, 0, 2), 2u * 1 * 8 * 2);
  EXPECT_EQ(cache_bytes(llama->program, 99, 4), 2u * 100 * 8 * 4);
  EXPECT_EQ(cache_bytes(gemma->program, 14, 2), (15u + 15) * 8 * 2);
  EXPECT_EQ(cache_bytes(gemma->program, 15, 2), (16u + 16) * 8 * 2);
  EXPECT_EQ(cache_bytes(gemma->program, 16, 2), (16u + 17) * 8 * 2);
  EXPECT_EQ(cache_bytes(gemma->program, 99, 34.0 / 32), (16u + 100) * 8 * 34 / 32);
}

TEST(Program, DrawingHasEveryStepAndItsSources) {
  const auto built = build(TinyModel("gemma3"));
  const std::string dot = to_dot(built->program);
  EXPECT_TRUE(contains(dot, "digraph \"gemma3\" {"));
  EXPECT_TRUE(contains(dot, "s0 [label=\"0 embed\\ntoken_embd.weight F32\\n32 B\"]"));
  EXPECT_TRUE(contains(dot, "s0 -> s1 [label=\"x [8]\"]"));
  EXPECT_TRUE(contains(dot, "s1 -> s2 [label=\"q [8]\"]"));
  EXPECT_TRUE(contains(dot, "s0 -> s4 [label=\"x [8]\"]"));  // the residual
  EXPECT_TRUE(contains(dot, "s3 -> s4 [label=\"o [8]\"]"));
  EXPECT_TRUE(contains(dot, "s11 [label=\"11 matrix"));
  EXPECT_EQ(dot.substr(dot.size() - 2), "}\n");
}

TEST(Program, ArchitectureMustBeKnown) {
  const format::Checkpoint checkpoint = TinyModel("llama").open();
  Hparams hparams;
  hparams.architecture = "mamba";
  const auto program = build_program(checkpoint, hparams);
  ASSERT_FALSE(program.ok());
  EXPECT_TRUE(contains(program.error().message, "llama, gemma3"));
}

}  // namespace
}  // namespace gale::model
