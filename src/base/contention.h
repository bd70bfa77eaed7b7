// Whether a thread has to share its processor with others, as told by the kernel's scheduler statistics.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gale {

// "RUNNING_NS WAITING_NS SLICES" of /proc/thread-self/schedstat: the time that a thread was ready to run but did not.
std::optional<uint64_t> parse_waiting_ns(std::string_view text);

// Looks, at most every few milliseconds, at how long the calling thread had to wait for a processor.
class ContentionMeter {
 public:
  // True if the thread waited for more than a few percent of the last window. Cheap enough for every run of a team: one
  // clock reading, and 2 to 5 us once per window. False for good where the kernel has no such statistics.
  bool contended();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point window_begin_{};
  uint64_t waiting_ns_ = 0;
  pid_t thread_ = 0;  // whose statistics these are: the caller of a team may change
  bool contended_ = false;
};

}  // namespace gale
