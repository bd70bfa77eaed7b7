// Every form in which directories store weights, and every way in which the parts of a quantised one may not fit.
#include <cmath>
#include <functional>

#include "base/log.h"
#include "format/hugging_face_fixture.h"

namespace gale::format {
namespace {

using HuggingFaceWeights = HuggingFaceTest;

const std::string kQ = "model.layers.0.mlp.gate_proj.weight";  // [12, 8]

TEST_F(HuggingFaceWeights, NumbersThatGgufHasNot) {
  TinyDirectory model;
  std::vector<double> doubles(96);
  for (size_t i = 0; i < 96; ++i) doubles[i] = static_cast<double>(i) * (1 + 1e-12);
  model.tensor(kQ, "F64", {12, 8}, bytes_of_numbers(doubles));
  model.tensor("model.layers.0.mlp.up_proj.weight", "I8", {12, 8}, std::string(96, '\xFE'));
  model.tensor("ids", "I64", {2}, bytes_of_numbers<int64_t>({5, 6}));
  model.tensor("mask", "BOOL", {3}, std::string("\0\1\1", 3));
  model.tensor("big", "U8", {2}, std::string("\xFF\x01", 2));
  model.tensor("nothing", "F32", {0, 4}, "");
  model.tensor("number", "BF16", {}, bytes_of_numbers(bf16({3})));
  const Checkpoint checkpoint = open(model);
  EXPECT_EQ(checkpoint.find("blk.0.ffn_gate.weight")->type, TensorType::f32);
  EXPECT_EQ(values_of(checkpoint, "blk.0.ffn_gate.weight"), counting(96));
  EXPECT_EQ(values_of(checkpoint, "blk.0.ffn_up.weight"), std::vector<float>(96, -2));
  EXPECT_EQ(checkpoint.find("ids")->type, TensorType::i64);
  EXPECT_EQ(values_of(checkpoint, "mask"), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(values_of(checkpoint, "big"), (std::vector<float>{255, 1}));
  EXPECT_EQ(values_of(checkpoint, "number"), (std::vector<float>{3}));
  EXPECT_EQ(checkpoint.find("nothing"), nullptr);
}

TEST_F(HuggingFaceWeights, BiasesOfRotaryHeadsMoveWithTheirRows) {
  TinyDirectory model;
  model.floats("model.layers.0.self_attn.q_proj.bias", {8});
  const Checkpoint checkpoint = open(model);
  EXPECT_EQ(values_of(checkpoint, "blk.0.attn_q.bias"), (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST_F(HuggingFaceWeights, Fp8WithEveryKindOfScale) {
  const std::string codes(96, '\x38');  // 1.0
  const auto values = [&](const std::string& name, const std::vector<uint64_t>& shape, const std::string& scales) {
    TinyDirectory model;
    model.config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {8, 3}}};
    model.tensor(kQ, "F8_E4M3", {12, 8}, codes);
    model.tensor(kQ + name, "BF16", shape, scales);
    model.tensor("model.layers.0.mlp.gate_proj.input_scale", "F32", {}, bytes_of_numbers<float>({3}));
    const Checkpoint checkpoint = open(model);
    EXPECT_EQ(checkpoint.tensors().size(), 11u) << "scales are no tensors of their own";
    return values_of(checkpoint, "blk.0.ffn_gate.weight");
  };
  // Blocks of 8 x 3, ragged at both ends.
  const auto blocks = values("_scale_inv", {2, 3}, bytes_of_numbers(bf16({1, 2, 4, 8, 16, 32})));
  for (size_t row = 0; row < 12; ++row)
    for (size_t column = 0; column < 8; ++column)
      ASSERT_EQ(blocks[row * 8 + column], std::exp2(static_cast<float>(row / 8 * 3 + column / 3)));
  EXPECT_EQ(values("_scale", {2, 3}, bytes_of_numbers(bf16({1, 2, 4, 8, 16, 32}))), blocks);
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{12, 1}, {12}}) {
    const auto rows = values("_scale", shape, bytes_of_numbers(bf16(counting(12))));
    for (size_t i = 0; i < 96; ++i) ASSERT_EQ(rows[i], static_cast<float>(i / 8));
  }
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{}, {1}, {1, 1}})
    EXPECT_EQ(values("_scale", shape, bytes_of_numbers(bf16({0.5}))), std::vector<float>(96, 0.5));
  const auto groups = values("_scale", {12, 2}, bytes_of_numbers(bf16(counting(24))));
  for (size_t i = 0; i < 96; ++i) ASSERT_EQ(groups[i], static_cast<float>(i / 4));
}

