// Model files of the oracle taken apart, changed in one place and written again.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch_folder.h"
#include "engine/engine.h"
#include "exec/oracle_model.h"
#include "format/gguf_bytes.h"

namespace gale::test {

class ModelFile {
 public:
  explicit ModelFile(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    data_ = {std::istreambuf_iterator<char>(in), {}};
    if (data_.size() < 24) throw std::runtime_error("no model file: " + path);
    at_ = 8;
    const auto tensors = take<uint64_t>(), keys = take<uint64_t>();
    for (uint64_t i = 0; i < keys; ++i) {
      std::string name = take_text();
      const auto type = static_cast<KeyType>(take<uint32_t>());
      const size_t begin = at_;
      skip(type);
      keys_.push_back({std::move(name), type, data_.substr(begin, at_ - begin)});
    }
    for (uint64_t i = 0; i < tensors; ++i) {
      TensorEntry entry;
      entry.name = take_text();
      entry.shape.resize(take<uint32_t>());
      for (uint64_t& d : entry.shape) d = take<uint64_t>();
      entry.type = static_cast<format::TensorType>(take<uint32_t>());
      entry.offset = take<uint64_t>();
      tensors_.push_back(std::move(entry));
    }
    const size_t begin = (at_ + 31) / 32 * 32;
    for (TensorEntry& entry : tensors_) {
      uint64_t values = 1;
      for (const uint64_t d : entry.shape) values *= d;
      entry.bytes = data_.substr(begin + entry.offset, *format::bytes_of(entry.type, values));
    }
  }

  template <class T>
  ModelFile& set(const std::string& key, T value) {
    std::string payload;
    append(payload, value);
    return put(key, key_type_of<T>(), payload);
  }
  ModelFile& set_text(const std::string& key, const std::string& value) {
    std::string payload;
    append_text(payload, value);
    return put(key, KeyType::string, payload);
  }
  ModelFile& without(const std::string& key) {
    std::erase_if(keys_, [&](const Key& k) { return k.name == key; });
    return *this;
  }
  ModelFile& without_tensor(const std::string& name) {
    std::erase_if(tensors_, [&](const TensorEntry& t) { return t.name == name; });
    return *this;
  }
  ModelFile& rename_tensor(const std::string& from, const std::string& to) {
    find(from).name = to;
    return *this;
  }
  // Bytes of an F32 tensor, multiplied.
  ModelFile& scale_tensor(const std::string& name, float factor) {
    std::string& bytes = find(name).bytes;
    for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, bytes.data() + i, sizeof value);
      value *= factor;
      std::memcpy(bytes.data() + i, &value, sizeof value);
    }
    return *this;
  }
  // A second tensor with the same content.
  ModelFile& copy_tensor(const std::string& from, const std::string& to) {
    TensorEntry copy = find(from);
    copy.name = to;
    tensors_.push_back(std::move(copy));
    return *this;
  }
  bool has_tensor(const std::string& name) const {
    for (const TensorEntry& t : tensors_)
      if (t.name == name) return true;
    return false;
  }

  std::string write(const ScratchFolder& folder, const std::string& name = "model.gguf") const {
    GgufBytes out;
    for (const Key& key : keys_) out.raw(key.name, key.type, key.payload);
    for (const TensorEntry& t : tensors_) out.tensor(t.name, t.type, t.shape, t.bytes);
    return folder.write(name, out.build());
  }

 private:
  struct Key {
    std::string name;
    KeyType type;
    std::string payload;
  };
  struct TensorEntry {
    std::string name;
    std::vector<uint64_t> shape;
    format::TensorType type = format::TensorType::f32;
    uint64_t offset = 0;
    std::string bytes;
  };

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, data_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string take_text() {
    const auto length = take<uint64_t>();
    at_ += length;
    return data_.substr(at_ - length, length);
  }
  void skip(KeyType type) {
    if (type == KeyType::string) {
      take_text();
    } else if (type == KeyType::array) {
      const auto element = static_cast<KeyType>(take<uint32_t>());
      for (auto count = take<uint64_t>(); count > 0; --count) skip(element);
    } else {
      constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
      at_ += kSizes[static_cast<size_t>(type)];
    }
  }
  ModelFile& put(const std::string& name, KeyType type, const std::string& payload) {
    for (Key& key : keys_)
      if (key.name == name) {
        key = {name, type, payload};
        return *this;
      }
    keys_.push_back({name, type, payload});
    return *this;
  }
  TensorEntry& find(const std::string& name) {
    for (TensorEntry& t : tensors_)
      if (t.name == name) return t;
    throw std::runtime_error("no tensor " + name);
  }

  std::string data_;
  size_t at_ = 0;
  std::vector<Key> keys_;
  std::vector<TensorEntry> tensors_;
};

// Opens a model for a test: two threads, F32 cache, and small chunks so that short prompts take several passes.
inline engine::EngineOptions test_options() {
  engine::EngineOptions options;
  options.threads = 2;
  options.cache_type = exec::CacheType::f32;
  options.context = 256;
  options.chunk = 64;
  return options;
}

// Throws with the message if the model can't be opened: that fails the test.
inline std::unique_ptr<engine::Engine> open_engine(const std::string& path,
                                                   const engine::EngineOptions& options = test_options()) {
  auto engine = engine::Engine::open(path, options);
  if (!engine) throw std::runtime_error(engine.error().message);
  return std::move(*engine);
}

inline std::unique_ptr<engine::Session> new_session(engine::Engine& engine) {
  auto session = engine.new_session();
  if (!session) throw std::runtime_error(session.error().message);
  return std::move(*session);
}

// The message of an open that must fail.
inline std::string open_error(const std::string& path, const engine::EngineOptions& options = test_options()) {
  const auto engine = engine::Engine::open(path, options);
  EXPECT_FALSE(engine.ok()) << path;
  return engine.ok() ? std::string() : engine.error().message;
}

inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "expected '" << part << "' in: " << text;
}

}  // namespace gale::test
