// The types that a mix gives to the tensors of a model; the expected ones are what llama.cpp chooses.
#include "format/quantisation_mix.h"

#include <gtest/gtest.h>

#include <map>

#include "format/encode.h"

namespace gale::format {
namespace {

struct Model {
  Metadata metadata;
  std::vector<TensorEntry> tensors;

  Model(std::string_view architecture, uint64_t blocks, uint64_t heads, uint64_t kv_heads, uint64_t experts = 0) {
    const auto set = [&](std::string_view key, uint64_t value) {
      metadata.set(fmt::format("{}.{}", architecture, key), value);
    };
    metadata.set("general.architecture", architecture);
    set("block_count", blocks);
    set("attention.head_count", heads);
    set("attention.head_count_kv", kv_heads);
    if (experts > 0) set("expert_count", experts);
  }

  Model& add(std::string name, std::array<uint64_t, 4> shape = {256, 256, 1, 1}, TensorType type = TensorType::f32) {
    tensors.push_back({std::move(name), type, shape, 4});
    return *this;
  }
  // The matrices of a dense model, the blocks in falling order to show that the file's order does not matter.
  Model& dense(uint64_t blocks, uint64_t row = 256) {
    add("token_embd.weight", {row, 300, 1, 1});
    for (uint64_t b = blocks; b-- > 0;) {
      for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
        add(fmt::format("blk.{}.{}.weight", b, part), {row, 256, 1, 1});
      }
      add(fmt::format("blk.{}.attn_norm.weight", b), {row, 1, 1, 1});
    }
    return *this;
  }

