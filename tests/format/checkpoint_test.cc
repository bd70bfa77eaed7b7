// Opening of files by path: single ones, split ones from any part, and every way in which parts may disagree.
#include "format/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "format/gguf_bytes.h"

namespace gale::format {
namespace {

namespace fs = std::filesystem;
using test::GgufBytes;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / (std::string("gale_checkpoint_") + std::to_string(::getpid()) + "_" +
                                                ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // The three parts of a small split model with two, zero and one tensors.
  static GgufBytes part(uint16_t number, uint16_t count = 3, int32_t tensors = 3) {
    GgufBytes out;
    if (number == 0) out.text("general.architecture", "llama");
    out.value<uint16_t>("split.no", number).value<uint16_t>("split.count", count);
    out.value<int32_t>("split.tensors.count", tensors);
    if (number == 0) out.floats("a", {2}, {1, 2}).floats("b", {1}, {3});
    if (number == 2) out.floats("c", {3}, {4, 5, 6});
    return out;
  }

  void write_parts() const {
    part(0).write(path("m-00001-of-00003.gguf"));
    part(1).write(path("m-00002-of-00003.gguf"));
    part(2).write(path("m-00003-of-00003.gguf"));
  }

  // The message of the error that opening must give; its kind must be `kind`.
  std::string error_of(const std::string& name, ErrorKind kind = ErrorKind::invalid_input) const {
    const auto opened = Checkpoint::open(path(name));
    EXPECT_FALSE(opened.ok()) << name;
    if (opened.ok()) return "";
    EXPECT_EQ(opened.error().kind, kind) << opened.error().message;
    return opened.error().message;
  }

  fs::path folder_;
};

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> out(tensor.values());
  EXPECT_TRUE(decode(tensor.type, tensor.bytes, out).ok());
  return out;
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(CheckpointTest, SingleFile) {
  GgufBytes().text("general.architecture", "llama").floats("x", {2, 2}, {1, 2, 3, 4}).write(path("m.gguf"));
  const auto opened = Checkpoint::open(path("m.gguf"));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  ASSERT_EQ(opened->tensors().size(), 1u);
  const Tensor* x = opened->find("x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->row_length(), 2u);
  EXPECT_EQ(x->rows(), 2u);
  EXPECT_EQ(values_of(*x), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(opened->find("y"), nullptr);
  EXPECT_EQ(opened->files().size(), 1u);
  EXPECT_EQ(opened->total_bytes(), fs::file_size(path("m.gguf")));
  EXPECT_EQ(**opened->metadata().text("general.architecture"), "llama");
  opened->will_read(*x);
  opened->release(*x);
  opened->release(*x, 1, 1);
  EXPECT_EQ(values_of(*x), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(CheckpointTest, MovedCheckpointStaysWhole) {
  GgufBytes().text("k", "value").floats("x", {1}, {7}).write(path("m.gguf"));
  auto opened = Checkpoint::open(path("m.gguf"));
  ASSERT_TRUE(opened.ok());
  Checkpoint first = *std::move(opened);
  const Checkpoint second = std::move(first);
  ASSERT_NE(second.find("x"), nullptr);
  EXPECT_EQ(values_of(*second.find("x")), std::vector<float>{7});
  EXPECT_EQ(**second.metadata().text("k"), "value");
}

TEST_F(CheckpointTest, MissingFileDirectoryEmptyAndOtherFiles) {
  EXPECT_CONTAINS(error_of("none.gguf", ErrorKind::not_found), "none.gguf");
  fs::create_directories(path("folder"));
  EXPECT_CONTAINS(error_of("folder", ErrorKind::not_found), "directory");
  std::ofstream(path("empty.gguf")).flush();
  EXPECT_CONTAINS(error_of("empty.gguf"), "empty");
  std::ofstream(path("model.txt")) << "Hello\nworld\n";
  EXPECT_CONTAINS(error_of("model.txt"), "model.txt: not a GGUF file: it starts with \"Hello\", not \"GGUF\"");
}

TEST_F(CheckpointTest, SplitFilesOpenFromAnyPart) {
  write_parts();
  for (const char* name : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto opened = Checkpoint::open(path(name));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ(opened->files().size(), 3u);
    ASSERT_EQ(opened->tensors().size(), 3u);
    EXPECT_EQ(opened->tensors()[0].name, "a");
    EXPECT_EQ(opened->find("b")->file, 0u);
    EXPECT_EQ(opened->find("c")->file, 2u);
    EXPECT_EQ(values_of(*opened->find("c")), (std::vector<float>{4, 5, 6}));
    EXPECT_EQ(**opened->metadata().text("general.architecture"), "llama");
    EXPECT_EQ(**opened->metadata().unsigned_integer("split.no"), 0u);
    opened->will_read(*opened->find("c"));
  }
}

TEST_F(CheckpointTest, MissingPartIsNamed) {
  write_parts();
  fs::remove(path("m-00002-of-00003.gguf"));
  const std::string message = error_of("m-00003-of-00003.gguf", ErrorKind::not_found);
  EXPECT_CONTAINS(message, "m-00002-of-00003.gguf");
  EXPECT_CONTAINS(message, "part 2 of 3");
}

TEST_F(CheckpointTest, RenamedPartIsExplained) {
  write_parts();
  fs::rename(path("m-00001-of-00003.gguf"), path("model.gguf"));
  EXPECT_CONTAINS(error_of("model.gguf"), "-00001-of-00003.gguf");
  // Under the name of another part.
  fs::rename(path("model.gguf"), path("m-00002-of-00003.gguf"));
  EXPECT_CONTAINS(error_of("m-00002-of-00003.gguf"), "-00001-of-00003.gguf");
}

TEST_F(CheckpointTest, PartsThatDisagree) {
  write_parts();
  part(1).write(path("m-00003-of-00003.gguf"));
  EXPECT_CONTAINS(error_of("m-00001-of-00003.gguf"), "split.no");
  part(2, 4).write(path("m-00003-of-00003.gguf"));
  EXPECT_CONTAINS(error_of("m-00001-of-00003.gguf"), "split.count");
  GgufBytes().floats("c", {1}, {1}).write(path("m-00003-of-00003.gguf"));  // no split keys at all
  EXPECT_CONTAINS(error_of("m-00001-of-00003.gguf"), "m-00003-of-00003.gguf");
  part(2, 3, 4).write(path("m-00003-of-00003.gguf"));
  EXPECT_CONTAINS(error_of("m-00001-of-00003.gguf"), "split.tensors.count");
  part(2, 3, -1).write(path("m-00003-of-00003.gguf"));
  EXPECT_CONTAINS(error_of("m-00001-of-00003.gguf"), "split.tensors.count");
}

TEST_F(CheckpointTest, SameTensorInTwoParts) {
  write_parts();
  GgufBytes twice;
  twice.value<uint16_t>("split.no", 2).value<uint16_t>("split.count", 3).value<int32_t>("split.tensors.count", 3);
  twice.floats("a", {1}, {0}).write(path("m-00003-of-00003.gguf"));
  const std::string message = error_of("m-00001-of-00003.gguf");
  EXPECT_CONTAINS(message, "'a'");
  EXPECT_CONTAINS(message, "m-00001-of-00003.gguf");
  EXPECT_CONTAINS(message, "m-00003-of-00003.gguf");
}

TEST_F(CheckpointTest, DamagedPartIsNamed) {
  write_parts();
  fs::resize_file(path("m-00003-of-00003.gguf"), 40);
  const std::string message = error_of("m-00001-of-00003.gguf");
  EXPECT_CONTAINS(message, "m-00003-of-00003.gguf");
  EXPECT_CONTAINS(message, "part 3 of 3");
}

TEST_F(CheckpointTest, WrongSplitKeys) {
  GgufBytes().value<uint16_t>("split.no", 3).value<uint16_t>("split.count", 3).write(path("m-00004-of-00003.gguf"));
  EXPECT_CONTAINS(error_of("m-00004-of-00003.gguf"), "split.no");
  GgufBytes().value<uint16_t>("split.count", 3).write(path("m-00001-of-00003.gguf"));
  EXPECT_CONTAINS(error_of("m-00001-of-00003.gguf"), "split.no");
  GgufBytes().text("split.count", "three").write(path("s.gguf"));
  EXPECT_CONTAINS(error_of("s.gguf"), "split.count");
  GgufBytes().value<uint64_t>("split.no", 0).value<uint64_t>("split.count", ~uint64_t{0}).write(path("h.gguf"));
  EXPECT_CONTAINS(error_of("h.gguf"), "split.count");
  GgufBytes()
      .value<uint16_t>("split.no", 0)
      .value<uint16_t>("split.count", 1)
      .value<int32_t>("split.tensors.count", 5)
      .write(path("one.gguf"));
  EXPECT_CONTAINS(error_of("one.gguf"), "split.tensors.count");
}

TEST_F(CheckpointTest, MergedFilesKeepHarmlessSplitKeys) {
  GgufBytes merged;
  merged.value<uint16_t>("split.no", 0).value<uint16_t>("split.count", 0).value<int32_t>("split.tensors.count", 9);
  merged.floats("x", {1}, {1}).write(path("merged.gguf"));
  const auto opened = Checkpoint::open(path("merged.gguf"));
  EXPECT_TRUE(opened.ok()) << opened.error().message;
}

}  // namespace
}  // namespace gale::format
