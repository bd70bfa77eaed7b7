// Settings of both families: what they mean, their defaults, and an error for everything that is wrong with them.
#include "model/hparams.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "model/tiny_model.h"

namespace gale::model {
namespace {

using test::contains;
using test::TinyModel;

Hparams good(const TinyModel& model) {
  const format::Checkpoint checkpoint = model.open();
  auto result = read_hparams(checkpoint);
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

// The error's message; "no error" if there is none.
std::string error_of(const TinyModel& model, ErrorKind kind = ErrorKind::invalid_input) {
  const format::Checkpoint checkpoint = model.open();
  const auto result = read_hparams(checkpoint);
  if (result.ok()) return "no error";
  EXPECT_EQ(static_cast<int>(result.error().kind), static_cast<int>(kind)) << result.error().message;
  EXPECT_TRUE(contains(result.error().message, ".gguf: ")) << "the message names the file";
  return result.error().message;
}

TEST(Hparams, LlamaAndItsDefaults) {
  const Hparams h = good(TinyModel("llama"));
  EXPECT_EQ(h.architecture, "llama");
  EXPECT_EQ(h.name, "tiny");
  EXPECT_EQ(h.vocabulary, 10u);
  EXPECT_EQ(h.context_length, 64u);
  EXPECT_EQ(h.embedding_length, 8u);
  EXPECT_EQ(h.block_count, 2u);
  EXPECT_EQ(h.feed_forward_length, (std::vector<uint32_t>{12, 12}));
  EXPECT_EQ(h.head_count, (std::vector<uint32_t>{2, 2}));
  EXPECT_EQ(h.head_count_kv, (std::vector<uint32_t>{1, 1}));
  EXPECT_EQ(h.key_length, 4u);
  EXPECT_EQ(h.value_length, 4u);
  EXPECT_EQ(h.rope_dimensions, 4u);
  EXPECT_EQ(h.norm_epsilon, 1e-5f);
  EXPECT_EQ(h.rope_base, 10000.0f);
  EXPECT_EQ(h.rope_factor, 1.0f);
  EXPECT_EQ(h.sliding_window, 0u);
  EXPECT_EQ(h.slides, (std::vector<bool>{false, false}));
  EXPECT_EQ(h.attention_scale, 0.5f);
  EXPECT_EQ(h.attention_softcap, 0.0f);
  EXPECT_EQ(h.final_softcap, 0.0f);
}

TEST(Hparams, Gemma3AndItsDefaults) {
  const Hparams h =
      good(TinyModel("gemma3").set("final_logit_softcapping", 30.0f).set("attn_logit_softcapping", 50.0f));
  EXPECT_EQ(h.rope_base, 1e6f);
  EXPECT_EQ(h.rope_base_sliding, 10000.0f);
  EXPECT_EQ(h.sliding_window, 16u);
  EXPECT_EQ(h.sliding_period, 2u);
  EXPECT_EQ(h.slides, (std::vector<bool>{true, false}));
  EXPECT_EQ(h.final_softcap, 30.0f);
  EXPECT_EQ(h.attention_softcap, 50.0f);
}

TEST(Hparams, SlidingPatterns) {
  const auto slides = [](TinyModel model) { return good(model.set("block_count", 7u)).slides; };
  TinyModel model("gemma3");
  EXPECT_EQ(slides(TinyModel(model).without("attention.sliding_window_pattern")),
            (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_EQ(slides(TinyModel(model).set("attention.sliding_window_pattern", 3u)),
            (std::vector<bool>{true, true, false, true, true, false, true}));
  EXPECT_EQ(slides(TinyModel(model).set("attention.sliding_window_pattern", 1u)), std::vector<bool>(7, false));
  const std::vector<bool> given{false, true, true, false, false, true, false};
  EXPECT_EQ(slides(TinyModel(model).array<bool>("attention.sliding_window_pattern",
                                                {false, true, true, false, false, true, false})),
            given);
  EXPECT_EQ(slides(TinyModel(model).without("attention.sliding_window")), std::vector<bool>(7, false));
  // A window in a llama file without a pattern is every block's.
  EXPECT_EQ(slides(TinyModel("llama").set("attention.sliding_window", 4u)), std::vector<bool>(7, true));
  EXPECT_TRUE(contains(error_of(TinyModel(model).array<bool>("attention.sliding_window_pattern", {true, false, true})),
                       "3 values for 2"));
  EXPECT_TRUE(contains(error_of(TinyModel(model).array<uint32_t>("attention.sliding_window_pattern", {1, 2})),
                       "sliding_window_pattern' is 2"));
}

TEST(Hparams, AttentionScale) {
  const auto scale = [](TinyModel model) { return good(model).attention_scale; };
  // 62 blocks (27B) scale by the width per head, 8 / 2, and not by the head size.
  TinyModel big("gemma3");
  big.set("attention.key_length", 16u).set("attention.value_length", 16u);
  EXPECT_EQ(scale(big), 0.25f);
  EXPECT_EQ(scale(TinyModel(big).set("block_count", 62u)), 0.5f);
  EXPECT_EQ(scale(TinyModel("llama").set("block_count", 62u).set("attention.key_length", 16u)), 0.25f);
  EXPECT_EQ(scale(TinyModel("gemma3").set("attention.scale", 0.3f)), 0.3f);
  EXPECT_EQ(scale(TinyModel("gemma3").set("attention.scale", 0.0f)), 0.5f);
}

TEST(Hparams, PerBlockArrays) {
  const Hparams h = good(TinyModel("llama")
                             .array<uint32_t>("feed_forward_length", {12, 20})
                             .array<int32_t>("attention.head_count", {4, 2})
                             .array<uint32_t>("attention.head_count_kv", {2, 1})
                             .set("attention.key_length", 6u)
                             .set("attention.value_length", 2u));
  EXPECT_EQ(h.feed_forward_length, (std::vector<uint32_t>{12, 20}));
  EXPECT_EQ(h.head_count, (std::vector<uint32_t>{4, 2}));
  EXPECT_EQ(h.head_count_kv, (std::vector<uint32_t>{2, 1}));
  EXPECT_EQ(h.key_length, 6u);
  EXPECT_EQ(h.value_length, 2u);
  EXPECT_EQ(good(TinyModel("llama").without("attention.head_count_kv")).head_count_kv, (std::vector<uint32_t>{2, 2}));
  EXPECT_TRUE(
      contains(error_of(TinyModel("llama").array<uint32_t>("attention.head_count", {2})), "1 values for 2 blocks"));
  EXPECT_TRUE(contains(error_of(TinyModel("llama").array<uint32_t>("feed_forward_length", {12, 0})),
                       "llama.feed_forward_length' is 0"));
  EXPECT_TRUE(contains(error_of(TinyModel("llama").array<int32_t>("feed_forward_length", {12, -5})), "is -5"));
  EXPECT_TRUE(contains(error_of(TinyModel("llama").array<uint32_t>("attention.head_count", {4, 2})), "key_length"));
}

TEST(Hparams, RopeScaling) {
  const auto factor = [](TinyModel model) { return good(model).rope_factor; };
  EXPECT_EQ(factor(TinyModel("gemma3").set("rope.scaling.factor", 8.0f)), 8.0f);
  EXPECT_EQ(factor(TinyModel("gemma3").set("rope.scaling.factor", 8.0f).set_text("rope.scaling.type", "linear")), 8.0f);
  EXPECT_EQ(factor(TinyModel("gemma3").set("rope.scaling.factor", 8.0f).set_text("rope.scaling.type", "none")), 1.0f);
  EXPECT_EQ(factor(TinyModel("llama").set("rope.scale_linear", 4.0f)), 4.0f);
  EXPECT_EQ(factor(TinyModel("llama").set("rope.scale_linear", 4.0f).set("rope.scaling.factor", 2.0f)), 2.0f);
  EXPECT_EQ(factor(TinyModel("llama").set("rope.scaling.factor", 0.0f)), 1.0f);
  EXPECT_EQ(good(TinyModel("gemma3").set("rope.freq_base_swa", 5000.0f)).rope_base_sliding, 5000.0f);
  EXPECT_EQ(good(TinyModel("llama").set("rope.freq_base", 5e5f)).rope_base_sliding, 5e5f);
  EXPECT_EQ(good(TinyModel("llama").set("rope.dimension_count", 2u)).rope_dimensions, 2u);
  for (const char* type : {"yarn", "longrope", "nonsense"}) {
    const std::string message =
        error_of(TinyModel("llama").set_text("rope.scaling.type", type).set("rope.scaling.factor", 2.0f),
                 ErrorKind::unsupported);
    EXPECT_TRUE(contains(message, "llama.rope.scaling.type"));
    EXPECT_TRUE(contains(message, type));
  }
}

TEST(Hparams, EveryNeededKeyIsNamedWhenMissing) {
  for (const char* architecture : {"llama", "gemma3"})
    for (const char* key : {"context_length", "embedding_length", "block_count", "feed_forward_length",
                            "attention.head_count", "attention.layer_norm_rms_epsilon"})
      EXPECT_TRUE(contains(error_of(TinyModel(architecture).without(key)),
                           "'" + std::string(architecture) + "." + key + "' is missing"));
  EXPECT_TRUE(contains(error_of(TinyModel("llama").without("general.architecture")), "general.architecture"));
  EXPECT_TRUE(contains(error_of(TinyModel("llama").without_tensor("token_embd.weight"), ErrorKind::not_found),
                       "token_embd.weight"));
}

TEST(Hparams, EveryKeyIsNamedWhenOfAnotherType) {
  for (const char* key : {"context_length",
                          "embedding_length",
                          "block_count",
                          "feed_forward_length",
                          "attention.head_count",
                          "attention.head_count_kv",
                          "attention.layer_norm_rms_epsilon",
                          "attention.key_length",
                          "attention.value_length",
                          "rope.dimension_count",
                          "rope.freq_base",
                          "rope.freq_base_swa",
                          "rope.scaling.factor",
                          "attention.sliding_window",
                          "attention.sliding_window_pattern",
                          "attention.scale",
                          "attn_logit_softcapping",
                          "final_logit_softcapping",
                          "vocab_size",
                          "expert_count",
                          "attention.causal"})
    EXPECT_TRUE(contains(error_of(TinyModel("gemma3").set_text(key, "many")), std::string("gemma3.") + key));
  EXPECT_TRUE(contains(error_of(TinyModel("llama").set("rope.scaling.type", 1u)), "llama.rope.scaling.type"));
}

TEST(Hparams, RangesAndDivisibility) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const auto expect = [](const TinyModel& model, const std::string& part, ErrorKind kind = ErrorKind::invalid_input) {
    EXPECT_TRUE(contains(error_of(model, kind), part));
  };
  for (const char* key : {"context_length", "embedding_length", "block_count", "feed_forward_length",
                          "attention.head_count", "attention.head_count_kv", "attention.key_length",
                          "attention.value_length", "rope.dimension_count", "vocab_size"}) {
    expect(TinyModel("llama").set(key, 0u), std::string("llama.") + key + "' is 0");
    expect(TinyModel("llama").set(key, 4294967295u), std::string("llama.") + key + "' is 4294967295");
    expect(TinyModel("llama").set(key, int32_t{-1}), std::string("llama.") + key);
    expect(TinyModel("llama").set(key, ~uint64_t{0}), std::string("llama.") + key);
  }
  for (const float bad : {nan, infinity, -1.0f})
    for (const char* key :
         {"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.freq_base_swa", "rope.scaling.factor",
          "rope.scale_linear", "attention.scale", "attn_logit_softcapping", "final_logit_softcapping"})
      expect(TinyModel("llama").set(key, bad), std::string("llama.") + key + "' is ");
  expect(TinyModel("llama").set("attention.layer_norm_rms_epsilon", 0.0f), "layer_norm_rms_epsilon' is 0");
  expect(TinyModel("llama").set("rope.freq_base", 0.0f), "rope.freq_base' is 0");

  expect(TinyModel("llama").set("attention.head_count", 3u), "8 cannot be divided by 3");
  expect(TinyModel("llama").set("attention.head_count", 3u).set("attention.key_length", 4u), "attention.value_length");
  expect(TinyModel("llama").set("attention.head_count", 4u).set("attention.head_count_kv", 3u), "no multiple");
  expect(TinyModel("llama").set("attention.head_count_kv", 4u), "no multiple");
  expect(TinyModel("llama").set("rope.dimension_count", 3u), "even");
  expect(TinyModel("llama").set("rope.dimension_count", 6u), "rope.dimension_count' is 6; expected 2 to 4");
  expect(TinyModel("llama").set("attention.key_length", 5u), "even");
  expect(TinyModel("llama").set("vocab_size", 11u), "only 10 rows");
  // Heads times size would not fit a buffer's width.
  expect(TinyModel("llama")
             .set("attention.head_count", 65536u)
             .set("attention.key_length", 16777216u)
             .set("attention.value_length", 4u),
         "65536 heads", ErrorKind::limit);
  expect(TinyModel("llama")
             .set("attention.head_count", 65536u)
             .set("attention.key_length", 4u)
             .set("attention.value_length", 16777216u),
         "attention.value_length", ErrorKind::limit);
}

TEST(Hparams, VocabularyIsTheEmbeddingsRows) {
  EXPECT_EQ(good(TinyModel("llama").set("vocab_size", 9u)).vocabulary, 10u);  // padded rows are fine
  EXPECT_EQ(good(TinyModel("llama").tensor("token_embd.weight", {8, 17})).vocabulary, 17u);
}

TEST(Hparams, UnknownArchitecturesAreToldWhatIsKnown) {
  const std::string message = error_of(TinyModel("mamba"), ErrorKind::unsupported);
  EXPECT_TRUE(contains(message, "'mamba'"));
  EXPECT_TRUE(contains(message, "llama, gemma3"));
}

TEST(Hparams, SettingsThatWouldBeIgnoredAreRefused) {
  const auto refused = [](TinyModel model, const std::string& key) {
    EXPECT_TRUE(contains(error_of(model, ErrorKind::unsupported), "llama." + key));
  };
  refused(TinyModel("llama").set("expert_count", 8u), "expert_count");
  for (const char* key :
       {"nextn_predict_layers", "attention.clamp_kqv", "attention.max_alibi_bias", "attention.shared_kv_layers",
        "attention.temperature_scale", "logit_scale", "residual_scale", "embedding_scale", "rope.scaling.attn_factor",
        "attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"})
    refused(TinyModel("llama").set(key, 3u), key);
  refused(TinyModel("llama").array<int32_t>("rope.dimension_sections", {1, 1, 0, 0}), "rope.dimension_sections");
  refused(TinyModel("llama").set("use_parallel_residual", true), "use_parallel_residual");
  refused(TinyModel("llama").set("attention.causal", false), "attention.causal");
  // The values that change nothing pass.
  good(TinyModel("llama")
           .set("expert_count", 0u)
           .set("logit_scale", 1.0f)
           .set("embedding_scale", 0.0f)
           .set("attention.key_length_swa", 4u)
           .set("attention.causal", true)
           .set("use_parallel_residual", false)
           .set("rope.scaling.attn_factor", 1.0f));
}

}  // namespace
}  // namespace gale::model
