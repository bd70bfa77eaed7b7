// Page buffers and the memory limits of control groups, the latter over made-up systems.
#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "base/scratch_folder.h"

namespace gale {
namespace {

TEST(Memory, BuffersAreAlignedZeroAndWritable) {
  for (bool huge : {false, true}) {
    for (size_t bytes : {size_t{1}, size_t{4096}, (size_t{2} << 20) - 1, size_t{2} << 20, (size_t{4} << 20) + 1}) {
      auto buffer = PageBuffer::allocate(bytes, huge);
      ASSERT_TRUE(buffer.ok()) << buffer.error().message;
      EXPECT_EQ(buffer->size(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % (size_t{2} << 20), 0u);
      for (size_t i = 0; i < bytes; i += 1021) EXPECT_EQ(buffer->data()[i], std::byte{0});
      std::memset(buffer->data(), 7, bytes);
      EXPECT_EQ(buffer->data()[bytes - 1], std::byte{7});
    }
  }
}

TEST(Memory, EmptyBuffer) {
  auto buffer = PageBuffer::allocate(0, true);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->size(), 0u);
  buffer->release(0, 100);
}

TEST(Memory, ImpossibleSizesAreErrors) {
  for (size_t bytes :
       {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - (size_t{3} << 20), size_t{1} << 60}) {
    auto buffer = PageBuffer::allocate(bytes, true);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().kind, ErrorKind::limit);
    EXPECT_NE(buffer.error().message.find(std::to_string(bytes)), std::string::npos);
  }
}

TEST(Memory, MoveAndRelease) {
  auto made = PageBuffer::allocate(20000, false);
  ASSERT_TRUE(made.ok());
  PageBuffer buffer;
  buffer = *std::move(made);
  std::memset(buffer.data(), 1, buffer.size());
  buffer.release(100, 9000);  // only the page [4096, 8192) lies inside
  EXPECT_EQ(buffer.data()[4095], std::byte{1});
  EXPECT_EQ(buffer.data()[4096], std::byte{0});
  EXPECT_EQ(buffer.data()[8191], std::byte{0});
  EXPECT_EQ(buffer.data()[8192], std::byte{1});
  buffer.release(8192, std::numeric_limits<size_t>::max());
  EXPECT_EQ(buffer.data()[8192], std::byte{0});
  EXPECT_EQ(buffer.data()[19999], std::byte{0});
  buffer.release(20000, 5);
  PageBuffer other(std::move(buffer));
  EXPECT_EQ(other.size(), 20000u);
  EXPECT_EQ(other.data()[4095], std::byte{1});
}

TEST(Memory, AvailableIsPlausible) {
  const size_t available = available_memory_bytes();
  EXPECT_GT(available, size_t{1} << 20);
  EXPECT_LT(available, size_t{1} << 50);
}

constexpr char v2_mount[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
constexpr char v1_mount[] = "33 30 0:29 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n";

TEST(Memory, OnlyTheMachine) {
  ScratchFolder root;
  root.write("proc/meminfo", "MemTotal:  2000 kB\nMemFree:  10 kB\nMemAvailable:  1500 kB\nCached:  700 kB\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 1500u * 1024);
  root.write("proc/meminfo", "MemTotal:  2000 kB\nMemFree:  10 kB\nCached:  700 kB\nSwapCached: 3 kB\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 710u * 1024);
}

TEST(Memory, GroupV2CountsFilePagesAsFree) {
  ScratchFolder root;
  root.write("proc/meminfo", "MemAvailable: 900000 kB\n");
  root.write("proc/self/mountinfo", v2_mount);
  root.write("proc/self/cgroup", "0::/a/b\n");
  root.write("sys/fs/cgroup/a/b/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/a/b/memory.current", "600000\n");
  root.write("sys/fs/cgroup/a/b/memory.stat", "anon 100\nfile 999\ninactive_file 200000\nactive_file 50000\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 650000u);
  // A tighter group above decides.
  root.write("sys/fs/cgroup/a/memory.max", "700000\n");
  root.write("sys/fs/cgroup/a/memory.current", "650000\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 50000u);
  root.write("sys/fs/cgroup/a/memory.current", "750000\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 0u);
  root.write("sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 650000u);
}

TEST(Memory, GroupV1) {
  ScratchFolder root;
  root.write("proc/meminfo", "MemAvailable: 900000 kB\n");
  root.write("proc/self/mountinfo", v1_mount);
  root.write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/a\n0::/\n");
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "500000\n");
  root.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "300000\n");
  root.write("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 300000u);
}

}  // namespace
}  // namespace gale
