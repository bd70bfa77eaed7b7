// Writes small GGUF files in memory, right ones and (through the public fields) wrong ones, for tests of any room.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "format/tensor_type.h"

namespace gale::test {

// GGUF's ids of metadata value types.
enum class KeyType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

template <class T>
constexpr KeyType key_type_of() {
  if constexpr (std::is_same_v<T, bool>) return KeyType::boolean;
  if constexpr (std::is_same_v<T, uint8_t>) return KeyType::u8;
  if constexpr (std::is_same_v<T, int8_t>) return KeyType::i8;
  if constexpr (std::is_same_v<T, uint16_t>) return KeyType::u16;
  if constexpr (std::is_same_v<T, int16_t>) return KeyType::i16;
  if constexpr (std::is_same_v<T, uint32_t>) return KeyType::u32;
  if constexpr (std::is_same_v<T, int32_t>) return KeyType::i32;
  if constexpr (std::is_same_v<T, uint64_t>) return KeyType::u64;
  if constexpr (std::is_same_v<T, int64_t>) return KeyType::i64;
  if constexpr (std::is_same_v<T, float>) return KeyType::f32;
  if constexpr (std::is_same_v<T, double>) return KeyType::f64;
}

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A length and the bytes, as GGUF stores text.
inline void append_text(std::string& out, std::string_view text) {
  append<uint64_t>(out, text.size());
  out += text;
}

inline std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Use: GgufBytes().text("general.architecture", "llama").value<uint32_t>("llama.block_count", 2)
//          .floats("output_norm.weight", {4}, {1, 1, 1, 1}).write(path);
class GgufBytes {
 public:
  // What build() writes into the header; counts are right unless set.
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t extra_keys = 0, extra_tensors = 0;  // added to the counts
  uint64_t alignment = 32;                     // of the data; add the key general.alignment where it isn't 32
  bool pad_last = true;                        // pad after the last tensor
  std::string trailer;                         // bytes after everything

  // A key with a value whose bytes are given as they stand.
  GgufBytes& raw(std::string_view key, KeyType type, std::string_view payload) {
    append_text(keys_, key);
    append(keys_, static_cast<uint32_t>(type));
    keys_ += payload;
    ++key_count_;
    return *this;
  }

  template <class T>
  GgufBytes& value(std::string_view key, T v) {
    std::string payload;
    append(payload, v);
    return raw(key, key_type_of<T>(), payload);
  }

  GgufBytes& text(std::string_view key, std::string_view v) {
    std::string payload;
    append_text(payload, v);
    return raw(key, KeyType::string, payload);
  }

  template <class T>
  GgufBytes& array(std::string_view key, const std::vector<T>& values) {
    std::string payload;
    append(payload, static_cast<uint32_t>(key_type_of<T>()));
    append<uint64_t>(payload, values.size());
    for (const T v : values) append(payload, v);
    return raw(key, KeyType::array, payload);
  }

  GgufBytes& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string payload;
    append(payload, static_cast<uint32_t>(KeyType::string));
    append<uint64_t>(payload, values.size());
    for (const std::string& v : values) append_text(payload, v);
    return raw(key, KeyType::array, payload);
  }

  // A tensor whose bytes are given; its offset follows from the tensors before it.
  GgufBytes& tensor(std::string_view name, format::TensorType type, const std::vector<uint64_t>& shape,
                    std::string_view bytes) {
    pad_data();
    const uint64_t offset = data_.size();
    data_ += bytes;
    return tensor_info(name, static_cast<uint32_t>(type), shape, offset);
  }

  GgufBytes& floats(std::string_view name, const std::vector<uint64_t>& shape, const std::vector<float>& values) {
    return tensor(name, format::TensorType::f32, shape,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  // Only the entry in the table, with any numbers.
  GgufBytes& tensor_info(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape, uint64_t offset) {
    append_text(tensors_, name);
    append<uint32_t>(tensors_, static_cast<uint32_t>(shape.size()));
    for (const uint64_t d : shape) append(tensors_, d);
    append(tensors_, type);
    append(tensors_, offset);
    ++tensor_count_;
    return *this;
  }

  // Bytes of the data section without an entry in the table.
  GgufBytes& data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }

  std::string build() const {
    std::string out = magic;
    append(out, version);
    append(out, tensor_count_ + extra_tensors);
    append(out, key_count_ + extra_keys);
    out += keys_;
    out += tensors_;
    if (!data_.empty() || pad_last) pad(out, alignment);
    out += data_;
    if (pad_last) pad(out, alignment);
    out += trailer;
    return out;
  }

  void write(const std::string& path) const {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    const std::string bytes = build();
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  static void pad(std::string& out, uint64_t alignment) {
    while (out.size() % alignment != 0) out += '\0';
  }
  void pad_data() { pad(data_, alignment); }

  std::string keys_, tensors_, data_;
  uint64_t key_count_ = 0, tensor_count_ = 0;
};

}  // namespace gale::test
