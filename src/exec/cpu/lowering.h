// A program made ready for the CPU: tiles, kernels, row ranges per thread, float copies of the norm weights.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "exec/cpu/matrix_kernels.h"
#include "exec/cpu/tiled_weights.h"
#include "model/program.h"

namespace gale::exec {

// Prologue with its weights as floats.
struct LoweredPrologue {
  model::Prologue::Kind kind = model::Prologue::Kind::none;
  model::BufferId input = 0, residual = 0, sum = 0;
  std::vector<float> weight, post_weight;
  float epsilon = 0;
};

// One weight of a matrix step. Units are numbered over the whole step; this group has [first_unit, first_unit + tile
// rows).
struct LoweredGroup {
  const TiledMatrix* matrix = nullptr;
  const TiledMatrix* gated_by = nullptr;  // gated steps: the "up" weight, whose tile rows belong to the same units
  std::array<MatrixKernel, kMaxKernelColumns + 1> kernels{};        // by number of columns; [0] unused
  std::array<MatrixKernel, kMaxKernelColumns + 1> gated_kernels{};  // of gated_by
  PanelKind panel = PanelKind::int8, gated_panel = PanelKind::int8;
  model::BufferId output = 0;
  size_t first_unit = 0;
};

struct LoweredMatrix {
  LoweredPrologue prologue;
  size_t input_width = 0;
  std::vector<LoweredGroup> groups;
  model::MatrixStep::Epilogue epilogue = model::MatrixStep::Epilogue::store;
  model::Activation activation = model::Activation::silu;
  float softcap = 0;
  bool needs_int8 = false, needs_float = false;  // panels that the kernels of this step read
  size_t units = 0;                              // tile rows (pairs of them if gated)
  std::vector<size_t> unit_begin;  // [threads + 1]: thread t owns units [unit_begin[t], unit_begin[t + 1])
  uint64_t bytes = 0;              // of weights
};

struct LoweredEmbed {
  const TiledMatrix* tiled = nullptr;  // null: the rows are read from the file
  model::Weight weight = nullptr;
  float scale = 1;
  model::BufferId output = 0;
};

struct LoweredAttention {
  model::AttentionStep step;
  std::vector<float> q_norm, k_norm;  // empty: none
  size_t rope = 0;                    // index into LoweredProgram::ropes
};

// Angles per position of one kind of rotary embedding: pair i turns by position * frequency[i].
struct RopeFrequencies {
  std::vector<double> frequency;  // [dimensions / 2]
  model::Rope rope;
};

struct LoweredStep {
  std::variant<LoweredEmbed, LoweredMatrix, LoweredAttention> action;
  std::string name;  // for profiles: "attn_q|k|v", "attention", ...
};

struct LoweredProgram {
  std::vector<LoweredStep> steps;
  std::vector<RopeFrequencies> ropes;
  size_t largest_input = 0;  // widest input of a matrix step
  size_t largest_head = 0;   // largest head or value size
};

// `weights` must outlive the result. Pages of the checkpoint's files are given back step by step: reading a small
// tensor maps the pages around it, too.
Result<LoweredProgram> lower(const model::Program& program, const format::Checkpoint& checkpoint,
                             const TiledWeights& weights, const MatrixKernels& kernels, int threads);

}  // namespace gale::exec
