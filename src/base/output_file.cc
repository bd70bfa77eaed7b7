// Files without a name, or with a temporary one, beside their final place: reserved, written, flushed and renamed.
#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace gale {
namespace {

Error cannot(std::string_view verb, const std::string& path, int code) {
  return fail(ErrorKind::io, "cannot {} '{}': {}", verb, path, std::generic_category().message(code));
}

// Whether this is a file system that cannot reserve space; the disk may then still fill up while writing.
bool is_unsupported(int code) {
  return code == EOPNOTSUPP || code == ENOSYS || code == EINVAL;
}

// A file without a name gets one through this path.
std::string path_of_descriptor(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

}  // namespace

Status OutputFile::open() {
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  descriptor_ = ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ >= 0 && ::access(path_of_descriptor(descriptor_).c_str(), F_OK) == 0) return {};
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  descriptor_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) return cannot("create", temporary_path_, errno);
  named_ = true;
  return {};
}

Result<OutputFile> OutputFile::create(const std::string& path, uint64_t bytes) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return fail(ErrorKind::invalid_input, "cannot write '{}': it is {}, not a regular file", path,
                S_ISDIR(info.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  OutputFile out;
  out.path_ = path;
  out.temporary_path_ = fmt::format("{}.{}.part", path, ::getpid());
  if (auto status = out.open(); !status) return std::move(status).error();
  if (bytes > static_cast<uint64_t>(INT64_MAX)) return cannot("write", path, EFBIG);
  const auto size = static_cast<off_t>(bytes);
  int code = 0;
  while (::fallocate(out.descriptor_, 0, 0, size) != 0 && (code = errno) == EINTR) code = 0;
  if (is_unsupported(code)) code = ::ftruncate(out.descriptor_, size) == 0 ? 0 : errno;
  if (code != 0) {
    return fail(ErrorKind::io, "cannot write '{}': no room for its {} bytes: {}", path, bytes,
                std::generic_category().message(code));
  }
  return out;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      named_(std::exchange(other.named_, false)),
      path_(std::move(other.path_)),
      temporary_path_(std::move(other.temporary_path_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(named_, other.named_);
  std::swap(path_, other.path_);
  std::swap(temporary_path_, other.temporary_path_);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (named_) ::unlink(temporary_path_.c_str());
}

Status OutputFile::write_at(uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot("write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return {};
}

Status OutputFile::commit() {
  if (::fsync(descriptor_) != 0) return cannot("write", path_, errno);
  if (!named_) {
    // Only a file with a name can replace another.
    const std::string from = path_of_descriptor(descriptor_);
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, temporary_path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return cannot("create", temporary_path_, errno);
    }
    named_ = true;
  }
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) return cannot("create", path_, errno);
  ::close(std::exchange(descriptor_, -1));
  return {};
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace gale
