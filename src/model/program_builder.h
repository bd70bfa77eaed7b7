// What the builders of architectures append steps with: finds weights, checks their shapes, and keeps the first error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "model/program.h"

namespace gale::model {

// After the first error everything else is accepted and ignored, so that builders read as plain lists of steps.
class ProgramBuilder {
 public:
  ProgramBuilder(const format::Checkpoint& checkpoint, const Hparams& hparams);

  // The buffer of that name and width; made when first asked for. A second width gets a buffer of its own.
  BufferId buffer(std::string_view name, uint32_t width);
  uint32_t add_cache(const Cache& cache);

  // `NAME.weight`: a weight of a linear layer, out rows of `in` values. Errors: missing, another shape, a type that
  // cannot be decoded, or a NAME.bias or NAME.scale beside it, which would be ignored otherwise.
  Weight matrix(std::string_view name, uint64_t in, uint64_t out);
  // `NAME.weight`: a vector of a float type.
  Weight vector(std::string_view name, uint64_t size);
  Weight optional_vector(std::string_view name, uint64_t size);  // null: not there
  bool has(std::string_view name) const;                         // NAME.weight is in the file
  // Records an error if NAME.weight is in the file: something that this build would have to obey.
  void refuse(std::string_view name, std::string_view reason);

  void append(Step step) {
    if (status_.ok()) program_.steps.push_back(std::move(step));
  }

  // The program, or the first error; the program is validated.
  Result<Program> finish() &&;

 private:
  Weight find(std::string_view name, bool required);
  void record(Error error);

  const format::Checkpoint& checkpoint_;
  Program program_;
  Status status_;
};

}  // namespace gale::model
