// Reading of the scheduler statistics of the calling thread.
#include "base/contention.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>

namespace gale {

namespace {

// Time slices are around 3 ms: a window holds several, so that a shared processor shows in each.
constexpr std::chrono::milliseconds window{10};
// A quiet thread waits for far less than 1 % of the time, one that shares its processor with one other for about 50 %.
constexpr double most_waiting = 0.04;

std::optional<uint64_t> read_waiting_ns() {
  const int file = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[128];
  const ssize_t bytes = ::read(file, text, sizeof text);
  ::close(file);
  if (bytes <= 0) return std::nullopt;
  return parse_waiting_ns(std::string_view(text, static_cast<size_t>(bytes)));
}

}  // namespace

std::optional<uint64_t> parse_waiting_ns(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  uint64_t value = 0;
  const char* begin = text.data() + space + 1;
  const auto [end, code] = std::from_chars(begin, text.data() + text.size(), value);
  if (code != std::errc() || end == begin) return std::nullopt;
  return value;
}

bool ContentionMeter::contended() {
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double, std::nano> length = now - window_begin_;
  if (length < window) return contended_;
  const pid_t thread = static_cast<pid_t>(::syscall(SYS_gettid));
  const std::optional<uint64_t> waiting_ns = read_waiting_ns();
  if (!waiting_ns) {
    contended_ = false;
  } else if (thread == thread_) {
    contended_ = static_cast<double>(*waiting_ns - waiting_ns_) > most_waiting * length.count();
  }
  thread_ = thread;
  waiting_ns_ = waiting_ns.value_or(0);
  window_begin_ = now;
  return contended_;
}

}  // namespace gale
