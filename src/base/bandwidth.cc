// Measures memory bandwidth with a plain read by all threads.
#include "base/bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/memory.h"

namespace gale {
namespace {

// Sums 64-bit words with eight independent chains, so that loads and not additions are the limit.
uint64_t read_all(const std::byte* data, size_t bytes) {
  constexpr size_t kChains = 8, kStep = kChains * sizeof(uint64_t);
  uint64_t sums[kChains] = {};
  for (size_t offset = 0; offset + kStep <= bytes; offset += kStep) {
    uint64_t words[kChains];
    std::memcpy(words, data + offset, kStep);
    for (size_t i = 0; i < kChains; ++i) sums[i] += words[i];
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  return sum;
}

}  // namespace

Result<double> measure_read_bandwidth(Team& team, size_t bytes, int repeats) {
  auto buffer = PageBuffer::allocate(bytes, /*huge_pages=*/true);
  if (!buffer) return std::move(buffer).error();
  struct alignas(64) Sum {
    uint64_t value = 0;  // written, so that the reads can't be optimised away
  };
  std::vector<Sum> sums(static_cast<size_t>(team.size()));
  const auto part = [&](int member) {
    const Range range = split_range(bytes / 64, member, team.size());
    return std::pair(buffer->data() + range.begin * 64, (range.end - range.begin) * 64);
  };
  team.run([&](int member) {
    const auto [data, size] = part(member);
    std::memset(data, 1, size);  // each member touches its own pages first
  });
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    team.run([&](int member) {
      const auto [data, size] = part(member);
      sums[static_cast<size_t>(member)].value += read_all(data, size);
    });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(bytes) / elapsed.count());
  }
  return best;
}

}  // namespace gale
