// The log sink of the process and the level from which messages reach it.
#include "base/log.h"

#include <atomic>
#include <mutex>

namespace gale {

namespace {

// One per process, because a log is about the process; all else is passed down explicitly.
struct Log {
  std::atomic<LogLevel> level{LogLevel::off};
  std::mutex mutex;  // guards sink, and makes messages come one at a time
  LogSink sink = nullptr;
};

Log& instance() {
  static Log log;
  return log;
}

}  // namespace

void set_log(LogLevel level, LogSink sink) {
  Log& log = instance();
  const std::lock_guard<std::mutex> lock(log.mutex);
  log.sink = sink;
  log.level.store(sink == nullptr ? LogLevel::off : level, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::off && level >= instance().level.load(std::memory_order_relaxed);
}

void log_message(LogLevel level, std::string_view message) {
  Log& log = instance();
  const std::lock_guard<std::mutex> lock(log.mutex);
  // The level may have been raised since the caller asked.
  if (log.sink != nullptr && log_enabled(level)) log.sink(level, message);
}

}  // namespace gale
