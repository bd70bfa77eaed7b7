// Writes small safetensors files, right ones and (with a header of one's own) wrong ones, for tests of any room.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace gale::test {

// A file with this text as its header, whatever it says.
inline std::string safetensors_file(std::string_view header, std::string_view data = "") {
  const uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  out += header;
  out += data;
  return out;
}

template <class T>
std::string bytes_of_numbers(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Use: SafetensorsBytes().tensor("w", "F32", {2, 2}, bytes_of_numbers<float>({1, 2, 3, 4})).write(path);
class SafetensorsBytes {
 public:
  SafetensorsBytes& tensor(const std::string& name, const std::string& dtype, const std::vector<uint64_t>& shape,
                           const std::string& bytes) {
    std::string sizes;
    for (const uint64_t size : shape) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    header_ += (header_.empty() ? "" : ",") + ("\"" + name) + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + sizes +
               "],\"data_offsets\":[" + std::to_string(data_.size()) + "," +
               std::to_string(data_.size() + bytes.size()) + "]}";
    data_ += bytes;
    return *this;
  }

  SafetensorsBytes& floats(const std::string& name, const std::vector<uint64_t>& shape,
                           const std::vector<float>& values) {
    return tensor(name, "F32", shape, bytes_of_numbers(values));
  }

  std::string build() const { return safetensors_file("{" + header_ + "}", data_); }
  void write(const std::string& path) const { std::ofstream(path, std::ios::binary) << build(); }

 private:
  std::string header_, data_;
};

}  // namespace gale::test
