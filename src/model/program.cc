// Checks of a program, and the bytes that it must read.
#include "model/program.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "model/program_parts.h"
#include "model/weight_types.h"

namespace gale::model {
namespace {

// Checks the steps in order; remembers which buffers have been written and which caches are taken.
class Checker {
 public:
  explicit Checker(const Program& program)
      : program_(program), written_(program.buffers.size()), cache_taken_(program.caches.size()) {}

  Status run() {
    for (const Buffer& buffer : program_.buffers)
      if (buffer.width == 0) return fail(ErrorKind::invalid_input, "program: buffer '{}' has no width", buffer.name);
    for (index_ = 0; index_ < program_.steps.size(); ++index_)
      if (auto status = std::visit([this](const auto& step) { return check(step); }, program_.steps[index_]); !status)
        return std::move(status).error();
    if (logits_steps_ != 1)
      return fail(ErrorKind::invalid_input, "program: {} steps give logits; expected 1", logits_steps_);
    for (size_t cache = 0; cache < cache_taken_.size(); ++cache)
      if (!cache_taken_[cache]) return fail(ErrorKind::invalid_input, "program: no step uses cache {}", cache);
    return {};
  }

 private:
  template <class... Args>
  Error wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorKind::invalid_input, "program step {}: {}", index_,
                fmt::format(format, std::forward<Args>(args)...));
  }

  Status reads(BufferId id, uint64_t width) const {
    if (id >= program_.buffers.size()) return wrong("reads buffer {} of {}", id, program_.buffers.size());
    const Buffer& buffer = program_.buffers[id];
    if (!written_[id]) return wrong("reads buffer '{}' before any step has written it", buffer.name);
    if (width != 0 && buffer.width != width)
      return wrong("reads buffer '{}' of width {}; expected {}", buffer.name, buffer.width, width);
    return {};
  }

  Status writes(BufferId id, uint64_t width) {
    if (id >= program_.buffers.size()) return wrong("writes buffer {} of {}", id, program_.buffers.size());
    const Buffer& buffer = program_.buffers[id];
    if (buffer.width != width)
      return wrong("writes {} values to buffer '{}' of width {}", width, buffer.name, buffer.width);
    written_[id] = true;
    return {};
  }

  Status is_matrix(Weight weight) const {
    if (!weight) return wrong("has no weight");
    if (weight->dimensions > 2 || weight->values() == 0) return wrong("weight '{}' is no matrix", weight->name);
    if (!is_matrix_type(weight->type))
      return wrong("weight '{}' has the type {}, which is not supported", weight->name,
                   format::type_name(weight->type));
    return {};
  }

  Status is_vector(Weight weight, uint64_t size) const {
    if (!weight) return wrong("has no norm weight");
    if (weight->row_length() != size || weight->rows() != 1)
      return wrong("weight '{}' has {} x {} values; expected {}", weight->name, weight->row_length(), weight->rows(),
                   size);
    if (!is_float(weight->type))
      return wrong("weight '{}' has the type {}; expected F32, F16 or BF16", weight->name,
                   format::type_name(weight->type));
    return {};
  }

  Status is_positive(const char* what, float value) const {
    if (!(value > 0) || !std::isfinite(value)) return wrong("{} is {}; expected a positive number", what, value);
    return {};
  }

  Status is_cap(float value) const {
    if (!(value >= 0) || !std::isfinite(value)) return wrong("softcap is {}; expected 0 or a positive number", value);
    return {};
  }

  Status check(const EmbedStep& step) {
    if (auto status = is_matrix(step.weight); !status) return std::move(status).error();
    if (auto status = is_positive("scale", step.scale); !status) return std::move(status).error();
    if (step.weight->rows() != program_.vocabulary)
      return wrong("embedding '{}' has {} rows; the vocabulary has {}", step.weight->name, step.weight->rows(),
                   program_.vocabulary);
    return writes(step.output, step.weight->row_length());
  }

