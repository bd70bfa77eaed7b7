// Reading what the processor and the system grant: cpuid, affinity mask, topology, control groups.
#include "base/cpu.h"

#include <sched.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <thread>

#include "base/control_group.h"

namespace gale {

namespace {

std::optional<long long> parse_integer(std::string_view text) {
  long long value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// Quota of one group in processors; infinity without a limit.
double quota_of_group(ControlGroupVersion version, const std::string& folder) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  std::optional<long long> quota, period;
  if (version == ControlGroupVersion::v2) {  // "200000 100000" or "max 100000"
    const std::string text = read_small_file(folder + "/cpu.max").value_or("");
    const size_t space = text.find(' ');
    quota = parse_integer(text.substr(0, space));
    period = space == std::string::npos ? 100000 : parse_integer(text.substr(space + 1));
  } else {  // -1 means no limit
    quota = parse_integer(read_small_file(folder + "/cpu.cfs_quota_us").value_or(""));
    period = parse_integer(read_small_file(folder + "/cpu.cfs_period_us").value_or(""));
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return unlimited;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

Result<Isa> parse_isa(std::string_view text) {
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (text == name(isa)) return isa;
  }
  return fail(ErrorKind::invalid_input, "unknown instruction set '{}'; choose scalar, avx2 or avx512", text);
}

Isa detect_isa() {
#if defined(__x86_64__)
  // The compiler's run-time library also asks the operating system (XGETBV) whether it saves the wide registers.
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  // F16C has no name in the run-time library of all supported compilers: cpuid leaf 1, ECX bit 29.
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1u << 29)) != 0;
  if (!avx2 || !f16c) return Isa::scalar;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
  return avx512 ? Isa::avx512 : Isa::avx2;
#else
  return Isa::scalar;
#endif
}

Result<Isa> choose_isa() {
  const Isa best = detect_isa();
  const char* forced = std::getenv("GALE_ISA");
  if (forced == nullptr || *forced == '\0') return best;
  Result<Isa> wanted = parse_isa(forced);
  if (!wanted) return fail(ErrorKind::invalid_input, "environment variable GALE_ISA: {}", wanted.error().message);
  if (*wanted > best) {
    return fail(ErrorKind::unsupported, "environment variable GALE_ISA asks for {}, but this processor has only {}",
                name(*wanted), name(best));
  }
  return wanted;
}

std::vector<int> allowed_processors() {
  // The mask of a big machine can be wider than cpu_set_t: grow until the kernel accepts the size.
  for (int processors = 1024; processors <= 1 << 20; processors *= 2) {
    cpu_set_t* set = CPU_ALLOC(processors);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(processors);
    std::vector<int> allowed;
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int i = 0; known && i < processors; ++i) {
      if (CPU_ISSET_S(static_cast<size_t>(i), bytes, set)) allowed.push_back(i);
    }
    CPU_FREE(set);
    if (!allowed.empty()) return allowed;
  }
  std::vector<int> all(std::max(1u, std::thread::hardware_concurrency()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  return all;
}

double processor_quota(const std::string& root) {
  double least = std::numeric_limits<double>::infinity();
  for_each_control_group(root, "cpu", [&](ControlGroupVersion version, const std::string& folder) {
    least = std::min(least, quota_of_group(version, folder));
  });
  return least;
}

std::vector<int> one_processor_per_core(const std::vector<int>& processors, const std::string& root) {
  std::vector<int> chosen;
  std::set<std::string> cores;
  for (int processor : processors) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/";
    auto siblings = read_small_file(folder + "thread_siblings_list");
    if (!siblings) siblings = read_small_file(folder + "core_cpus_list");
    // Without a topology every logical processor counts as a core.
    if (!siblings || siblings->empty()) siblings = "processor " + std::to_string(processor);
    if (cores.insert(*siblings).second) chosen.push_back(processor);
  }
  return chosen;
}

int default_thread_count() {
  return thread_count_for(allowed_processors(), "");
}

int thread_count_for(const std::vector<int>& processors, const std::string& root) {
  const double cores = static_cast<double>(one_processor_per_core(processors, root).size());
  // Rounding a quota up would let the group be throttled: threads that spin then cost many times the time.
  return std::max(1, static_cast<int>(std::min(cores, std::floor(processor_quota(root)))));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 10, "model name") != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) return "";
    const size_t begin = line.find_first_not_of(' ', colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace gale
