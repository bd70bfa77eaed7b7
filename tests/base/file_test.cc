// Mapped files: contents, every refusal with its message, moves, advice on pages.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/scratch_folder.h"

namespace gale {
namespace {

std::string text_of(const MappedFile& file) {
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

TEST(File, MapsTheWholeFile) {
  ScratchFolder folder;
  for (size_t size : {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{100001}}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 256);
    const std::string path = folder.write("file.bin", text);
    auto file = MappedFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->path(), path);
    EXPECT_EQ(text_of(*file), text);
  }
}

TEST(File, RefusalsNamePathAndReason) {
  ScratchFolder folder;
  const std::string empty = folder.write("empty", "");
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  struct Case {
    std::string path, part;
    ErrorKind kind;
  };
  const Case cases[] = {
      {folder.path() + "/missing", "No such file", ErrorKind::not_found},
      {folder.write("file", "x") + "/below", "Not a directory", ErrorKind::not_found},
      {folder.path(), "is a directory", ErrorKind::invalid_input},
      {empty, "is empty", ErrorKind::invalid_input},
      {fifo, "not a regular file", ErrorKind::invalid_input},
      {"", "No such file", ErrorKind::not_found},
  };
  for (const Case& entry : cases) {
    auto file = MappedFile::open(entry.path);
    ASSERT_FALSE(file.ok()) << entry.path;
    EXPECT_EQ(file.error().kind, entry.kind) << entry.path;
    EXPECT_NE(file.error().message.find("'" + entry.path + "'"), std::string::npos) << file.error().message;
    EXPECT_NE(file.error().message.find(entry.part), std::string::npos) << file.error().message;
  }
}

TEST(File, UnreadableFile) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  ScratchFolder folder;
  const std::string path = folder.write("secret", "x");
  ::chmod(path.c_str(), 0);
  auto file = MappedFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::io);
}

TEST(File, MoveKeepsTheAddress) {
  ScratchFolder folder;
  auto first = MappedFile::open(folder.write("a", "first"));
  auto second = MappedFile::open(folder.write("b", "second"));
  ASSERT_TRUE(first.ok() && second.ok());
  const std::byte* address = first->bytes().data();
  MappedFile moved = *std::move(first);
  EXPECT_EQ(moved.bytes().data(), address);
  moved = *std::move(second);
  EXPECT_EQ(text_of(moved), "second");
}

TEST(File, AdviceKeepsTheContents) {
  ScratchFolder folder;
  std::string text(50000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i % 251);
  auto file = MappedFile::open(folder.write("file", text));
  ASSERT_TRUE(file.ok());
  const auto bytes = file->bytes();
  for (auto [begin, size] :
       {std::pair<size_t, size_t>{0, 50000}, {1, 10}, {4095, 2}, {4096, 8192}, {49999, 1}, {100, 0}}) {
    file->will_read(bytes.subspan(begin, size));
    file->release(bytes.subspan(begin, size));
    EXPECT_EQ(text_of(*file), text);
  }
}

}  // namespace
}  // namespace gale
