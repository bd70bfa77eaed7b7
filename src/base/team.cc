// The thread team: gates on which members spin and then sleep, and the barrier built from them.
#include "base/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <system_error>
#include <thread>

#include "base/cpu.h"

namespace gale {

namespace {

constexpr int most_threads = 1024;
// Two cache lines: processors fetch lines in pairs.
constexpr size_t line_bytes = 128;

// How long a member watches a gate before it sleeps; a sleep and a wake cost 5 to 50 us. Partners that all run arrive
// within a few microseconds of each other, and the next run of a model follows the last within some tens. With a busy
// program on every processor a member also waits while its partner is preempted, for a millisecond or more: it sleeps
// then, which keeps the turns of the members together. Watching for 1 us there (every barrier sleeps) halved the speed
// of decoding, 100 to 700 us made no difference.
constexpr double watch_us = 100.0;

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Pauses per microsecond: 1 to 4 dozen cycles each, or 140, depending on the processor.
double measure_pauses_per_us() {
  constexpr int pauses = 500;
  double least_us = 1e9;
  for (int attempt = 0; attempt < 4; ++attempt) {  // the least one was not interrupted
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < pauses; ++i) pause_processor();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    least_us = std::min(least_us, took.count());
  }
  return pauses / std::max(least_us, 0.1);
}

// A number that only grows (modulo 2^32), and threads that wait until it has changed.
class Gate {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Sets the value and wakes who sleeps. What the caller wrote before is visible to those who come through.
  void open(uint32_t value) {
    // Sequentially consistent, as is the sleeper's pair: either the sleeper sees the new value, or this sees the
    // sleeper.
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) futex(FUTEX_WAKE_PRIVATE, INT_MAX);
  }

  // Waits until the value is no longer `old`: watches it for a number of pauses, then sleeps.
  void pass(uint32_t old, uint32_t pauses) {
    for (uint32_t i = 0; i < pauses; ++i) {
      if (value() != old) return;
      pause_processor();
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    // The kernel compares again before it lets the thread sleep.
    while (value_.load(std::memory_order_seq_cst) == old) futex(FUTEX_WAIT_PRIVATE, old);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  void futex(int operation, uint32_t argument) {
    static_assert(sizeof(value_) == sizeof(uint32_t));
    ::syscall(SYS_futex, &value_, operation, argument, nullptr, nullptr, 0);
  }

  alignas(line_bytes) std::atomic<uint32_t> value_{0};
  alignas(line_bytes) std::atomic<uint32_t> sleepers_{0};
};

// A set of processors of any size for the affinity calls.
class ProcessorSet {
 public:
  explicit ProcessorSet(int processors)
      : bytes_(CPU_ALLOC_SIZE(processors)), set_(CPU_ALLOC(static_cast<size_t>(processors))) {
    if (set_ != nullptr) CPU_ZERO_S(bytes_, set_);
  }
  ~ProcessorSet() { CPU_FREE(set_); }
  ProcessorSet(const ProcessorSet&) = delete;
  ProcessorSet& operator=(const ProcessorSet&) = delete;

  void add(int processor) {
    if (set_ != nullptr) CPU_SET_S(static_cast<size_t>(processor), bytes_, set_);
  }
  bool read(pthread_t thread) { return set_ != nullptr && ::pthread_getaffinity_np(thread, bytes_, set_) == 0; }
  bool apply(pthread_t thread) const { return set_ != nullptr && ::pthread_setaffinity_np(thread, bytes_, set_) == 0; }

 private:
  size_t bytes_;
  cpu_set_t* set_;
};

constexpr int widest_machine = 1 << 14;

bool pin(pthread_t thread, int processor) {
  ProcessorSet set(widest_machine);
  set.add(processor);
  return set.apply(thread);
}

}  // namespace

struct Team::State {
  // What only one member touches, apart from the others'.
  struct alignas(line_bytes) Member {
    uint32_t phase = 0;  // barriers passed, the end of each run included
  };

