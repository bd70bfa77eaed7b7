// A tiny model as a Hugging Face directory, complete by default, for tests that change or leave out a part.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/scratch_folder.h"
#include "format/safetensors_bytes.h"

namespace gale::test {

struct DirectoryTensor {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

// Llama: width 8, one block, 2 heads and 1 key head of 4, feed-forward 12, 10 tokens; F32, values count up from 0.
class TinyDirectory {
 public:
  nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                           {"model_type", "llama"},
                           {"hidden_act", "silu"},
                           {"vocab_size", 10},
                           {"max_position_embeddings", 64},
                           {"hidden_size", 8},
                           {"num_hidden_layers", 1},
                           {"intermediate_size", 12},
                           {"num_attention_heads", 2},
                           {"num_key_value_heads", 1},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 10000.0}};
  std::vector<DirectoryTensor> tensors;

  TinyDirectory() {
    floats("model.embed_tokens.weight", {10, 8});
    const std::string block = "model.layers.0.";
    floats(block + "input_layernorm.weight", {8});
    floats(block + "self_attn.q_proj.weight", {8, 8});
    floats(block + "self_attn.k_proj.weight", {4, 8});
    floats(block + "self_attn.v_proj.weight", {4, 8});
    floats(block + "self_attn.o_proj.weight", {8, 8});
    floats(block + "post_attention_layernorm.weight", {8});
    floats(block + "mlp.gate_proj.weight", {12, 8});
    floats(block + "mlp.up_proj.weight", {12, 8});
    floats(block + "mlp.down_proj.weight", {8, 12});
    floats("model.norm.weight", {8});
  }

  // Puts a tensor in the place of the one of that name, or adds it.
  TinyDirectory& tensor(const std::string& name, const std::string& dtype, const std::vector<uint64_t>& shape,
                        const std::string& bytes) {
    for (DirectoryTensor& known : tensors)
      if (known.name == name) {
        known = {name, dtype, shape, bytes};
        return *this;
      }
    tensors.push_back({name, dtype, shape, bytes});
    return *this;
  }
  TinyDirectory& floats(const std::string& name, const std::vector<uint64_t>& shape) {
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
    return tensor(name, "F32", shape, bytes_of_numbers(values));
  }
  TinyDirectory& without(const std::string& name) {
    std::erase_if(tensors, [&](const DirectoryTensor& tensor) { return tensor.name == name; });
    return *this;
  }

  // The tensors [first, last) as one file.
  std::string file(size_t first, size_t last) const {
    SafetensorsBytes out;
    for (size_t i = first; i < last; ++i)
      out.tensor(tensors[i].name, tensors[i].dtype, tensors[i].shape, tensors[i].bytes);
    return out.build();
  }

  void write(const ScratchFolder& folder, const std::string& below = "") const {
    folder.write(below + "config.json", config.dump());
    folder.write(below + "model.safetensors", file(0, tensors.size()));
  }

  // Two files and their index, which is returned for changes; the caller writes it.
  nlohmann::json write_shards(const ScratchFolder& folder) const {
    const size_t half = tensors.size() / 2;
    nlohmann::json index = {{"metadata", {{"total_size", 1}}}};
    const char* names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
    for (size_t i = 0; i < tensors.size(); ++i) index["weight_map"][tensors[i].name] = names[i < half ? 0 : 1];
    folder.write("config.json", config.dump());
    folder.write(names[0], file(0, half));
    folder.write(names[1], file(half, tensors.size()));
    return index;
  }
};

}  // namespace gale::test
