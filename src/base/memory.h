// Page-aligned memory straight from the kernel, on huge pages where it can be had.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace gale {

// A zero-filled anonymous mapping, aligned to 2 MB. Pages take memory only once they are touched. Movable, not
// copyable.
class PageBuffer {
 public:
  PageBuffer() = default;
  // `bytes` may be 0. `huge_pages` asks for transparent huge pages. Error: limit, with the size.
  static Result<PageBuffer> allocate(size_t bytes, bool huge_pages);

  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  ~PageBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Gives whole pages inside [offset, offset + bytes) back to the kernel; they read as zero afterwards.
  void release(size_t offset, size_t bytes) const;

 private:
  std::byte* data_ = nullptr;  // aligned start
  size_t size_ = 0;            // usable bytes
  void* mapping_ = nullptr;    // what munmap gets
  size_t mapping_size_ = 0;
};

// Memory that this process may still take, in bytes: the least of the machine's available memory, the limits of its
// control group and the groups above it (v1 and v2), and its own limit of address space. `root` is put before "/proc"
// and "/sys", for tests.
size_t available_memory_bytes(const std::string& root = "");

}  // namespace gale
