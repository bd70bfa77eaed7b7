// Directories: which files are found, what is refused, settings of both families, and every form of quantised weights.
#include "format/hugging_face.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/log.h"
#include "format/hugging_face_directory.h"

namespace gale::format {
namespace {

namespace fs = std::filesystem;
using test::bytes_of_numbers;
using test::TinyDirectory;

class HuggingFaceTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "") const { return (fs::path(folder_.path()) / name).string(); }

  Checkpoint open(const std::string& what) const {
    auto opened = Checkpoint::open(what);
    if (!opened.ok()) throw std::runtime_error(opened.error().message);
    return std::move(opened).value();
  }
  Checkpoint open(const TinyDirectory& model) const {
    model.write(folder_);
    return open(folder_.path());
  }

  std::string error_of(const std::string& what) const {
    const auto opened = Checkpoint::open(what);
    if (opened.ok()) return "opened";
    EXPECT_NE(opened.error().message.find(folder_.path()), std::string::npos) << opened.error().message;
    return opened.error().message;
  }
  std::string error_of(const TinyDirectory& model) const {
    model.write(folder_);
    return error_of(folder_.path());
  }

  ScratchFolder folder_;
};

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::vector<float> values_of(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor* tensor = checkpoint.find(name);
  if (!tensor) throw std::runtime_error("no " + name);
  std::vector<float> out(tensor->values());
  std::vector<std::byte> buffer;
  const Status status = decode_rows(*tensor, 0, tensor->rows(), buffer, out);
  if (!status.ok()) throw std::runtime_error(status.error().message);
  return out;
}

std::vector<float> counting(size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(i);
  return out;
}

std::vector<uint16_t> bf16(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  for (const float value : values) out.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  return out;
}

// ---- files

TEST_F(HuggingFaceTest, DirectoryOfOneFile) {
  const Checkpoint checkpoint = open(TinyDirectory());
  EXPECT_EQ(checkpoint.tensors().size(), 11u);
  EXPECT_EQ(checkpoint.files().size(), 1u);
  EXPECT_EQ(checkpoint.metadata_file(), path("config.json"));
  EXPECT_EQ(checkpoint.directory(), folder_.path());
  EXPECT_EQ(**checkpoint.metadata().text("general.name"), fs::path(folder_.path()).filename().string());
  EXPECT_EQ(values_of(checkpoint, "blk.0.ffn_gate.weight"), counting(96));
  const Tensor* gate = checkpoint.find("blk.0.ffn_gate.weight");
  EXPECT_EQ(gate->recipe, nullptr) << "what the file holds as it is needed is a view";
  EXPECT_EQ(gate->bytes.size(), gate->byte_size());
}

TEST_F(HuggingFaceTest, RowsOfRotaryHeadsAreInTheOrderOfGguf) {
  const Checkpoint checkpoint = open(TinyDirectory());
  const std::vector<float> k = values_of(checkpoint, "blk.0.attn_k.weight");  // a head of rows 0 2 | 1 3
  for (const auto& [row, from] : {std::pair{0, 0}, {1, 2}, {2, 1}, {3, 3}})
    for (int i = 0; i < 8; ++i) EXPECT_EQ(k[static_cast<size_t>(8 * row + i)], static_cast<float>(8 * from + i));
}

