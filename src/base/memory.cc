// Anonymous mappings with huge pages, and the memory that is left for this process.
#include "base/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/control_group.h"

namespace gale {

namespace {

constexpr size_t huge_page = size_t{2} << 20;

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// A line of "NAME value" or "NAME: value kB"; 0 if it is not there.
uint64_t field(std::string_view text, std::string_view name) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) end = text.size();
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.substr(0, name.size()) != name) continue;
    line.remove_prefix(name.size());
    if (line.empty() || (line[0] != ' ' && line[0] != ':')) continue;
    line.remove_prefix(std::min(line.find_first_of("0123456789"), line.size()));
    return parse_number(line).value_or(0);
  }
  return 0;
}

// What the group at `folder` may still take: its limit less what it uses, where file pages that the kernel can drop
// again count as free.
std::optional<uint64_t> left_in_group(ControlGroupVersion version, const std::string& folder) {
  const bool v2 = version == ControlGroupVersion::v2;
  const auto limit_text = read_small_file(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto used_text = read_small_file(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit_text || !used_text) return std::nullopt;
  const auto limit = parse_number(*limit_text), used = parse_number(*used_text);
  if (!limit || !used) return std::nullopt;  // "max"
  const std::string statistics = read_small_file(folder + "/memory.stat").value_or("");
  const std::string_view total = v2 ? "" : "total_";
  const uint64_t reclaimable =
      field(statistics, std::string(total) + "inactive_file") + field(statistics, std::string(total) + "active_file");
  const uint64_t held = *used - std::min(*used, reclaimable);
  return *limit - std::min(*limit, held);
}

// What `ulimit -v` leaves.
uint64_t left_in_address_space() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<uint64_t>::max();
  const uint64_t pages = parse_number(read_small_file("/proc/self/statm").value_or("")).value_or(0);
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used);
}

}  // namespace

Result<PageBuffer> PageBuffer::allocate(size_t bytes, bool huge_pages) {
  PageBuffer buffer;
  if (bytes == 0) return buffer;
  const auto padded = checked_add(bytes, 2 * huge_page);
  if (!padded) return fail(ErrorKind::limit, "cannot allocate {} bytes: more than the address space", bytes);
  const size_t usable = round_up(bytes, huge_page);
  const size_t mapping_size = usable + huge_page;
  void* mapping =
      ::mmap(nullptr, mapping_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return fail(ErrorKind::limit, "cannot allocate {} bytes ({} MB): the system has no more memory for this process",
                bytes, bytes >> 20);
  }
  const uintptr_t start = round_up(reinterpret_cast<uintptr_t>(mapping), uintptr_t{huge_page});
  buffer.mapping_ = mapping;
  buffer.mapping_size_ = mapping_size;
  buffer.data_ = reinterpret_cast<std::byte*>(start);
  buffer.size_ = bytes;
  // Advice only: without huge pages it is slower, not wrong.
  ::madvise(buffer.data_, usable, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return buffer;
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_size_(std::exchange(other.mapping_size_, 0)) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_size_, other.mapping_size_);
  return *this;
}

PageBuffer::~PageBuffer() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_size_);
}

void PageBuffer::release(size_t offset, size_t bytes) const {
  if (data_ == nullptr || offset >= size_) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = round_up(offset, page);
  const size_t stop = bytes > size_ - offset ? size_ : offset + bytes;
  // The rest of the last page belongs to nobody else.
  const size_t end = stop == size_ ? round_up(stop, page) : stop / page * page;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

size_t available_memory_bytes(const std::string& root) {
  uint64_t available = std::numeric_limits<size_t>::max();
  if (const auto text = read_small_file(root + "/proc/meminfo")) {
    // Kernels before 3.14 have no estimate of their own.
    uint64_t kilobytes = field(*text, "MemAvailable");
    if (kilobytes == 0) kilobytes = field(*text, "MemFree") + field(*text, "Cached");
    if (kilobytes != 0) available = kilobytes * 1024;
  }
  for_each_control_group(root, "memory", [&](ControlGroupVersion version, const std::string& folder) {
    if (const auto left = left_in_group(version, folder)) available = std::min(available, *left);
  });
  if (root.empty()) available = std::min(available, left_in_address_space());
  return static_cast<size_t>(available);
}

}  // namespace gale
