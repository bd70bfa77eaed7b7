// A pinned team of threads that walks work together, with a barrier that costs well under a microsecond.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace gale {

// `threads` members; member 0 is the thread that calls run(). Members spin for a short time and then sleep on a futex,
// so that an idle team uses no processor time and a preempted member doesn't make the others burn theirs. One run() at
// a time; not reentrant; a Team may be used from different calling threads one after the other.
class Team {
 public:
  struct Options {
    int threads = 1;
    // Processors that members are pinned to (member i to processors[i % size]); empty: not pinned.
    std::vector<int> processors;
    // Member 0 belongs to the caller: it is pinned to processors[0] only for the length of each run, and only if asked
    // (two system calls a run); afterwards the caller has the affinity back that it had.
    bool pin_caller = false;
  };
  // Errors: a count outside [1, 1024], a processor that this process may not use, no more threads from the system.
  static Result<std::unique_ptr<Team>> create(const Options& options);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const;

  // Calls body(member) on every member, member in [0, size()), and returns when all have returned. `body` must not
  // throw.
  template <class F>
  void run(F&& body) {
    auto call = [](void* context, int member) { (*static_cast<std::remove_reference_t<F>*>(context))(member); };
    run_raw(+call, const_cast<void*>(static_cast<const void*>(&body)));
  }

  // Waits until every member has called it; memory written before is visible after. Only inside run(), by all members
  // the same number of times.
  void barrier(int member);

 private:
  struct State;
  explicit Team(std::unique_ptr<State> state);
  void run_raw(void (*call)(void*, int), void* context);
  std::unique_ptr<State> state_;
};

// The half-open range of `count` items that belongs to `member` of `members`: contiguous, sizes differ by one at most.
struct Range {
  size_t begin = 0, end = 0;
};
inline Range split_range(size_t count, int member, int members) {
  const size_t m = static_cast<size_t>(members), i = static_cast<size_t>(member);
  return {count * i / m, count * (i + 1) / m};
}

}  // namespace gale