  Status check(const Prologue& prologue) {
    if (auto status = reads(prologue.input, 0); !status) return std::move(status).error();
    if (prologue.kind == Prologue::Kind::none) return {};
    const uint64_t width = program_.buffers[prologue.input].width;
    if (auto status = is_vector(prologue.weight, width); !status) return std::move(status).error();
    if (auto status = is_positive("norm epsilon", prologue.epsilon); !status) return std::move(status).error();
    if (prologue.kind == Prologue::Kind::norm) return {};
    if (auto status = is_vector(prologue.post_weight, width); !status) return std::move(status).error();
    if (auto status = reads(prologue.residual, width); !status) return std::move(status).error();
    if (prologue.sum == prologue.residual || prologue.sum == prologue.input)
      return wrong("stores the sum in a buffer that other workers still read");
    return writes(prologue.sum, width);
  }

  Status check(const MatrixStep& step) {
    using Epilogue = MatrixStep::Epilogue;
    if (auto status = check(step.prologue); !status) return std::move(status).error();
    const uint64_t in = program_.buffers[step.prologue.input].width;
    if (step.groups.empty()) return wrong("has no weight");
    for (const RowGroup& group : step.groups) {
      if (auto status = is_matrix(group.weight); !status) return std::move(status).error();
      if (group.weight->row_length() != in)
        return wrong("weight '{}' has rows of {}; its input has {}", group.weight->name, group.weight->row_length(),
                     in);
    }
    if (step.epilogue == Epilogue::logits) return check_logits(step);
    if (step.epilogue == Epilogue::gated) {
      if (step.groups.size() != 2 || step.groups[0].weight->rows() != step.groups[1].weight->rows())
        return wrong("a gated step needs two weights with equally many rows");
      return check_output(step, step.groups[0]);
    }
    std::set<BufferId> outputs;
    for (const RowGroup& group : step.groups) {
      if (!outputs.insert(group.output).second) return wrong("two weights write the same buffer");
      if (step.epilogue == Epilogue::add)
        if (auto status = reads(group.output, group.weight->rows()); !status) return std::move(status).error();
      if (auto status = check_output(step, group); !status) return std::move(status).error();
    }
    return {};
  }

  Status check_output(const MatrixStep& step, const RowGroup& group) {
    const Prologue& prologue = step.prologue;
    const bool adds_norm = prologue.kind == Prologue::Kind::add_norm;
    if (group.output == prologue.input ||
        (adds_norm && (group.output == prologue.residual || group.output == prologue.sum)))
      return wrong("'{}' writes a buffer that other workers still read", group.weight->name);
    return writes(group.output, group.weight->rows());
  }

  Status check_logits(const MatrixStep& step) {
    ++logits_steps_;
    if (step.groups.size() != 1) return wrong("logits come from one weight; found {}", step.groups.size());
    if (step.groups[0].weight->rows() != program_.vocabulary)
      return wrong("weight '{}' has {} rows; the vocabulary has {}", step.groups[0].weight->name,
                   step.groups[0].weight->rows(), program_.vocabulary);
    return is_cap(step.softcap);
  }

  Status check(const AttentionStep& step) {
    if (step.heads == 0 || step.kv_heads == 0 || step.head_size == 0 || step.value_size == 0 ||
        step.heads % step.kv_heads != 0)
      return wrong("{} heads of {} cannot share {} key heads", step.heads, step.head_size, step.kv_heads);
    if (auto status = reads(step.q, static_cast<uint64_t>(step.heads) * step.head_size); !status)
      return std::move(status).error();
    if (auto status = reads(step.k, static_cast<uint64_t>(step.kv_heads) * step.head_size); !status)
      return std::move(status).error();
    if (auto status = reads(step.v, static_cast<uint64_t>(step.kv_heads) * step.value_size); !status)
      return std::move(status).error();
    if (step.output == step.q || step.output == step.k || step.output == step.v)
      return wrong("attention writes a buffer that other workers still read");
    if (step.q_norm)
      if (auto status = is_vector(step.q_norm, step.head_size); !status) return std::move(status).error();
    if (step.k_norm)
      if (auto status = is_vector(step.k_norm, step.head_size); !status) return std::move(status).error();
    if (step.q_norm || step.k_norm)
      if (auto status = is_positive("norm epsilon", step.epsilon); !status) return std::move(status).error();
    if (auto status = is_positive("scale", step.scale); !status) return std::move(status).error();
    if (auto status = is_cap(step.softcap); !status) return std::move(status).error();
    if (auto status = check(step.rope, step.head_size); !status) return std::move(status).error();
    if (step.cache >= program_.caches.size()) return wrong("uses cache {} of {}", step.cache, program_.caches.size());
    if (cache_taken_[step.cache]) return wrong("uses cache {}, which an earlier step uses", step.cache);
    cache_taken_[step.cache] = true;
    const Cache& cache = program_.caches[step.cache];
    if (cache.kv_heads != step.kv_heads || cache.head_size != step.head_size || cache.value_size != step.value_size ||
        cache.window != step.window)
      return wrong("cache {} has another shape or window than its step", step.cache);
    return writes(step.output, static_cast<uint64_t>(step.heads) * step.value_size);
  }

