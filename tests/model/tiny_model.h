// Small model files for tests of the model room: complete by default, and any key or tensor may be changed or left out.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "format/checkpoint.h"
#include "format/gguf_bytes.h"

namespace gale::test {

// Width 8, 2 blocks, 2 heads and 1 key head of 4, feed-forward 12, 10 tokens; F32 zeros.
class TinyModel {
 public:
  explicit TinyModel(const std::string& architecture) : prefix_(architecture + ".") {
    const bool gemma = architecture == "gemma3";
    text("general.architecture", architecture);
    text("general.name", "tiny");
    for (const auto& [key, value] : std::vector<std::pair<std::string, uint32_t>>{{"context_length", 64},
                                                                                  {"embedding_length", 8},
                                                                                  {"block_count", 2},
                                                                                  {"feed_forward_length", 12},
                                                                                  {"attention.head_count", 2},
                                                                                  {"attention.head_count_kv", 1}})
      set(key, value);
    set("attention.layer_norm_rms_epsilon", 1e-5f);
    if (gemma) {
      set("attention.sliding_window", 16u);
      set("attention.sliding_window_pattern", 2u);
      set("rope.freq_base", 1e6f);
    }
    tensor("token_embd.weight", {8, 10});
    tensor("output_norm.weight", {8});
    if (!gemma) tensor("output.weight", {8, 10});
    for (const char* block : {"blk.0.", "blk.1."}) {
      const auto at = [&](const char* name) { return std::string(block) + name + ".weight"; };
      tensor(at("attn_norm"), {8});
      tensor(at("attn_q"), {8, 8});
      tensor(at("attn_k"), {8, 4});
      tensor(at("attn_v"), {8, 4});
      tensor(at("attn_output"), {8, 8});
      tensor(at("ffn_norm"), {8});
      tensor(at("ffn_gate"), {8, 12});
      tensor(at("ffn_up"), {8, 12});
      tensor(at("ffn_down"), {12, 8});
      if (!gemma) continue;
      tensor(at("attn_q_norm"), {4});
      tensor(at("attn_k_norm"), {4});
      tensor(at("post_attention_norm"), {8});
      tensor(at("post_ffw_norm"), {8});
    }
  }

  // Keys of the architecture, without its prefix; each replaces what was there.
  template <class T>
  TinyModel& set(const std::string& key, T value) {
    return put(prefix_ + key, [value](GgufBytes& out, const std::string& name) { out.value<T>(name, value); });
  }
  template <class T>
  TinyModel& array(const std::string& key, std::vector<T> values) {
    return put(prefix_ + key, [values](GgufBytes& out, const std::string& name) { out.array<T>(name, values); });
  }
  // A whole key, prefix included.
  TinyModel& text(const std::string& key, std::string value) {
    return put(key, [value](GgufBytes& out, const std::string& name) { out.text(name, value); });
  }
  TinyModel& set_text(const std::string& key, const std::string& value) { return text(prefix_ + key, value); }
  TinyModel& without(const std::string& key) {
    std::erase_if(keys_, [&](const auto& entry) { return entry.first == prefix_ + key || entry.first == key; });
    return *this;
  }

  TinyModel& tensor(const std::string& name, std::vector<uint64_t> shape,
                    format::TensorType type = format::TensorType::f32) {
    for (auto& known : tensors_)
      if (known.name == name) {
        known = {name, std::move(shape), type};
        return *this;
      }
    tensors_.push_back({name, std::move(shape), type});
    return *this;
  }
  TinyModel& without_tensor(const std::string& name) {
    std::erase_if(tensors_, [&](const TensorEntry& entry) { return entry.name == name; });
    return *this;
  }

  // Writes the file and opens it. Throws if the format room refuses it.
  format::Checkpoint open() const {
    GgufBytes out;
    for (const auto& [key, write] : keys_) write(out, key);
    for (const TensorEntry& entry : tensors_) {
      uint64_t values = 1;
      for (const uint64_t d : entry.shape) values *= d;
      const auto bytes = format::bytes_of(entry.type, values);
      if (!bytes) throw std::runtime_error("no such shape: " + entry.name);
      out.tensor(entry.name, entry.type, entry.shape, std::string(*bytes, '\0'));
    }
    static int count = 0;
    const auto path = std::filesystem::temp_directory_path() /
                      ("gale-tiny-" + std::to_string(getpid()) + "-" + std::to_string(count++) + ".gguf");
    out.write(path.string());
    auto checkpoint = format::Checkpoint::open(path.string());
    std::filesystem::remove(path);  // the mapping stays
    if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
    return std::move(checkpoint).value();
  }

 private:
  using Write = std::function<void(GgufBytes&, const std::string&)>;
  struct TensorEntry {
    std::string name;
    std::vector<uint64_t> shape;
    format::TensorType type;
  };

  TinyModel& put(const std::string& key, Write write) {
    for (auto& known : keys_)
      if (known.first == key) {
        known.second = std::move(write);
        return *this;
      }
    keys_.emplace_back(key, std::move(write));
    return *this;
  }

  std::string prefix_;
  std::vector<std::pair<std::string, Write>> keys_;
  std::vector<TensorEntry> tensors_;
};

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "expected '" << part << "' in: " << text;
}

}  // namespace gale::test
