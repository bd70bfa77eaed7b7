// Instruction sets, thread defaults and processor quotas, the latter over made-up systems.
#include "base/cpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/scratch_folder.h"

namespace gale {
namespace {

// Sets GALE_ISA for one test.
struct ForcedIsa {
  explicit ForcedIsa(const char* value) { ::setenv("GALE_ISA", value, 1); }
  ~ForcedIsa() { ::unsetenv("GALE_ISA"); }
};

TEST(Cpu, NamesAndParsing) {
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    auto parsed = parse_isa(name(isa));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, isa);
  }
  auto wrong = parse_isa("AVX2");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("scalar, avx2 or avx512"), std::string::npos);
}

TEST(Cpu, TheEnvironmentForcesAnInstructionSet) {
  {
    ForcedIsa forced("scalar");
    auto isa = choose_isa();
    ASSERT_TRUE(isa.ok());
    EXPECT_EQ(*isa, Isa::scalar);
  }
  {
    ForcedIsa forced("");
    auto isa = choose_isa();
    ASSERT_TRUE(isa.ok());
    EXPECT_EQ(*isa, detect_isa());
  }
  {
    ForcedIsa forced("neon");
    auto isa = choose_isa();
    ASSERT_FALSE(isa.ok());
    EXPECT_NE(isa.error().message.find("GALE_ISA"), std::string::npos);
    EXPECT_NE(isa.error().message.find("'neon'"), std::string::npos);
  }
  if (detect_isa() < Isa::avx512) {
    ForcedIsa forced("avx512");
    auto isa = choose_isa();
    ASSERT_FALSE(isa.ok());
    EXPECT_EQ(isa.error().kind, ErrorKind::unsupported);
  }
  auto free = choose_isa();
  ASSERT_TRUE(free.ok());
  EXPECT_EQ(*free, detect_isa());
}

TEST(Cpu, ThisMachine) {
  const std::vector<int> processors = allowed_processors();
  ASSERT_FALSE(processors.empty());
  for (size_t i = 1; i < processors.size(); ++i) EXPECT_LT(processors[i - 1], processors[i]);
  EXPECT_GE(default_thread_count(), 1);
  EXPECT_LE(default_thread_count(), static_cast<int>(processors.size()));
  EXPECT_GT(processor_quota(), 0.0);
}

constexpr char v2_mount[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
constexpr char v1_mount[] = "33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

std::vector<int> first(int count) {
  std::vector<int> processors(static_cast<size_t>(count));
  std::iota(processors.begin(), processors.end(), 0);
  return processors;
}

TEST(Cpu, NoGroupMeansNoQuota) {
  ScratchFolder root;
  EXPECT_TRUE(std::isinf(processor_quota(root.path())));
  EXPECT_EQ(thread_count_for(first(6), root.path()), 6);
}

TEST(Cpu, QuotaV2) {
  ScratchFolder root;
  root.write("proc/self/mountinfo", v2_mount);
  root.write("proc/self/cgroup", "0::/user/job\n");
  struct Case {
    const char* text;
    double quota;
    int threads;
  };
  const Case cases[] = {{"200000 100000\n", 2.0, 2}, {"50000 100000\n", 0.5, 1},     {"350000 100000\n", 3.5, 3},
                        {"100000 20000\n", 5.0, 5},  {"max 100000\n", INFINITY, 16}, {"", INFINITY, 16},
                        {"garbage\n", INFINITY, 16}, {"200000 0\n", INFINITY, 16},   {"3200000 100000\n", 32.0, 16}};
  for (const Case& entry : cases) {
    root.write("sys/fs/cgroup/user/job/cpu.max", entry.text);
    EXPECT_EQ(processor_quota(root.path()), entry.quota) << entry.text;
    EXPECT_EQ(thread_count_for(first(16), root.path()), entry.threads) << entry.text;
  }
  EXPECT_EQ(thread_count_for({3}, root.path()), 1);
}

TEST(Cpu, TheTightestGroupAboveDecides) {
  ScratchFolder root;
  root.write("proc/self/mountinfo", v2_mount);
  root.write("proc/self/cgroup", "0::/user/job/step\n");
  root.write("sys/fs/cgroup/user/job/step/cpu.max", "800000 100000\n");
  root.write("sys/fs/cgroup/user/cpu.max", "300000 100000\n");
  EXPECT_EQ(processor_quota(root.path()), 3.0);
  // A container sees its own group as the root of the mount.
  root.write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(processor_quota(root.path()), 1.0);
}

TEST(Cpu, GroupsSeenFromInsideAContainer) {
  ScratchFolder root;
  root.write("proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  root.write("sys/fs/cgroup/inner/cpu.max", "250000 100000\n");
  root.write("proc/self/cgroup", "0::/docker/abc/inner\n");
  EXPECT_EQ(processor_quota(root.path()), 2.5);
  for (const char* group : {"0::/docker/abc\n", "0::/docker/abcdef\n", "0::/../other\n"}) {
    root.write("proc/self/cgroup", group);
    EXPECT_EQ(processor_quota(root.path()), 4.0) << group;
  }
}

TEST(Cpu, QuotaV1) {
  ScratchFolder root;
  root.write("proc/self/mountinfo", std::string("25 1 8:1 / / rw - ext4 /dev/sda1 rw\n") + v1_mount);
  root.write("proc/self/cgroup", "5:devices:/x\n2:cpu,cpuacct:/a/b\n1:name=systemd:/a/b\n0::/\n");
  const std::string base = "sys/fs/cgroup/cpu,cpuacct/a/";
  root.write(base + "b/cpu.cfs_quota_us", "-1\n");
  root.write(base + "b/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(processor_quota(root.path())));
  root.write(base + "cpu.cfs_quota_us", "250000\n");
  root.write(base + "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processor_quota(root.path()), 2.5);
  EXPECT_EQ(thread_count_for(first(8), root.path()), 2);
}

TEST(Cpu, OneThreadPerPhysicalCore) {
  ScratchFolder root;
  for (int i = 0; i < 8; ++i) {  // processors i and i + 4 share a core
    const int core = i % 4;
    root.write("sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list",
               std::to_string(core) + "," + std::to_string(core + 4) + "\n");
  }
  EXPECT_EQ(thread_count_for(first(8), root.path()), 4);
  EXPECT_EQ(one_processor_per_core({1, 2, 5, 6, 7}, root.path()), (std::vector<int>{1, 2, 7}));
  EXPECT_EQ(thread_count_for({0, 4}, root.path()), 1);
}

}  // namespace
}  // namespace gale
