// A file of known size that appears under its name only once it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace gale {

// Written without a name, so that nothing is left even of a process that is killed; where the file system can't do
// that, under a temporary name in the same folder that is removed unless commit() was reached. Movable.
class OutputFile {
 public:
  // Reserves `bytes` on the disk, so that a disk that is too small is an error now and not after an hour of work; what
  // is not written reads as zero. Errors name the path and the reason.
  static Result<OutputFile> create(const std::string& path, uint64_t bytes);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // May be called from several threads at once.
  Status write_at(uint64_t offset, std::span<const std::byte> bytes) const;
  // Brings everything to the disk and gives the file its name; what had that name is replaced.
  Status commit();

 private:
  OutputFile() = default;
  Status open();
  int descriptor_ = -1;  // -1: nothing to remove
  bool named_ = false;   // whether temporary_path_ is there
  std::string path_, temporary_path_;
};

// Whether both paths lead to the same existing file, through links of any kind too.
bool same_file(const std::string& a, const std::string& b);

}  // namespace gale