TEST_F(HuggingFaceWeights, QuantisedWeightsWhosePartsDontFit) {
  const auto error = [&](const std::function<void(TinyDirectory&)>& change, bool quantised = true) {
    TinyDirectory model;
    if (quantised) model.config["quantization_config"] = {{"quant_method", "fp8"}};
    change(model);
    const std::string message = error_of(model);
    if (message != "opened") EXPECT_CONTAINS(message, "model.safetensors: tensor 'model.layers.0.mlp.gate_proj");
    return message;
  };
  const std::string base = "model.layers.0.mlp.gate_proj.";
  const std::string codes(96, '\x38'), half(48, '\x11');
  const auto number = bytes_of_numbers<float>({1});
  EXPECT_CONTAINS(error([&](auto& m) { m.tensor(kQ, "F8_E4M3", {12, 8}, codes); }), "there is no scale for it");
  EXPECT_EQ(error([&](auto& m) { m.tensor(kQ, "F8_E4M3", {12, 8}, codes); }, false), "opened");
  EXPECT_CONTAINS(error([&](auto& m) {
                    m.tensor(kQ, "F8_E4M3", {12, 8}, codes);
                    m.tensor(kQ + "_scale_inv", "F32", {5}, bytes_of_numbers<float>({1, 2, 3, 4, 5}));
                  }),
                  "F32 [5], which does not fit F8_E4M3 [12, 8]: expected [], [12, 1] or [1, 1] (blocks of 128 x 128)");
  EXPECT_CONTAINS(error([&](auto& m) {
                    m.tensor(kQ, "F8_E4M3", {12, 8}, codes);
                    m.tensor(kQ + "_scale", "I64", {}, "12345678");
                  }),
                  "which does not fit");
  EXPECT_CONTAINS(error([&](auto& m) { m.tensor(kQ + "_scale", "F32", {}, number); }), "but it is F32 [12, 8]");
  EXPECT_CONTAINS(error([&](auto& m) { m.tensor(base + "weight_zero_point", "I8", {1}, "1"); }), "not supported");
  EXPECT_CONTAINS(error([&](auto& m) { m.tensor(base + "qweight", "I32", {1}, "1234"); }), "not supported");
  // NVFP4: 12 x 8 values take 48 bytes; rows of 8 values hold no group of 16.
  EXPECT_CONTAINS(error([&](auto& m) {
                    m.tensor(kQ, "U8", {12, 4}, half);
                    m.tensor(kQ + "_scale_2", "F32", {}, number);
                  }),
                  "its scales are missing");
  EXPECT_CONTAINS(error([&](auto& m) {
                    m.tensor(kQ, "U8", {12, 4}, half);
                    m.tensor(kQ + "_scale", "F8_E4M3", {12, 1}, std::string(12, '\x38'));
                    m.tensor(kQ + "_scale_2", "F32", {}, number);
                  }),
                  "expected F8_E4M3 [12, 1]");
  EXPECT_CONTAINS(error([&](auto& m) {
                    m.without(kQ).tensor(base + "weight_packed", "U8", {3, 16}, half);
                    m.tensor(base + "weight_scale", "F8_E4M3", {3, 2}, std::string(6, '\x38'));
                    m.tensor(base + "weight_global_scale", "F32", {2}, number + number);
                  }),
                  "expected one number");
  EXPECT_CONTAINS(error([&](auto& m) { m.without(kQ).tensor(base + "weight_packed", "I32", {12}, half); }),
                  "of packed weights only NVFP4");
}

