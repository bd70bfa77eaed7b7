// The check of a whole model's values: what a header cannot tell.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "format/checkpoint.h"

namespace gale::format {

struct Finding {
  bool wrong = true;  // false: only worth knowing
  std::string text;   // names the tensor and the place
};

struct CheckReport {
  uint64_t tensors = 0;  // that were read
  uint64_t bytes = 0;    // of them in the files
  std::vector<Finding> findings;

  uint64_t count_wrong() const;
};

// Reads every value of every tensor and looks for NaN and infinity, also where scales make them. One chunk of a tensor
// is in memory at a time. `progress` gets bytes done and in all. Once `cancel` is set the report ends where it is.
CheckReport check_values(const Checkpoint& checkpoint, const std::function<void(uint64_t, uint64_t)>& progress,
                         const std::atomic<bool>* cancel);

}  // namespace gale::format