  Status check(const Rope& rope, uint32_t head_size) const {
    if (rope.dimensions % 2 != 0 || rope.dimensions > head_size)
      return wrong("{} of {} elements rotate; expected an even number", rope.dimensions, head_size);
    if (auto status = is_positive("rope base", rope.base); !status) return std::move(status).error();
    if (auto status = is_positive("rope factor", rope.factor); !status) return std::move(status).error();
    if (rope.divisors)
      if (auto status = is_vector(rope.divisors, rope.dimensions / 2); !status) return std::move(status).error();
    return {};
  }

  const Program& program_;
  std::vector<bool> written_;
  std::vector<bool> cache_taken_;
  size_t index_ = 0;
  size_t logits_steps_ = 0;
};

}  // namespace

Status validate(const Program& program) {
  return Checker(program).run();
}

std::vector<Weight> weights_of(const Step& step) {
  std::vector<Weight> out;
  const auto add = [&out](Weight weight) {
    if (weight) out.push_back(weight);
  };
  if (const auto* embed = std::get_if<EmbedStep>(&step)) add(embed->weight);
  if (const auto* matrix = std::get_if<MatrixStep>(&step)) {
    if (matrix->prologue.kind == Prologue::Kind::add_norm) add(matrix->prologue.post_weight);
    if (matrix->prologue.kind != Prologue::Kind::none) add(matrix->prologue.weight);
    for (const RowGroup& group : matrix->groups) add(group.weight);
  }
  if (const auto* attention = std::get_if<AttentionStep>(&step)) {
    add(attention->q_norm);
    add(attention->k_norm);
    add(attention->rope.divisors);
  }
  return out;
}

uint64_t weight_bytes(const Step& step) {
  if (const auto* embed = std::get_if<EmbedStep>(&step)) return embed->weight->row_bytes();  // one row
  uint64_t bytes = 0;
  for (Weight weight : weights_of(step)) bytes += weight->byte_size();
  return bytes;
}

uint64_t weight_bytes(const Program& program) {
  std::set<Weight> whole;
  for (const Step& step : program.steps)
    if (!std::holds_alternative<EmbedStep>(step))
      for (Weight weight : weights_of(step)) whole.insert(weight);
  uint64_t bytes = 0;
  for (Weight weight : whole) bytes += weight->byte_size();
  for (const Step& step : program.steps)  // the row of a tied embedding is read with the rest of it
    if (const auto* embed = std::get_if<EmbedStep>(&step); embed && !whole.contains(embed->weight))
      bytes += embed->weight->row_bytes();
  return bytes;
}

uint64_t cache_bytes(const Program& program, uint64_t depth, double bytes_per_element) {
  double bytes = 0;
  for (const Cache& cache : program.caches) {
    const uint64_t positions = cache.window == 0 ? depth + 1 : std::min<uint64_t>(depth + 1, cache.window);
    bytes += static_cast<double>(positions) * cache.kv_heads *
             (static_cast<double>(cache.head_size) + cache.value_size) * bytes_per_element;
  }
  return static_cast<uint64_t>(bytes + 0.5);
}

std::vector<std::string> unused_tensors(const format::Checkpoint& checkpoint, const Program& program) {
  std::set<Weight> used;
  for (const Step& step : program.steps)
    for (Weight weight : weights_of(step)) used.insert(weight);
  std::vector<std::string> out;
  for (const format::Tensor& tensor : checkpoint.tensors())
    if (!used.contains(&tensor)) out.push_back(tensor.name);
  return out;
}

}  // namespace gale::model
