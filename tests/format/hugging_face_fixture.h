// A folder with a model directory in it, and what tests of directories ask about it.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <stdexcept>

#include "format/checkpoint.h"
#include "format/hugging_face_directory.h"

namespace gale::format {

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

inline std::vector<float> values_of(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor* tensor = checkpoint.find(name);
  if (!tensor) throw std::runtime_error("no " + name);
  std::vector<float> out(tensor->values());
  std::vector<std::byte> buffer;
  const Status status = decode_rows(*tensor, 0, tensor->rows(), buffer, out);
  if (!status.ok()) throw std::runtime_error(status.error().message);
  return out;
}

inline std::vector<float> counting(size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(i);
  return out;
}

inline std::vector<uint16_t> bf16(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  for (const float value : values) out.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  return out;
}

}  // namespace gale::format
