// The thread team: every member works once a run, barriers order memory, odd sizes and sleepers included.
#include "base/team.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/cpu.h"

namespace gale {
namespace {

std::unique_ptr<Team> make_team(int threads) {
  Team::Options options;
  options.threads = threads;
  auto team = Team::create(options);
  EXPECT_TRUE(team.ok());
  return *std::move(team);
}

std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::pthread_getaffinity_np(::pthread_self(), sizeof set, &set);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

class TeamOfSize : public testing::TestWithParam<int> {};

TEST_P(TeamOfSize, EveryMemberRunsOnceAndTheResultIsVisible) {
  const int size = GetParam();
  auto team = make_team(size);
  ASSERT_EQ(team->size(), size);
  std::vector<int> counts(static_cast<size_t>(size));  // plain ints: the team itself has to order the accesses
  for (int run = 1; run <= 500; ++run) {
    team->run([&](int member) { ++counts[static_cast<size_t>(member)]; });
    for (int count : counts) ASSERT_EQ(count, run);
  }
}

// Each member writes its slot, and after the barrier reads its neighbour's: wrong as soon as one passes too early.
TEST_P(TeamOfSize, BarriersOrderMemory) {
  const int size = GetParam();
  auto team = make_team(size);
  struct alignas(64) Slot {
    int value = 0;
  };
  std::vector<Slot> slots(static_cast<size_t>(size));
  std::vector<int> wrong(static_cast<size_t>(size));
  const int runs = 20, phases = 50;
  for (int run = 0; run < runs; ++run) {
    team->run([&](int member) {
      const size_t self = static_cast<size_t>(member), next = static_cast<size_t>((member + 1) % size);
      for (int phase = 0; phase < phases; ++phase) {
        slots[self].value = run * phases + phase;
        team->barrier(member);
        if (slots[next].value != run * phases + phase) ++wrong[self];
        team->barrier(member);
      }
    });
  }
  for (int count : wrong) EXPECT_EQ(count, 0);
}

// A slow member, a different one each time, makes the others sleep at the barrier and at the end.
TEST_P(TeamOfSize, SleepersWakeUp) {
  const int size = GetParam();
  auto team = make_team(size);
  std::atomic<int> passed{0};
  for (int run = 0; run < 2 * size; ++run) {
    passed = 0;
    team->run([&](int member) {
      if (member == run % size) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      team->barrier(member);
      ++passed;
      if (member == (run + 1) % size) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
    ASSERT_EQ(passed, size);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the members sleep before the next start
  }
}

TEST_P(TeamOfSize, EndsWhileIdleOrNeverUsed) {
  for (int round = 0; round < 10; ++round) {
    auto unused = make_team(GetParam());
    auto used = make_team(GetParam());
    used->run([](int) {});
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, TeamOfSize, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 33));

TEST(Team, WorksFromOneCallingThreadAfterTheOther) {
  auto team = make_team(3);
  int total = 0;
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      std::vector<int> done(3);
      team->run([&](int member) { done[static_cast<size_t>(member)] = 1; });
      total += done[0] + done[1] + done[2];
    }).join();
  }
  EXPECT_EQ(total, 60);
}

TEST(Team, IdleTeamUsesNoProcessorTime) {
  auto team = make_team(4);
  team->run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto used = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + static_cast<double>(usage.ru_utime.tv_usec) +
           static_cast<double>(usage.ru_stime.tv_usec);
  };
  const double before = used();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(used() - before, 100e3);  // three spinning members would use up to 600 ms
}

TEST(Team, RefusesWhatCannotBe) {
  for (int threads : {-1, 0, 1025}) {
    Team::Options options;
    options.threads = threads;
    auto team = Team::create(options);
    ASSERT_FALSE(team.ok()) << threads;
    EXPECT_NE(team.error().message.find(std::to_string(threads)), std::string::npos);
  }
  for (int processor : {-1, 16000, 1 << 20}) {
    Team::Options options;
    options.threads = 2;
    options.processors = {processor};
    auto team = Team::create(options);
    ASSERT_FALSE(team.ok()) << processor;
    EXPECT_NE(team.error().message.find(std::to_string(processor)), std::string::npos);
  }
}

TEST(Team, PinsMembersAndGivesTheCallerItsAffinityBack) {
  const std::vector<int> before = affinity();
  for (bool pin_caller : {false, true}) {
    for (int threads : {1, 2, 3}) {
      Team::Options options;
      options.threads = threads;
      options.processors = {before.back(), before.front()};
      options.pin_caller = pin_caller;
      auto team = Team::create(options);
      ASSERT_TRUE(team.ok()) << team.error().message;
      std::vector<std::vector<int>> seen(static_cast<size_t>(threads));
      (*team)->run([&](int member) { seen[static_cast<size_t>(member)] = affinity(); });
      for (int i = 0; i < threads; ++i) {
        const auto expected =
            i > 0 || pin_caller ? std::vector<int>{options.processors[static_cast<size_t>(i) % 2]} : before;
        EXPECT_EQ(seen[static_cast<size_t>(i)], expected) << i;
      }
      EXPECT_EQ(affinity(), before);
    }
  }
}

TEST(Team, SplitRangeCoversAllInOrder) {
  for (size_t count : {0, 1, 2, 7, 8, 9, 1000}) {
    for (int members : {1, 2, 3, 8, 64}) {
      size_t next = 0;
      for (int member = 0; member < members; ++member) {
        const Range range = split_range(count, member, members);
        EXPECT_EQ(range.begin, next);
        const size_t size = range.end - range.begin, share = count / static_cast<size_t>(members);
        EXPECT_TRUE(size == share || size == share + 1);
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace gale
