// Runs a program step by step with scalar loops; buffers and sums are doubles, so that rounding never hides a mistake.
#include "exec/reference/reference_executor.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <unordered_map>

#include "exec/reference/reference_math.h"

namespace gale::exec {
namespace {

using model::AttentionStep;
using model::BufferId;
using model::EmbedStep;
using model::MatrixStep;
using model::Program;
using model::Prologue;
using model::Weight;
using reference::Vector;

// Keys and values of one attention step: [positions x kv_heads * size].
struct KeysAndValues {
  std::vector<float> keys;
  std::vector<float> values;
};

struct Sequence {
  uint32_t max_positions = 0;
  uint32_t length = 0;
  std::vector<KeysAndValues> caches;  // as Program::caches
};

using Weights = std::map<Weight, std::vector<float>>;

Status add_weight(Weights& weights, Weight weight) {
  if (!weight || weights.contains(weight)) return {};
  std::vector<float> values(weight->values());
  std::vector<std::byte> buffer;
  if (Status status = format::decode_rows(*weight, 0, weight->rows(), buffer, values); !status) return status;
  weights.emplace(weight, std::move(values));
  return {};
}

Result<Weights> decode_weights(const Program& program) {
  Weights out;
  for (const model::Step& step : program.steps) {
    if (const auto* embed = std::get_if<EmbedStep>(&step))
      if (auto status = add_weight(out, embed->weight); !status) return std::move(status).error();
    if (const auto* matrix = std::get_if<MatrixStep>(&step)) {
      if (auto status = add_weight(out, matrix->prologue.weight); !status) return std::move(status).error();
      if (auto status = add_weight(out, matrix->prologue.post_weight); !status) return std::move(status).error();
      for (const model::RowGroup& group : matrix->groups)
        if (auto status = add_weight(out, group.weight); !status) return std::move(status).error();
    }
    if (const auto* attention = std::get_if<AttentionStep>(&step))
      for (Weight weight : {attention->q_norm, attention->k_norm, attention->rope.divisors})
        if (auto status = add_weight(out, weight); !status) return std::move(status).error();
  }
  return out;
}

// One pass: the buffers of all columns, and the steps that work on them.
class Pass {
 public:
  Pass(const Program& program, const Weights& weights, std::span<const Column> columns,
       std::span<Sequence* const> sequences, std::span<float> logits)
      : program_(program), weights_(weights), columns_(columns), sequences_(sequences), logits_(logits) {
    for (const model::Buffer& buffer : program.buffers) buffers_.emplace_back(columns.size(), Vector(buffer.width));
  }

  void run() {
    for (const model::Step& step : program_.steps) std::visit([this](const auto& kind) { apply(kind); }, step);
  }

 private:
  // Null for a weight that the step does not have.
  const float* weight(Weight tensor) const { return tensor ? weights_.at(tensor).data() : nullptr; }
  Vector& at(BufferId buffer, size_t column) { return buffers_[buffer][column]; }

  void apply(const EmbedStep& step) {
    const size_t width = step.weight->row_length();
    for (size_t c = 0; c < columns_.size(); ++c) {
      const float* row = weight(step.weight) + static_cast<size_t>(columns_[c].token) * width;
      for (size_t i = 0; i < width; ++i) at(step.output, c)[i] = static_cast<double>(step.scale) * row[i];
    }
  }

  Vector prologue(const Prologue& step, size_t column) {
    const Vector& input = at(step.input, column);
    if (step.kind == Prologue::Kind::none) return input;
    if (step.kind == Prologue::Kind::norm) return reference::rms(input, weight(step.weight), step.epsilon);
    Vector& sum = at(step.sum, column);
    const Vector addend = reference::rms(input, weight(step.post_weight), step.epsilon);
    const Vector& residual = at(step.residual, column);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = residual[i] + addend[i];
    return reference::rms(sum, weight(step.weight), step.epsilon);
  }

