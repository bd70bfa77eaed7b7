// Mapping of files through mmap, and advice to the kernel about their pages.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace gale {

namespace {

std::string reason(int code) {
  return std::generic_category().message(code);
}

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Closes a descriptor at the end of a scope.
struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a named pipe without a writer would otherwise block here for ever.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) {
    const int code = errno;
    const bool missing = code == ENOENT || code == ENOTDIR;
    return fail(missing ? ErrorKind::not_found : ErrorKind::io, "cannot open '{}': {}", path, reason(code));
  }
  struct stat info {};
  if (::fstat(file.value, &info) != 0) return fail(ErrorKind::io, "cannot examine '{}': {}", path, reason(errno));
  if (S_ISDIR(info.st_mode)) return fail(ErrorKind::invalid_input, "'{}' is a directory, a file is needed", path);
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorKind::invalid_input, "'{}' is not a regular file and cannot be mapped into memory", path);
  }
  if (info.st_size <= 0) return fail(ErrorKind::invalid_input, "'{}' is empty", path);
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value, 0);
  if (data == MAP_FAILED) {
    return fail(ErrorKind::io, "cannot map '{}' ({} bytes) into memory: {}", path, size, reason(errno));
  }
  MappedFile mapped;
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = size;
  mapped.path_ = path;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::will_read(std::span<const std::byte> part) const {
  if (data_ == nullptr || part.empty()) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data()) / page_size() * page_size();
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  // Advice only: a refusal changes nothing but speed.
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (data_ == nullptr || part.empty()) return;
  const uintptr_t page = page_size();
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  // The last page of the file belongs to it as a whole although the file ends inside.
  if (part.data() + part.size() != data_ + size_) end = end / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace gale