  int size = 1;
  uint32_t pauses = 0;  // of a watch before sleep
  std::vector<int> processors;
  bool pin_caller = false;

  Gate start;  // number of runs begun
  void (*call)(void*, int) = nullptr;
  void* context = nullptr;
  bool stop = false;

  alignas(line_bytes) std::atomic<int> arrived{0};
  Gate phase;  // number of barriers complete
  std::vector<Member> members;
  std::vector<std::thread> threads;

  // Counts this member in; the last one opens the gate. Returns the value that the gate has until then.
  uint32_t arrive(int member) {
    const uint32_t old = members[static_cast<size_t>(member)].phase++;
    if (arrived.fetch_add(1, std::memory_order_acq_rel) == size - 1) {
      arrived.store(0, std::memory_order_relaxed);
      phase.open(old + 1);
    }
    return old;
  }

  void work(int member) {
    for (uint32_t runs = 0;; ++runs) {
      start.pass(runs, pauses);
      if (stop) return;
      call(context, member);
      arrive(member);  // nobody but the caller waits for the end
    }
  }

  void shut_down() {
    stop = true;
    start.open(start.value() + 1);
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

Team::Team(std::unique_ptr<State> state) : state_(std::move(state)) {}

Team::~Team() {
  if (state_) state_->shut_down();
}

Result<std::unique_ptr<Team>> Team::create(const Options& options) {
  if (options.threads < 1 || options.threads > most_threads) {
    return fail(ErrorKind::invalid_input, "{} threads are not possible; choose 1 to {}", options.threads, most_threads);
  }
  for (int processor : options.processors) {
    if (processor < 0 || processor >= widest_machine) {
      return fail(ErrorKind::invalid_input, "cannot pin a thread to processor {}: there is no such processor",
                  processor);
    }
  }
  auto state = std::make_unique<State>();
  state->size = options.threads;
  state->processors = options.processors;
  state->pin_caller = options.pin_caller && !options.processors.empty();
  state->members.resize(static_cast<size_t>(options.threads));
  // With more members than processors the awaited one may need this very processor: sleep at once.
  if (options.threads > 1 && static_cast<size_t>(options.threads) <= allowed_processors().size()) {
    state->pauses = static_cast<uint32_t>(watch_us * measure_pauses_per_us());
  }
  // From here on the destructor ends the threads that were started.
  std::unique_ptr<Team> team(new Team(std::move(state)));
  State& shared = *team->state_;
  for (int member = 1; member < options.threads; ++member) {
    try {
      shared.threads.emplace_back([&shared, member] { shared.work(member); });
    } catch (const std::system_error& error) {
      return fail(ErrorKind::limit, "cannot start thread {} of {}: {}; choose fewer threads", member + 1,
                  options.threads, error.what());
    }
    if (options.processors.empty()) continue;
    const int processor = options.processors[static_cast<size_t>(member) % options.processors.size()];
    if (!pin(shared.threads.back().native_handle(), processor)) {
      return fail(ErrorKind::invalid_input, "cannot pin a thread to processor {}: this process may not use it",
                  processor);
    }
  }
  return team;
}

int Team::size() const {
  return state_->size;
}

void Team::run_raw(void (*call)(void*, int), void* context) {
  State& state = *state_;
  if (state.size == 1 && !state.pin_caller) return call(context, 0);
  ProcessorSet before(widest_machine);
  const bool pinned = state.pin_caller && before.read(::pthread_self()) && pin(::pthread_self(), state.processors[0]);
  if (state.size > 1) {
    state.call = call;
    state.context = context;
    state.start.open(state.start.value() + 1);
  }
  call(context, 0);
  if (state.size > 1) state.phase.pass(state.arrive(0), state.pauses);
  if (pinned) before.apply(::pthread_self());
}

void Team::barrier(int member) {
  State& state = *state_;
  if (state.size > 1) state.phase.pass(state.arrive(member), state.pauses);
}

}  // namespace gale
