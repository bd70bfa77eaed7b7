// Directories: which files are found, what is refused, and the settings of both families.
#include <cmath>
#include <functional>

#include "format/hugging_face_fixture.h"

namespace gale::format {
namespace {

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
  EXPECT_CONTAINS(error_of(path("snapshots/main")), "cannot open");

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
  EXPECT_CONTAINS(error([](J& c) { c["rope_scaling"] = {{"factor", 8}}; }), "\"rope_type\"");
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

}  // namespace
}  // namespace gale::format