TEST_F(HuggingFaceWeights, ModeloptsOwnFileSaysThatScalesAreNeeded) {
  TinyDirectory model;
  model.tensor(kQ, "F8_E4M3", {12, 8}, std::string(96, '\x38'));
  EXPECT_EQ(error_of(model), "opened");
  folder_.write("hf_quant_config.json", R"({"quantization":{"quant_algo":"FP8"}})");
  EXPECT_CONTAINS(error_of(model), "there is no scale for it");
}

TEST_F(HuggingFaceWeights, Nvfp4MultipliesInOneConventionAndDividesInTheOther) {
  const std::string base = "model.layers.0.mlp.gate_proj.";
  const std::string codes(128, '\x52');  // 1.0 in the low nibble (even column), 3.0 in the high one
  for (const bool packed : {false, true}) {
    TinyDirectory model;
    model.without(kQ);
    model.tensor(base + (packed ? "weight_packed" : "weight"), "U8", {8, 16}, codes);
    model.tensor(base + "weight_scale", "F8_E4M3", {8, 2}, std::string(16, '\x40'));  // 2.0
    model.tensor(base + (packed ? "weight_global_scale" : "weight_scale_2"), "F32", {1}, bytes_of_numbers<float>({4}));
    const Checkpoint checkpoint = open(model);
    const std::vector<float> values = values_of(checkpoint, "blk.0.ffn_gate.weight");
    ASSERT_EQ(values.size(), 256u);
    const float unit = packed ? 0.5f : 8.0f;
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], (i % 2 == 0 ? 1 : 3) * unit);
  }
}

TEST_F(HuggingFaceWeights, Mxfp4IsPackedAgainAsGgufHasIt) {
  std::string codes;
  for (int i = 0; i < 64; ++i) codes += static_cast<char>(37 * i + 11);
  TinyDirectory model;
  model.tensor("experts.gate_blocks", "U8", {2, 1, 2, 16}, codes);
  model.tensor("experts.gate_scales", "U8", {2, 1, 2}, std::string("\x7F\x80\x00\x7E", 4));
  const Checkpoint checkpoint = open(model);
  const Tensor* tensor = checkpoint.find("experts.gate");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->type, TensorType::mxfp4);
  EXPECT_EQ(tensor->shape, (std::array<uint64_t, 4>{64, 1, 2, 1}));
  const float table[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const int exponents[] = {0, 1, -127, -1};
  const std::vector<float> values = values_of(checkpoint, "experts.gate");
  for (size_t i = 0; i < values.size(); ++i) {
    const int code = static_cast<unsigned char>(codes[i / 2]) >> (i % 2 * 4) & 15;
    const float magnitude = std::ldexp(table[code & 7], exponents[i / 32]);
    EXPECT_EQ(values[i], code & 8 ? -magnitude : magnitude) << i;
  }
  model.tensor("experts.gate_scales", "U8", {2, 2}, "1234");
  EXPECT_CONTAINS(error_of(model), "expected U8 [2, 1, 2]");
}

std::vector<std::string>& messages() {
  static std::vector<std::string> all;
  return all;
}

TEST_F(HuggingFaceWeights, WhatDecodingCostsIsSaidOnce) {
  TinyDirectory model;
  for (const char* name : {"gate_proj", "up_proj"}) {
    const std::string weight = std::string("model.layers.0.mlp.") + name + ".weight";
    model.tensor(weight, "F8_E4M3", {12, 8}, std::string(96, '\x38'));
    model.tensor(weight + "_scale", "F32", {}, bytes_of_numbers<float>({1}));
  }
  model.write(folder_);
  messages().clear();
  set_log(LogLevel::info, [](LogLevel, std::string_view text) { messages().emplace_back(text); });
  open(path());
  set_log(LogLevel::off, nullptr);
  ASSERT_EQ(messages().size(), 1u);
  EXPECT_CONTAINS(messages()[0], "become F32");
}

}  // namespace
}  // namespace gale::format
