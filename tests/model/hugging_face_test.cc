// Directories of families that have no builder yet, and of wrong ones: what users are told.
#include <gtest/gtest.h>

#include "exec/oracle_model.h"
#include "format/hugging_face_directory.h"
#include "model/program.h"

namespace gale::model {
namespace {

using test::OracleOptions;
using test::TinyDirectory;

// The error of building the program of a directory, "" if it can be built.
std::string error_of(const std::string& path) {
  const auto checkpoint = format::Checkpoint::open(path);
  if (!checkpoint.ok()) return "not opened: " + checkpoint.error().message;
  const auto hparams = read_hparams(*checkpoint);
  if (!hparams.ok()) return hparams.error().message;
  const auto program = build_program(*checkpoint, *hparams);
  return program.ok() ? "" : program.error().message;
}

std::string error_of(const TinyDirectory& model) {
  const ScratchFolder folder;
  model.write(folder);
  return error_of(folder.path());
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class OtherFamilies : public testing::TestWithParam<OracleOptions> {};

TEST_P(OtherFamilies, OpenAndAreRefusedByName) {
  if (const auto why = test::oracle_missing(); !why.empty()) GTEST_SKIP() << why;
  const auto model = test::make_oracle_model(GetParam());
  const std::string message = error_of(model.directory);
  EXPECT_CONTAINS(message, "architecture '" + GetParam().arch + "' is not supported");
  EXPECT_CONTAINS(message, model.directory);
}

INSTANTIATE_TEST_SUITE_P(All, OtherFamilies,
                         testing::Values(OracleOptions{.arch = "qwen3", .greedy = 0, .hf = "fp8"},
                                         OracleOptions{.arch = "qwen3moe", .greedy = 0, .hf = "fp8"},
                                         OracleOptions{.arch = "gemma4", .variant = "dense", .greedy = 0, .hf = "bf16"},
                                         OracleOptions{.arch = "qwen35", .greedy = 0, .hf = "nvfp4"},
                                         OracleOptions{.arch = "qwen35moe", .greedy = 0, .hf = "f32"},
                                         OracleOptions{.arch = "deepseek2", .greedy = 0, .hf = "fp8"},
                                         OracleOptions{.arch = "gpt-oss", .greedy = 0, .hf = "mxfp4"}),
                         [](const auto& info) { return test::test_name(info.param); });

TEST(TinyDirectoryTest, Builds) {
  EXPECT_EQ(error_of(TinyDirectory()), "");
}

TEST(TinyDirectoryTest, MissingTensorsAreNamed) {
  EXPECT_CONTAINS(error_of(TinyDirectory().without("model.layers.0.self_attn.q_proj.weight")),
                  "tensor 'blk.0.attn_q.weight' is missing");
  EXPECT_CONTAINS(error_of(TinyDirectory().without("model.norm.weight")), "tensor 'output_norm.weight' is missing");
  EXPECT_CONTAINS(error_of(TinyDirectory().without("model.embed_tokens.weight")), "'token_embd.weight' is missing");
}

TEST(TinyDirectoryTest, ATiedHeadIsUsedWhereItIsThere) {
  TinyDirectory model;
  model.config["tie_word_embeddings"] = true;
  model.floats("lm_head.weight", {10, 8});
  const ScratchFolder folder;
  model.write(folder);
  const auto checkpoint = format::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto hparams = read_hparams(*checkpoint);
  ASSERT_TRUE(hparams.ok()) << hparams.error().message;
  const auto program = build_program(*checkpoint, *hparams);
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_TRUE(unused_tensors(*checkpoint, *program).empty());
}

TEST(TinyDirectoryTest, WhatWouldBeIgnoredIsRefused) {
  EXPECT_CONTAINS(error_of(TinyDirectory().floats("model.layers.0.self_attn.q_proj.bias", {8})),
                  "tensor 'blk.0.attn_q.bias' is not supported");
  TinyDirectory yarn;
  yarn.config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}};
  EXPECT_CONTAINS(error_of(yarn), "config.json: metadata key 'llama.rope.scaling.type' = 'yarn' is not supported");
  TinyDirectory wide;
  wide.config["num_hidden_layers"] = 2;
  EXPECT_CONTAINS(error_of(wide), "tensor 'blk.1.attn_norm.weight' is missing");
  wide.config["head_dim"] = 4;
  wide.config["hidden_size"] = 16;
  EXPECT_CONTAINS(error_of(wide), "has the shape");
}

}  // namespace
}  // namespace gale::model
