// What the processor can do and how much of it this process may use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gale {

// Instruction sets for which kernels exist, in rising order. Each includes the ones below it.
enum class Isa {
  scalar,  // portable C++
  avx2,    // AVX2 + FMA + F16C + BMI2
  avx512,  // AVX-512 F/BW/VL/DQ + VNNI
};

std::string_view name(Isa isa);
// "scalar", "avx2", "avx512"; anything else is an error that lists the three.
Result<Isa> parse_isa(std::string_view text);
// The best instruction set of this processor (and operating system).
Isa detect_isa();
// detect_isa(), or what the environment variable GALE_ISA forces. Error: unknown name, or not supported by this
// processor.
Result<Isa> choose_isa();

// Logical processors in this process' affinity mask, rising.
std::vector<int> allowed_processors();
// Processors worth of time that the control group (v1 or v2, and every group above it) allows; infinity without a
// limit. `root` is put before "/proc" and "/sys", for tests; "" is the real system.
double processor_quota(const std::string& root = "");
// Threads that decoding should use: the physical cores of allowed_processors(), at most the whole part of the quota,
// at least 1.
int default_thread_count();
// The same for a given set of processors and a system below `root`.
int thread_count_for(const std::vector<int>& processors, const std::string& root);
// The first of `processors` on each physical core, in their order: where threads are pinned.
std::vector<int> one_processor_per_core(const std::vector<int>& processors, const std::string& root = "");

// "AMD EPYC 9R14" and the like, for reports; empty if unknown.
std::string processor_name();

}  // namespace gale