  std::map<std::string, TensorType> types(std::string_view mix) const {
    const auto chosen = choose_types(*find_quantisation_mix(mix), metadata, tensors);
    EXPECT_TRUE(chosen.ok()) << chosen.error().message;
    std::map<std::string, TensorType> out;
    for (size_t i = 0; i < tensors.size(); ++i) out[tensors[i].name] = (*chosen)[i];
    return out;
  }
  // The blocks whose tensor `part` has the type.
  std::vector<uint64_t> blocks_with(std::string_view mix, std::string_view part, TensorType type) const {
    const auto all = types(mix);
    std::vector<uint64_t> out;
    for (uint64_t b = 0; b < 100; ++b) {
      const auto at = all.find(fmt::format("blk.{}.{}.weight", b, part));
      if (at != all.end() && at->second == type) out.push_back(b);
    }
    return out;
  }
};

using Blocks = std::vector<uint64_t>;

TEST(QuantisationMix, NamesAreFoundAndEncodable) {
  for (const QuantisationMix& mix : quantisation_mixes()) {
    EXPECT_EQ(find_quantisation_mix(mix.name), &mix);
    EXPECT_TRUE(encodable(mix.type)) << mix.name;
  }
  EXPECT_EQ(find_quantisation_mix("Q4_K_M")->file_type, 15u);
  EXPECT_EQ(find_quantisation_mix("q2_k"), nullptr);
  EXPECT_EQ(find_quantisation_mix(""), nullptr);
  EXPECT_EQ(find_quantisation_mix("q4_k_"), nullptr);
}

TEST(QuantisationMix, MoreBitsForSomeBlocks) {
  const Model model = Model("llama", 16, 8, 4).dense(16).add("output.weight");
  const Blocks outer_and_thirds = {0, 1, 4, 7, 10, 13, 14, 15};
  for (const char* mix : {"q4_k_m", "q5_k_m"}) {
    EXPECT_EQ(model.blocks_with(mix, "attn_v", TensorType::q6_k), outer_and_thirds) << mix;
    EXPECT_EQ(model.blocks_with(mix, "ffn_down", TensorType::q6_k), outer_and_thirds) << mix;
    EXPECT_TRUE(model.blocks_with(mix, "attn_q", TensorType::q6_k).empty()) << mix;
  }
  EXPECT_EQ(model.blocks_with("q4_k_s", "attn_v", TensorType::q5_k), (Blocks{0, 1, 2, 3}));
  EXPECT_EQ(model.blocks_with("q4_k_s", "ffn_down", TensorType::q5_k), (Blocks{0, 1}));
  EXPECT_EQ(model.blocks_with("iq4_nl", "ffn_down", TensorType::q5_k), (Blocks{0, 1}));
  EXPECT_TRUE(model.blocks_with("iq4_nl", "attn_v", TensorType::q5_k).empty());
  EXPECT_EQ(Model("llama", 2, 8, 2).dense(2).blocks_with("iq4_nl", "attn_v", TensorType::q5_k), (Blocks{0, 1}));
  EXPECT_EQ(model.blocks_with("q5_k_s", "attn_v", TensorType::q5_k).size(), 16u);
}

TEST(QuantisationMix, OutputAndEmbedding) {
  const Model untied = Model("llama", 1, 1, 1).dense(1).add("output.weight"), tied = Model("llama", 1, 1, 1).dense(1);
  for (const char* mix : {"q4_k_m", "q4_k_s", "q5_k_m", "q6_k", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"}) {
    EXPECT_EQ(untied.types(mix)["output.weight"], TensorType::q6_k) << mix;
    EXPECT_EQ(untied.types(mix)["token_embd.weight"], find_quantisation_mix(mix)->type) << mix;
    EXPECT_EQ(tied.types(mix)["token_embd.weight"], TensorType::q6_k) << mix;
  }
  EXPECT_EQ(untied.types("q8_0")["output.weight"], TensorType::q8_0);
  EXPECT_EQ(untied.types("mxfp4")["output.weight"], TensorType::q8_0);
  for (const char* mix : {"q4_k", "q5_k", "f16", "bf16", "f32"}) {
    for (const auto& [name, type] : untied.types(mix)) {
      EXPECT_EQ(type, name.ends_with("norm.weight") ? TensorType::f32 : find_quantisation_mix(mix)->type) << mix;
    }
  }
}

TEST(QuantisationMix, RowsThatAreNoMultipleOfTheBlock) {
  Model model =
      Model("llama", 8, 1, 1).dense(8, 96).add("output.weight", {96, 5, 1, 1}).add("odd.weight", {16, 4, 1, 1});
  EXPECT_EQ(model.types("q4_k_m")["blk.1.attn_q.weight"], TensorType::q5_0);
  EXPECT_EQ(model.types("q4_k_m")["blk.0.attn_v.weight"], TensorType::q8_0);
  EXPECT_EQ(model.types("q5_k_m")["blk.1.attn_q.weight"], TensorType::q5_1);
  EXPECT_EQ(model.types("q6_k")["blk.1.attn_q.weight"], TensorType::q8_0);
  EXPECT_EQ(model.types("q4_0")["blk.1.attn_q.weight"], TensorType::q4_0);
  EXPECT_EQ(model.types("iq4_nl")["blk.0.ffn_down.weight"], TensorType::q5_1);
  for (const char* mix : {"q4_k_m", "q4_0", "q8_0", "mxfp4"}) {
    EXPECT_EQ(model.types(mix)["output.weight"], TensorType::q8_0) << mix;
    EXPECT_EQ(model.types(mix)["odd.weight"], TensorType::f16) << mix;
  }
}

TEST(QuantisationMix, EightExperts) {
  const auto model = [](uint64_t experts) {
    return Model("qwen3moe", 1, 8, 2, experts)
        .dense(1)
        .add("output.weight")
        .add("blk.0.ffn_gate_exps.weight", {256, 256, experts, 1})
        .add("blk.0.ffn_gate_inp.weight", {256, experts, 1, 1});
  };
  auto types = model(8).types("q4_k_m");
  EXPECT_EQ(types["blk.0.attn_k.weight"], TensorType::q8_0);
  EXPECT_EQ(types["blk.0.attn_v.weight"], TensorType::q8_0);
  EXPECT_EQ(types["blk.0.attn_output.weight"], TensorType::q5_k);
  EXPECT_EQ(types["blk.0.attn_q.weight"], TensorType::q4_k);
  EXPECT_EQ(types["blk.0.ffn_gate_inp.weight"], TensorType::f32);
  EXPECT_EQ(model(8).types("q6_k")["blk.0.attn_output.weight"], TensorType::q6_k);
  EXPECT_EQ(model(10).types("q4_k_m")["blk.0.attn_k.weight"], TensorType::q4_k);
  types = model(10).types("mxfp4");
  EXPECT_EQ(types["blk.0.ffn_gate_exps.weight"], TensorType::mxfp4);
  EXPECT_EQ(types["blk.0.ffn_gate.weight"], TensorType::q8_0);
}

TEST(QuantisationMix, ExpertsAreCountedByBlock) {
  Model model("qwen35moe", 9, 8, 2, 6);
  for (int b = 0; b < 9; ++b) {
    model.add(fmt::format("blk.{}.ffn_down_exps.weight", b)).add(fmt::format("blk.{}.ffn_down_shexp.weight", b));
    model.add(fmt::format("blk.{}.{}.weight", b, b % 4 == 3 ? "attn_v" : "attn_qkv"));
  }
  for (const char* part : {"ffn_down_exps", "ffn_down_shexp"}) {
    EXPECT_EQ(model.blocks_with("q4_k_m", part, TensorType::q6_k), (Blocks{0, 3, 6, 7, 8})) << part;
  }
  EXPECT_EQ(model.blocks_with("q4_k_m", "attn_qkv", TensorType::q6_k), (Blocks{0, 6, 8}));
  EXPECT_EQ(model.blocks_with("q4_k_m", "attn_v", TensorType::q6_k), (Blocks{3, 7}));
}

TEST(QuantisationMix, EightyBlocksWithSharedHeads) {
  EXPECT_EQ(Model("llama", 80, 8, 2).dense(80).blocks_with("q4_k_m", "attn_v", TensorType::q4_k).size(), 0u);
  EXPECT_EQ(Model("llama", 80, 8, 2).dense(80).blocks_with("q4_k_s", "attn_v", TensorType::q5_k).size(), 80u);
  EXPECT_EQ(Model("llama", 80, 8, 8).dense(80).blocks_with("q4_k_s", "attn_v", TensorType::q5_k).size(), 4u);
  EXPECT_EQ(Model("gemma3", 80, 8, 2).dense(80).blocks_with("q4_k_s", "attn_v", TensorType::q5_k).size(), 4u);
}

TEST(QuantisationMix, WhatStaysAsItIs) {
  Model model("llama", 1, 1, 1);
  for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ssm_conv1d.weight", "blk.0.altup_x.weight", "blk.0.x.bias",
                           "position_embd.weight", "token_types.weight", "blk.0.time_mix_w1.weight", "rope_freqs"}) {
    model.add(name);
  }
  model.add("blk.0.attn_sinks.weight", {64, 1, 1, 1}).add("half", {64, 1, 1, 1}, TensorType::f16);
  for (const auto& [name, type] : model.types("q4_0")) EXPECT_EQ(type, TensorType::f32) << name;
  Model others("llama", 1, 1, 1);
  others.add("ids.weight", {64, 2, 1, 1}, TensorType::i32)
      .add("blk.0.ffn_gate_inp.weight", {64, 2, 1, 1}, TensorType::q8_0);
  EXPECT_EQ(others.types("q4_0")["ids.weight"], TensorType::i32);
  EXPECT_EQ(others.types("q4_0")["blk.0.ffn_gate_inp.weight"], TensorType::q8_0);
}

TEST(QuantisationMix, WrongSettingsAreNamed) {
  Model model("llama", 1, 1, 1);
  model.metadata.set("llama.block_count", std::string_view("two"));
  const auto chosen = choose_types(*find_quantisation_mix("q4_k_m"), model.metadata, model.tensors);
  ASSERT_FALSE(chosen.ok());
  EXPECT_NE(chosen.error().message.find("llama.block_count"), std::string::npos);
}

}  // namespace
}  // namespace gale::format
