// Conversion of a model to a GGUF file of chosen types, on all cores and in little memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"
#include "format/checkpoint.h"
#include "format/quantisation_mix.h"

namespace gale::engine {

struct ConvertOptions {
  const format::QuantisationMix* mix = nullptr;  // must be set
  // Quantised tensors may be decoded and encoded again as another type, which loses more than going there directly.
  bool requantise = false;
  int threads = 0;         // 0: chosen from the machine
  std::optional<Isa> isa;  // nullopt: choose_isa()
  // Called from the calling thread with bytes of tensors, as they are in the source.
  std::function<void(uint64_t done, uint64_t total)> progress;
  const std::atomic<bool>* cancel = nullptr;  // looked at all the time
};

struct ConvertResult {
  uint64_t bytes = 0;  // of the new file
  size_t tensors = 0;
  size_t encoded = 0;  // tensors that were not copied bit for bit
  // Types of matrices in the new file for which the CPU executor has no kernels.
  std::vector<format::TensorType> without_kernels;
};

// Reads `source` (whatever Checkpoint::open takes) and writes the file `out`, which has its name only once it is
// complete; after an error nothing is left behind. The bytes depend on the source and the mix alone. Settings are kept,
// those of split files aside; tensors are kept in their order, unknown ones too.
// Errors name file, tensor and place: a source that is `out` itself, types that can't be decoded, quantised tensors
// without `requantise`, values that aren't finite, a full disk, cancelled.
Result<ConvertResult> convert(const std::string& source, const std::string& out, const ConvertOptions& options);

// Error: `out` is a file that the model is made of, also through links.
Status check_is_no_source(const format::Checkpoint& source, const std::string& out);

}  // namespace gale::engine
