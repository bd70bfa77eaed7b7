// Looks weights up, checks their shapes and types, and collects the parts of a program.
#include "model/program_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "model/weight_types.h"

namespace gale::model {
namespace {

std::string shape_text(const format::Tensor& tensor) {
  return fmt::format("{}", fmt::join(std::span(tensor.shape).first(static_cast<size_t>(tensor.dimensions)), " x "));
}

}  // namespace

ProgramBuilder::ProgramBuilder(const format::Checkpoint& checkpoint, const Hparams& hparams) : checkpoint_(checkpoint) {
  program_.architecture = hparams.architecture;
  program_.blocks = hparams.block_count;
  program_.vocabulary = hparams.vocabulary;
  program_.context_length = hparams.context_length;
}

void ProgramBuilder::record(Error error) {
  if (status_.ok()) status_ = std::move(error);
}

BufferId ProgramBuilder::buffer(std::string_view name, uint32_t width) {
  if (!status_.ok()) return 0;  // a broken file shall not cost time
  bool name_taken = false;
  for (BufferId id = 0; id < program_.buffers.size(); ++id) {
    const Buffer& known = program_.buffers[id];
    const bool same_name = known.name == name || known.name == fmt::format("{}.{}", name, width);
    if (same_name && known.width == width) return id;
    name_taken |= same_name;
  }
  program_.buffers.push_back({name_taken ? fmt::format("{}.{}", name, width) : std::string(name), width});
  return static_cast<BufferId>(program_.buffers.size() - 1);
}

uint32_t ProgramBuilder::add_cache(const Cache& cache) {
  program_.caches.push_back(cache);
  return static_cast<uint32_t>(program_.caches.size() - 1);
}

Weight ProgramBuilder::find(std::string_view name, bool required) {
  const std::string full = fmt::format("{}.weight", name);
  const Weight weight = checkpoint_.find(full);
  if (!weight && required)
    record(fail(ErrorKind::not_found, "tensor '{}' is missing; a {} model cannot run without it", full,
                program_.architecture));
  if (!weight) return nullptr;
  for (const char* suffix : {"bias", "scale", "input_scale"}) {
    const std::string companion = fmt::format("{}.{}", name, suffix);
    if (checkpoint_.find(companion))
      record(fail(ErrorKind::unsupported, "tensor '{}' is not supported for {} models and must not be ignored",
                  companion, program_.architecture));
  }
  return weight;
}

Weight ProgramBuilder::matrix(std::string_view name, uint64_t in, uint64_t out) {
  const Weight weight = find(name, true);
  if (!weight) return nullptr;
  if (weight->dimensions > 2 || weight->row_length() != in || weight->rows() != out)
    record(fail(ErrorKind::invalid_input, "tensor '{}' has the shape {}; expected {} x {}", weight->name,
                shape_text(*weight), in, out));
  else if (!is_matrix_type(weight->type))
    record(fail(ErrorKind::unsupported, "tensor '{}' has the type {}, which is not supported", weight->name,
                format::type_name(weight->type)));
  return weight;
}

Weight ProgramBuilder::vector(std::string_view name, uint64_t size) {
  const Weight weight = find(name, true);
  if (!weight) return nullptr;
  if (weight->row_length() != size || weight->rows() != 1)
    record(fail(ErrorKind::invalid_input, "tensor '{}' has the shape {}; expected {}", weight->name,
                shape_text(*weight), size));
  else if (!is_float(weight->type))
    record(fail(ErrorKind::unsupported, "tensor '{}' has the type {}; expected F32, F16 or BF16", weight->name,
                format::type_name(weight->type)));
  return weight;
}

Weight ProgramBuilder::optional_vector(std::string_view name, uint64_t size) {
  return has(name) ? vector(name, size) : nullptr;
}

bool ProgramBuilder::has(std::string_view name) const {
  return checkpoint_.find(fmt::format("{}.weight", name)) != nullptr;
}

void ProgramBuilder::refuse(std::string_view name, std::string_view reason) {
  if (has(name)) record(fail(ErrorKind::unsupported, "tensor '{}.weight' is not supported: {}", name, reason));
}

Result<Program> ProgramBuilder::finish() && {
  if (auto status = std::move(status_); !status) return std::move(status).error();
  if (auto status = validate(program_); !status) return std::move(status).error();
  return std::move(program_);
}

}  // namespace gale::model