  Vector product(const model::RowGroup& group, const Vector& input) const {
    return reference::multiply(weight(group.weight), group.weight->rows(), input);
  }

  void apply(const MatrixStep& step) {
    size_t logits_row = 0;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const bool to_logits = step.epilogue == MatrixStep::Epilogue::logits;
      if (to_logits && !columns_[c].wants_logits) continue;
      const Vector input = prologue(step.prologue, c);
      if (to_logits) {
        write_logits(step, product(step.groups[0], input), logits_row++);
      } else if (step.epilogue == MatrixStep::Epilogue::gated) {
        const Vector gate = product(step.groups[0], input), up = product(step.groups[1], input);
        Vector& output = at(step.groups[0].output, c);
        for (size_t i = 0; i < output.size(); ++i) output[i] = reference::activate(step.activation, gate[i]) * up[i];
      } else {
        for (const model::RowGroup& group : step.groups) {
          const Vector result = product(group, input);
          Vector& output = at(group.output, c);
          const bool adds = step.epilogue == MatrixStep::Epilogue::add;
          for (size_t i = 0; i < output.size(); ++i) output[i] = adds ? output[i] + result[i] : result[i];
        }
      }
    }
  }

  void write_logits(const MatrixStep& step, const Vector& result, size_t row) {
    for (size_t i = 0; i < result.size(); ++i)
      logits_[row * result.size() + i] = static_cast<float>(reference::softcap(result[i], step.softcap));
  }

  void apply(const AttentionStep& step) {
    for (size_t c = 0; c < columns_.size();
         ++c) {  // all keys first: a column may attend to an earlier one of this pass
      const reference::Rotation rotation(step.rope, weight(step.rope.divisors), columns_[c].position);
      reference::norm_and_rotate(at(step.q, c), step.head_size, weight(step.q_norm), step.epsilon, rotation);
      reference::norm_and_rotate(at(step.k, c), step.head_size, weight(step.k_norm), step.epsilon, rotation);
      KeysAndValues& cache = sequences_[c]->caches[step.cache];
      const auto append = [&](std::vector<float>& rows, const Vector& row) {
        std::transform(row.begin(), row.end(), rows.begin() + static_cast<ptrdiff_t>(columns_[c].position * row.size()),
                       [](double value) { return static_cast<float>(value); });
      };
      append(cache.keys, at(step.k, c));
      append(cache.values, at(step.v, c));
    }
    for (size_t c = 0; c < columns_.size(); ++c) {
      const KeysAndValues& cache = sequences_[c]->caches[step.cache];
      reference::attend(step, at(step.q, c), cache.keys, cache.values, columns_[c].position, at(step.output, c));
    }
  }

  const Program& program_;
  const Weights& weights_;
  std::span<const Column> columns_;
  std::span<Sequence* const> sequences_;  // of each column
  std::span<float> logits_;
  std::vector<std::vector<Vector>> buffers_;  // [buffer][column][width]
};

}  // namespace

struct ReferenceExecutor::State {
  const Program& program;
  Weights weights;
  std::unordered_map<SequenceId, Sequence> sequences = {};
  SequenceId next_id = 0;

  // Checks the columns; gives the sequence of each.
  Result<std::vector<Sequence*>> find_sequences(std::span<const Column> columns) {
    std::vector<Sequence*> out;
    std::unordered_map<SequenceId, uint32_t> next;  // position that a sequence's next column must have
    for (size_t c = 0; c < columns.size(); ++c) {
      const Column& column = columns[c];
      const auto found = sequences.find(column.sequence);
      if (found == sequences.end())
        return fail(ErrorKind::invalid_input, "column {}: sequence {} is not open", c, column.sequence);
      Sequence& sequence = found->second;
      if (column.token < 0 || static_cast<uint32_t>(column.token) >= program.vocabulary)
        return fail(ErrorKind::invalid_input, "column {}: token {} is outside the vocabulary of {}", c, column.token,
                    program.vocabulary);
      uint32_t& expected = next.try_emplace(column.sequence, sequence.length).first->second;
      if (column.position != expected)
        return fail(ErrorKind::invalid_input, "column {}: position {} does not continue sequence {}; expected {}", c,
                    column.position, column.sequence, expected);
      if (column.position >= sequence.max_positions)
        return fail(ErrorKind::limit, "column {}: sequence {} is full: it holds {} positions", c, column.sequence,
                    sequence.max_positions);
      ++expected;
      out.push_back(&sequence);
    }
    return out;
  }

