// Files mapped read-only into memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace gale {

// A whole file, mapped read-only. Movable; unmaps on destruction. The bytes stay valid as long as the object lives
// (moving it keeps the address).
class MappedFile {
 public:
  // Errors name the path and the reason: missing, a directory, empty, not readable.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Tells the kernel that `part` (inside bytes()) will be read soon, in order.
  void will_read(std::span<const std::byte> part) const;
  // Gives the pages that lie wholly inside `part` back; they are read again from the file when touched.
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

}  // namespace gale
