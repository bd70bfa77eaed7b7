// Scheduler statistics: the text of the kernel, and two threads that share one processor.
#include "base/contention.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/cpu.h"

namespace gale {
namespace {

TEST(Contention, ParsesTheKernelsText) {
  EXPECT_EQ(parse_waiting_ns("123 456 7\n"), 456u);
  EXPECT_EQ(parse_waiting_ns("0 0 0"), 0u);
  EXPECT_EQ(parse_waiting_ns("1 18446744073709551615 2"), UINT64_MAX);
  for (const char* text : {"", "5", "5 ", "5 x 1", "5 99999999999999999999 1"}) {
    EXPECT_EQ(parse_waiting_ns(text), std::nullopt) << text;
  }
}

TEST(Contention, NoticesASharedProcessor) {
  if (!std::ifstream("/proc/thread-self/schedstat")) GTEST_SKIP() << "this kernel has no scheduler statistics";
  const int processor = allowed_processors().front();
  const auto pin = [&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(processor), &set);
    ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
  };
  std::atomic<bool> noticed{false}, stop{false};
  std::thread other([&] {
    pin();
    while (!stop) {
    }
  });
  std::thread watcher([&] {
    pin();
    ContentionMeter meter;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!noticed && std::chrono::steady_clock::now() < deadline) noticed = meter.contended();
  });
  watcher.join();
  stop = true;
  other.join();
  EXPECT_TRUE(noticed);
}

}  // namespace
}  // namespace gale