  // Room for a sequence's first `length` positions.
  void reserve(Sequence& sequence, size_t length) const {
    for (size_t i = 0; i < program.caches.size(); ++i) {
      const model::Cache& cache = program.caches[i];
      KeysAndValues& rows = sequence.caches[i];
      rows.keys.resize(std::max(rows.keys.size(), length * cache.kv_heads * cache.head_size));
      rows.values.resize(std::max(rows.values.size(), length * cache.kv_heads * cache.value_size));
    }
  }
};

ReferenceExecutor::ReferenceExecutor(std::unique_ptr<State> state) : state_(std::move(state)) {}
ReferenceExecutor::~ReferenceExecutor() = default;

Result<std::unique_ptr<ReferenceExecutor>> ReferenceExecutor::create(const Program& program) try {
  if (auto status = model::validate(program); !status) return std::move(status).error();
  auto weights = decode_weights(program);
  if (!weights.ok()) return std::move(weights).error();
  auto state = std::make_unique<State>(State{.program = program, .weights = std::move(weights).value()});
  return std::unique_ptr<ReferenceExecutor>(new ReferenceExecutor(std::move(state)));
} catch (const std::bad_alloc&) {
  return fail(ErrorKind::limit,
              "not enough memory for the decoded weights of the reference executor; use another executor");
}

Result<SequenceId> ReferenceExecutor::open_sequence(uint32_t max_positions) {
  if (max_positions == 0) return fail(ErrorKind::invalid_input, "a sequence must hold at least 1 position");
  const SequenceId id = state_->next_id++;
  state_->sequences[id] = {.max_positions = max_positions,
                           .caches = std::vector<KeysAndValues>(state_->program.caches.size())};
  return id;
}

void ReferenceExecutor::close_sequence(SequenceId id) {
  state_->sequences.erase(id);
}

bool ReferenceExecutor::truncate(SequenceId id, uint32_t length) {
  const auto found = state_->sequences.find(id);
  if (found == state_->sequences.end()) return false;
  found->second.length = std::min(found->second.length, length);  // every position is kept, windows or not
  return true;
}

uint32_t ReferenceExecutor::length(SequenceId id) const {
  const auto found = state_->sequences.find(id);
  return found == state_->sequences.end() ? 0 : found->second.length;
}

Status ReferenceExecutor::run(std::span<const Column> columns, std::span<float> logits) try {
  auto sequences = state_->find_sequences(columns);
  if (!sequences.ok()) return std::move(sequences).error();
  const auto wanted = static_cast<size_t>(
      std::count_if(columns.begin(), columns.end(), [](const Column& column) { return column.wants_logits; }));
  if (logits.size() != wanted * state_->program.vocabulary)
    return fail(ErrorKind::invalid_input, "room for {} logits; {} columns want {} each", logits.size(), wanted,
                state_->program.vocabulary);
  for (size_t c = 0; c < columns.size(); ++c) state_->reserve(*sequences.value()[c], columns[c].position + size_t{1});
  Pass(state_->program, state_->weights, columns, *sequences, logits).run();
  for (size_t c = 0; c < columns.size(); ++c) sequences.value()[c]->length = columns[c].position + 1;
  return {};
} catch (const std::bad_alloc&) {
  return fail(ErrorKind::limit, "not enough memory for a pass of {} columns; use fewer", columns.size());
}

}  // namespace gale::exec