TEST_F(HuggingFaceTest, ValuesStayWhenTheCheckpointMoves) {
  TinyDirectory model;
  model.config["rope_scaling"] = {{"rope_type", "llama3"},
                                  {"factor", 8.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", 64}};
  Checkpoint first = open(model);
  const Checkpoint second = std::move(first);
  EXPECT_EQ(**second.metadata().text("general.architecture"), "llama");
  const std::vector<float> divisors = values_of(second, "rope_freqs.weight");
  ASSERT_EQ(divisors.size(), 2u);
  EXPECT_EQ(divisors[0], 1.0f);  // a wavelength of 6 positions
  EXPECT_EQ(divisors[1], 8.0f);  // one of 628
  // Memory that is in no file must survive what gives pages of files back.
  second.will_read(*second.find("rope_freqs.weight"));
  second.release(*second.find("rope_freqs.weight"));
  second.release_all();
  EXPECT_EQ(values_of(second, "rope_freqs.weight"), divisors);
}

TEST_F(HuggingFaceTest, OneFileByItsName) {
  TinyDirectory().write(folder_);
  fs::rename(path("model.safetensors"), path("other.safetensors"));
  EXPECT_EQ(open(path("other.safetensors")).tensors().size(), 11u);
  fs::rename(path("other.safetensors"), path("no-ending"));
  EXPECT_EQ(open(path("no-ending")).tensors().size(), 11u);
  EXPECT_EQ(open(path("no-ending")).directory(), folder_.path());
}

TEST_F(HuggingFaceTest, ShardedDirectoryAndAnyOfItsFiles) {
  const auto index = TinyDirectory().write_shards(folder_);
  folder_.write("model.safetensors.index.json", index.dump());
  for (const std::string& what : {path(), path("model-00002-of-00002.safetensors")}) {
    const Checkpoint checkpoint = open(what);
    EXPECT_EQ(checkpoint.files().size(), 2u);
    EXPECT_EQ(checkpoint.tensors().size(), 11u);
    EXPECT_EQ(values_of(checkpoint, "token_embd.weight"), counting(80));
    EXPECT_EQ(values_of(checkpoint, "output_norm.weight"), counting(8));
  }
}

TEST_F(HuggingFaceTest, SymbolicLinksOfAHubCache) {
  TinyDirectory().write(folder_, "blobs/");
  fs::create_directories(path("snapshots/main"));
  for (const char* name : {"config.json", "model.safetensors"})
    fs::create_symlink(fs::path("../../blobs") / name, path("snapshots/main/") + name);
  EXPECT_EQ(open(path("snapshots/main")).tensors().size(), 11u);
  EXPECT_EQ(open(path("snapshots/main/")).tensors().size(), 11u);
  fs::remove(path("blobs/model.safetensors"));
  EXPECT_CONTAINS(error_of(path("snapshots/main")), "neither");

  TinyDirectory().write(folder_, "models--maker--Tiny-1M-it/snapshots/0123abcd/");
  const Checkpoint named = open(path("models--maker--Tiny-1M-it/snapshots/0123abcd"));
  EXPECT_EQ(**named.metadata().text("general.name"), "Tiny-1M-it");
}

TEST_F(HuggingFaceTest, FilesThatAreMissing) {
  EXPECT_CONTAINS(error_of(path()), "neither 'model.safetensors' nor 'model.safetensors.index.json'");
  TinyDirectory().write(folder_);
  fs::remove(path("config.json"));
  EXPECT_CONTAINS(error_of(path()), "config.json");
  EXPECT_CONTAINS(error_of(path("model.safetensors")), "config.json");
  const auto index = TinyDirectory().write_shards(folder_);
  fs::remove(path("model.safetensors"));
  folder_.write("model.safetensors.index.json", index.dump());
  fs::remove(path("model-00002-of-00002.safetensors"));
  EXPECT_CONTAINS(error_of(path()), "model-00002-of-00002.safetensors");
}

TEST_F(HuggingFaceTest, IndexesThatAreWrong) {
  TinyDirectory model;
  const auto right = model.write_shards(folder_);
  const auto error = [&](const std::string& text) {
    folder_.write("model.safetensors.index.json", text);
    return error_of(path());
  };
  EXPECT_EQ(error(right.dump()), "opened");
  for (const char* file : {"../model-00001-of-00002.safetensors", "/etc/passwd", "", ".", "..", "a/b.safetensors"}) {
    auto wrong = right;
    wrong["weight_map"]["model.norm.weight"] = file;
    const std::string message = error(wrong.dump());
    EXPECT_CONTAINS(message, "model.norm.weight");
    EXPECT_CONTAINS(message, "is no name of a file beside the index");
  }
  auto wrong = right;
  wrong["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors";
  EXPECT_CONTAINS(error(wrong.dump()), "'model.norm.weight' is missing, although");
  wrong["weight_map"]["model.norm.weight"] = 7;
  EXPECT_CONTAINS(error(wrong.dump()), "expected the name of a file, found an integer");
  EXPECT_CONTAINS(error("{}"), "\"weight_map\" is missing");
  EXPECT_CONTAINS(error("[]"), "\"weight_map\" is missing");
  EXPECT_CONTAINS(error(R"({"weight_map":{}})"), "\"weight_map\" is empty");
  EXPECT_CONTAINS(error(R"({"weight_map":{"a":"x","a":"y"}})"), "the key \"a\" is there twice");
  EXPECT_CONTAINS(error("{"), "no valid JSON");
  // The same tensor in two files.
  folder_.write("model-00002-of-00002.safetensors", model.file(0, model.tensors.size()));
  EXPECT_CONTAINS(error(right.dump()), "it is in another file of the model, too");
}

TEST_F(HuggingFaceTest, TensorsWithTheSameMeaning) {
  TinyDirectory model;
  model.floats("language_model.model.norm.weight", {8});
  EXPECT_CONTAINS(error_of(model), "tensor 'output_norm.weight' is both in");
}

// ---- settings

TEST_F(HuggingFaceTest, ConfigurationsThatAreWrong) {
  const auto error = [&](const std::function<void(nlohmann::json&)>& change) {
    TinyDirectory model;
    change(model.config);
    return error_of(model);
  };
  using J = nlohmann::json;
  EXPECT_CONTAINS(error([](J& c) { c = J::array(); }), "expected an object");
  EXPECT_CONTAINS(error([](J& c) { c.erase("model_type"); }), "\"model_type\" is missing");
  EXPECT_CONTAINS(error([](J& c) { c["model_type"] = 3; }), "\"model_type\" is missing or no string");
  EXPECT_CONTAINS(error([](J& c) { c.erase("hidden_size"); }), "key \"hidden_size\" is missing");
  EXPECT_CONTAINS(error([](J& c) { c["hidden_size"] = nullptr; }), "key \"hidden_size\" is missing");
  EXPECT_CONTAINS(error([](J& c) { c["hidden_size"] = "8"; }), "key \"hidden_size\": expected a number");
  EXPECT_CONTAINS(error([](J& c) { c["hidden_size"] = -8; }), "key \"hidden_size\" is -8");
  EXPECT_CONTAINS(error([](J& c) { c["hidden_size"] = 1e300; }), "key \"hidden_size\" is 1e+300");
  EXPECT_CONTAINS(error([](J& c) { c["num_attention_heads"] = 3; }), "\"head_dim\" is missing");
  EXPECT_CONTAINS(error([](J& c) { c["head_dim"] = 0; }), "\"head_dim\" is 0");
  EXPECT_CONTAINS(error([](J& c) { c["head_dim"] = 1u << 30; }), "\"head_dim\" is");
  EXPECT_CONTAINS(error([](J& c) { c["head_dim"] = 3; }), "no whole heads of 3 rows");
  EXPECT_CONTAINS(error([](J& c) { c["hidden_act"] = "relu"; }), "only \"silu\" is supported");
  EXPECT_CONTAINS(error([](J& c) { c["architectures"] = {"LlamaForSequenceClassification"}; }), "no language model");
  EXPECT_CONTAINS(error([](J& c) { c["partial_rotary_factor"] = 0.5; }), "\"partial_rotary_factor\"");
  EXPECT_CONTAINS(error([](J& c) { c["rope_scaling"] = "llama3"; }), "\"rope_scaling\": expected an object");
  EXPECT_CONTAINS(error([](J& c) {
                    c["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 8}};
                  }),
                  "key \"low_freq_factor\" must be");
  EXPECT_CONTAINS(error([](J& c) {
                    c["quantization_config"] = {{"quant_method", "gptq"}};
                  }),
                  "\"gptq\" is not supported");
  EXPECT_CONTAINS(error([](J& c) {
                    c["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 0}}};
                  }),
                  "block size");
}

TEST_F(HuggingFaceTest, DuplicateKeysOfTheConfigurationAreErrors) {
  TinyDirectory model;
  model.write(folder_);
  const std::string text = model.config.dump();
  folder_.write("config.json", text.substr(0, text.size() - 1) + R"(,"hidden_size":8})");
  EXPECT_CONTAINS(error_of(path()), "the key \"hidden_size\" is there twice");
}

TEST_F(HuggingFaceTest, SettingsThatAreLeftToTheBuilder) {
  TinyDirectory model;
  model.config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}};
  const Checkpoint yarn = open(model);
  EXPECT_EQ(**yarn.metadata().text("llama.rope.scaling.type"), "yarn");
  model.config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(**open(model).metadata().number("llama.rope.scaling.factor"), 4.0);
  model.config.erase("rope_scaling");
  model.config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  const Checkpoint nested = open(model);
  EXPECT_EQ(**nested.metadata().number("llama.rope.freq_base"), 5e5);
  EXPECT_EQ(nested.metadata().find("llama.rope.scaling.type"), nullptr);
  model.config["sliding_window"] = 32;
  EXPECT_EQ(open(model).metadata().find("llama.attention.sliding_window"), nullptr);
  model.config["model_type"] = "mistral";
  EXPECT_EQ(**open(model).metadata().unsigned_integer("llama.attention.sliding_window"), 32u);
}

TEST_F(HuggingFaceTest, TokensOfBothConfigurations) {
  TinyDirectory model;
  model.config["eos_token_id"] = 5;
  model.config["bos_token_id"] = nullptr;
  model.config["pad_token_id"] = -1;
  model.write(folder_);
  folder_.write("generation_config.json", R"({"eos_token_id":[7,5,9],"bos_token_id":1})");
  const Checkpoint checkpoint = open(path());
  EXPECT_EQ(**checkpoint.metadata().unsigned_integer("tokenizer.ggml.eos_token_id"), 7u);
  EXPECT_EQ(**checkpoint.metadata().integers("tokenizer.ggml.eos_token_ids"), (std::vector<int64_t>{7, 5, 9}));
  EXPECT_EQ(**checkpoint.metadata().unsigned_integer("tokenizer.ggml.bos_token_id"), 1u);
  EXPECT_EQ(checkpoint.metadata().find("tokenizer.ggml.padding_token_id"), nullptr);
  folder_.write("generation_config.json", "[]");
  EXPECT_CONTAINS(error_of(path()), "generation_config.json: expected an object");
}

// The text part of a model that also sees: its settings inside text_config with defaults left out, other names.
TEST_F(HuggingFaceTest, GemmaInsideAWrapper) {
  TinyDirectory model;
  for (auto& tensor : model.tensors) tensor.name = "language_model." + tensor.name;
  model.floats("vision_tower.conv.weight", {2, 3, 4, 5, 6});
  model.config = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                  {"model_type", "gemma3"},
                  {"text_config",
                   {{"hidden_size", 8},
                    {"num_hidden_layers", 1},
                    {"intermediate_size", 12},
                    {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                    {"query_pre_attn_scalar", 168},
                    {"layer_types", {"full_attention"}}}}};
  const Checkpoint checkpoint = open(model);
  const Metadata& metadata = checkpoint.metadata();
  EXPECT_EQ(**metadata.text("general.architecture"), "gemma3");
  EXPECT_EQ(**metadata.unsigned_integer("gemma3.attention.head_count"), 8u);
  EXPECT_EQ(**metadata.unsigned_integer("gemma3.attention.key_length"), 256u);
  EXPECT_EQ(**metadata.unsigned_integer("gemma3.attention.sliding_window"), 4096u);
  EXPECT_EQ(**metadata.number("gemma3.rope.freq_base"), 1e6);
  EXPECT_EQ(**metadata.number("gemma3.rope.freq_base_swa"), 1e4);
  EXPECT_EQ(**metadata.number("gemma3.rope.scaling.factor"), 8.0);
  EXPECT_EQ(**metadata.number("gemma3.attention.scale"), static_cast<double>(static_cast<float>(1 / std::sqrt(168.0))));
  EXPECT_EQ(**metadata.integers("gemma3.attention.sliding_window_pattern"), (std::vector<int64_t>{0}));
  EXPECT_EQ(values_of(checkpoint, "output_norm.weight"), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(values_of(checkpoint, "blk.0.attn_k.weight"), counting(32)) << "rotates halves, as the directory does";
  const Tensor* vision = checkpoint.find("vision_tower.conv.weight");
  ASSERT_NE(vision, nullptr);
  EXPECT_EQ(vision->shape, (std::array<uint64_t, 4>{6, 5, 4, 6}));
}

TEST_F(HuggingFaceTest, FamiliesWithoutATableKeepTheirNames) {
  TinyDirectory model;
  model.config["model_type"] = "qwen3_moe";
  EXPECT_EQ(**open(model).metadata().text("general.architecture"), "qwen3moe");
  model.config["model_type"] = "rumpel";
  const Checkpoint checkpoint = open(model);
  EXPECT_EQ(**checkpoint.metadata().text("general.architecture"), "rumpel");
  EXPECT_NE(checkpoint.find("model.layers.0.self_attn.q_proj.weight"), nullptr);
}

// ---- values

const std::string kQ = "model.layers.0.mlp.gate_proj.weight";  // [12, 8]

TEST_F(HuggingFaceTest, NumbersThatGgufHasNot) {
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

TEST_F(HuggingFaceTest, BiasesOfRotaryHeadsMoveWithTheirRows) {
  TinyDirectory model;
  model.floats("model.layers.0.self_attn.q_proj.bias", {8});
  const Checkpoint checkpoint = open(model);
  EXPECT_EQ(values_of(checkpoint, "blk.0.attn_q.bias"), (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST_F(HuggingFaceTest, Fp8WithEveryKindOfScale) {
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

TEST_F(HuggingFaceTest, QuantisedWeightsWhosePartsDontFit) {
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

TEST_F(HuggingFaceTest, ModeloptsOwnFileSaysThatScalesAreNeeded) {
  TinyDirectory model;
  model.tensor(kQ, "F8_E4M3", {12, 8}, std::string(96, '\x38'));
  EXPECT_EQ(error_of(model), "opened");
  folder_.write("hf_quant_config.json", R"({"quantization":{"quant_algo":"FP8"}})");
  EXPECT_CONTAINS(error_of(model), "there is no scale for it");
}

TEST_F(HuggingFaceTest, Nvfp4MultipliesInOneConventionAndDividesInTheOther) {
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

TEST_F(HuggingFaceTest, Mxfp4IsPackedAgainAsGgufHasIt) {
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

TEST_F(HuggingFaceTest, WhatDecodingCostsIsSaidOnce) {
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
