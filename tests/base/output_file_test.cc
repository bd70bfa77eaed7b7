// Files that appear only when they are complete: contents, replacement, removal, refusals.
#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/scratch_folder.h"

namespace gale {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(OutputFile, AppearsWhenComplete) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/out";
  auto file = OutputFile::create(path, 10);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_TRUE(file->write_at(6, bytes_of("def")).ok());
  ASSERT_TRUE(file->write_at(1, bytes_of("abc")).ok());
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(content(path), std::string("\0abc\0\0def\0", 10));
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(OutputFile, ReplacesWhatWasThereAndKeepsItUntilThen) {
  const ScratchFolder folder;
  const std::string path = folder.write("out", "old");
  {
    const auto abandoned = OutputFile::create(path, 3);
    ASSERT_TRUE(abandoned.ok());
    ASSERT_TRUE(abandoned->write_at(0, bytes_of("new")).ok());
  }
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
  auto file = OutputFile::create(path, 3);
  ASSERT_TRUE(file->write_at(0, bytes_of("new")).ok());
  OutputFile moved = *std::move(file);
  ASSERT_TRUE(moved.commit().ok());
  EXPECT_EQ(content(path), "new");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(OutputFile, NothingIsLeftOfAProcessThatIsKilled) {
  const ScratchFolder folder;
  const int probe = ::open(folder.path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without a name";
  ::close(probe);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto file = OutputFile::create(folder.path() + "/out", 3);
    ::_exit(file.ok() && file->write_at(0, bytes_of("abc")).ok() ? 0 : 1);  // without any destructor
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files_in(folder.path()), 0u);
}

TEST(OutputFile, EmptyFile) {
  const ScratchFolder folder;
  auto file = OutputFile::create(folder.path() + "/out", 0);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(fs::file_size(folder.path() + "/out"), 0u);
}

TEST(OutputFile, RefusalsNameThePath) {
  const ScratchFolder folder;
  for (const std::string& path : {folder.path(), folder.path() + "/no/such/out", std::string("/dev/null")}) {
    const auto file = OutputFile::create(path, 3);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_NE(file.error().message.find(path), std::string::npos) << file.error().message;
  }
  EXPECT_EQ(files_in(folder.path()), 0u);
}

TEST(OutputFile, NoRoom) {
  const ScratchFolder folder;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 1 << 20;
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto file = OutputFile::create(folder.path() + "/out", (1 << 20) + 1);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::io);
  EXPECT_NE(file.error().message.find("1048577 bytes"), std::string::npos) << file.error().message;
  EXPECT_EQ(files_in(folder.path()), 0u);
}

TEST(OutputFile, SameFileThroughLinks) {
  const ScratchFolder folder;
  const std::string a = folder.write("a", "x"), b = folder.write("b", "x");
  fs::create_hard_link(a, folder.path() + "/hard");
  fs::create_symlink(a, folder.path() + "/soft");
  fs::create_symlink(folder.path() + "/none", folder.path() + "/dangling");
  EXPECT_TRUE(same_file(a, a));
  EXPECT_TRUE(same_file(a, folder.path() + "/./hard"));
  EXPECT_TRUE(same_file(folder.path() + "/soft", a));
  EXPECT_FALSE(same_file(a, b));
  EXPECT_FALSE(same_file(folder.path() + "/dangling", folder.path() + "/dangling"));
}

}  // namespace
}  // namespace gale
