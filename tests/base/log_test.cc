// The log: levels, the sink, and messages from many threads one at a time.
#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace gale {
namespace {

std::vector<std::string> received;

void keep(LogLevel level, std::string_view message) {
  received.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(message));
}

class LogTest : public testing::Test {
 protected:
  void SetUp() override { received.clear(); }
  void TearDown() override { set_log(LogLevel::off, nullptr); }
};

TEST_F(LogTest, NothingByDefault) {
  for (LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error, LogLevel::off}) {
    EXPECT_FALSE(log_enabled(level));
  }
  log(LogLevel::error, "lost");
  log_message(LogLevel::error, "lost");
}

TEST_F(LogTest, LevelsBelowAreDropped) {
  set_log(LogLevel::warning, keep);
  log(LogLevel::info, "no {}", 1);
  log(LogLevel::warning, "yes {}", 2);
  log(LogLevel::error, "yes {}", "three");
  log_message(LogLevel::debug, "no");
  EXPECT_EQ(received, (std::vector<std::string>{"2 yes 2", "3 yes three"}));
  set_log(LogLevel::off, keep);
  log(LogLevel::error, "no");
  log(LogLevel::off, "never");
  EXPECT_EQ(received.size(), 2u);
}

TEST_F(LogTest, WithoutASinkNothingIsEnabled) {
  set_log(LogLevel::debug, nullptr);
  EXPECT_FALSE(log_enabled(LogLevel::error));
}

TEST_F(LogTest, OneAtATime) {
  set_log(LogLevel::debug, keep);  // keep() is not safe for threads: the log has to make it so
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 500; ++k) log(LogLevel::info, "{}", k);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(received.size(), 2000u);
}

}  // namespace
}  // namespace gale
