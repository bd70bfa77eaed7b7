// Lowers a program for the CPU: chooses kernels, numbers units of work and divides them among threads by their bytes.
#include "exec/cpu/lowering.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace gale::exec {
namespace {

// "blk.3.attn_q.weight" -> "attn_q"
std::string short_name(const std::string& tensor) {
  std::string name = tensor.substr(0, tensor.rfind('.'));
  if (name.rfind("blk.", 0) == 0) {
    const size_t dot = name.find('.', 4);
    if (dot != std::string::npos) name = name.substr(dot + 1);
  }
  return name;
}

Result<std::vector<float>> floats_of(model::Weight weight) {
  std::vector<float> values;
  if (weight == nullptr) return values;
  values.resize(weight->values());
  std::vector<std::byte> buffer;
  if (Status status = format::decode_rows(*weight, 0, weight->rows(), buffer, values); !status)
    return std::move(status).error();
  return values;
}

Result<LoweredPrologue> lower_prologue(const model::Prologue& prologue) {
  LoweredPrologue out;
  out.kind = prologue.kind;
  out.input = prologue.input;
  out.residual = prologue.residual;
  out.sum = prologue.sum;
  out.epsilon = prologue.epsilon;
  auto weight = floats_of(prologue.weight);
  if (!weight) return std::move(weight).error();
  auto post_weight = floats_of(prologue.post_weight);
  if (!post_weight) return std::move(post_weight).error();
  out.weight = std::move(*weight);
  out.post_weight = std::move(*post_weight);
  return out;
}

// Divides units among threads so that each reads about the same number of bytes.
std::vector<size_t> divide_units(const std::vector<LoweredGroup>& groups, size_t units, int threads) {
  const auto unit_bytes = [](const LoweredGroup& g) {
    return g.matrix->tile_row_size + (g.gated_by != nullptr ? g.gated_by->tile_row_size : 0);
  };
  size_t total = 0;
  for (const LoweredGroup& g : groups) total += unit_bytes(g) * g.matrix->tile_rows();
  std::vector<size_t> begin(1, 0);
  size_t passed = 0;
  for (const LoweredGroup& g : groups) {
    for (size_t t = 0; t < g.matrix->tile_rows(); ++t) {
      passed += unit_bytes(g);
      // A boundary falls behind the unit in which the next thread's share ends, rounded to nearest.
      while (begin.size() < static_cast<size_t>(threads) &&
             passed + unit_bytes(g) / 2 >= total * begin.size() / static_cast<size_t>(threads)) {
        begin.push_back(g.first_unit + t + 1);
      }
    }
  }
  while (begin.size() <= static_cast<size_t>(threads)) begin.push_back(units);
  begin.back() = units;
  return begin;
}

Result<LoweredMatrix> lower_matrix(const model::MatrixStep& step, const TiledWeights& weights,
                                   const MatrixKernels& kernels, int threads) {
  using Epilogue = model::MatrixStep::Epilogue;
  LoweredMatrix out;
  auto prologue = lower_prologue(step.prologue);
  if (!prologue) return std::move(prologue).error();
  out.prologue = std::move(*prologue);
  out.input_width = step.groups[0].weight->row_length();
  out.epilogue = step.epilogue;
  out.activation = step.activation;
  out.softcap = step.softcap;
  const auto note_panel = [&out](PanelKind kind) {
    (kind == PanelKind::int8 ? out.needs_int8 : out.needs_float) = true;
    return kind;
  };
  const size_t group_count = step.epilogue == Epilogue::gated ? 1 : step.groups.size();
  for (size_t g = 0; g < group_count; ++g) {
    LoweredGroup group;
    group.matrix = weights.find(step.groups[g].weight);
    group.output = step.groups[g].output;
    group.panel = note_panel(panel_kind(group.matrix->type));
    group.first_unit = out.units;
    for (int c = 1; c <= kMaxKernelColumns; ++c) group.kernels[c] = kernels.kernel(group.matrix->type, c);
    if (step.epilogue == Epilogue::gated) {
      group.gated_by = weights.find(step.groups[1].weight);
      group.gated_panel = note_panel(panel_kind(group.gated_by->type));
      for (int c = 1; c <= kMaxKernelColumns; ++c) group.gated_kernels[c] = kernels.kernel(group.gated_by->type, c);
    }
    out.units += group.matrix->tile_rows();
    out.groups.push_back(group);
  }
  out.unit_begin = divide_units(out.groups, out.units, threads);
  out.bytes = model::weight_bytes(model::Step{step});
  return out;
}

size_t find_or_add_rope(std::vector<RopeFrequencies>& ropes, const model::Rope& rope) {
  const auto key = [](const model::Rope& r) { return std::tuple(r.pairs, r.dimensions, r.base, r.factor, r.divisors); };
  for (size_t i = 0; i < ropes.size(); ++i) {
    if (key(ropes[i].rope) == key(rope)) return i;
  }
  ropes.push_back({{}, rope});
  return ropes.size() - 1;
}

Status fill_frequencies(RopeFrequencies& out) {
  auto divisors = floats_of(out.rope.divisors);
  if (!divisors) return std::move(divisors).error();
  const uint32_t pairs = out.rope.dimensions / 2;
  for (uint32_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(static_cast<double>(out.rope.base), -2.0 * i / out.rope.dimensions) / out.rope.factor;
    if (!divisors->empty()) frequency /= (*divisors)[i];
    out.frequency.push_back(frequency);
  }
  return {};
}

}  // namespace

Result<LoweredProgram> lower(const model::Program& program, const format::Checkpoint& checkpoint,
                             const TiledWeights& weights, const MatrixKernels& kernels, int threads) {
  LoweredProgram out;
  for (const model::Step& step : program.steps) {
    LoweredStep lowered;
    if (const auto* embed = std::get_if<model::EmbedStep>(&step)) {
      lowered.name = "embedding";
      lowered.action = LoweredEmbed{weights.find(embed->weight), embed->weight, embed->scale, embed->output};
    } else if (const auto* matrix = std::get_if<model::MatrixStep>(&step)) {
      for (const model::RowGroup& group : matrix->groups) {
        lowered.name += (lowered.name.empty() ? "" : "|") + short_name(group.weight->name);
      }
      if (matrix->epilogue == model::MatrixStep::Epilogue::logits) lowered.name = "logits";
      auto action = lower_matrix(*matrix, weights, kernels, threads);
      if (!action) return std::move(action).error();
      out.largest_input = std::max(out.largest_input, action->input_width);
      lowered.action = std::move(*action);
    } else {
      const auto& attention = std::get<model::AttentionStep>(step);
      lowered.name = "attention";
      LoweredAttention action{attention, {}, {}, find_or_add_rope(out.ropes, attention.rope)};
      auto q_norm = floats_of(attention.q_norm);
      if (!q_norm) return std::move(q_norm).error();
      auto k_norm = floats_of(attention.k_norm);
      if (!k_norm) return std::move(k_norm).error();
      action.q_norm = std::move(*q_norm);
      action.k_norm = std::move(*k_norm);
      out.largest_head = std::max<size_t>({out.largest_head, attention.head_size, attention.value_size});
      lowered.action = std::move(action);
    }
    out.steps.push_back(std::move(lowered));
    checkpoint.release_all();
  }
  for (RopeFrequencies& rope : out.ropes)
    if (auto status = fill_frequencies(rope); !status) return std::move(status).error();
  return out;
}

}  // namespace gale::exec
