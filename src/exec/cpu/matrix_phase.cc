// Matrix steps: the prologue turns columns into panels, kernels walk tile rows, the epilogue puts the products where
// they go.
#include <algorithm>
#include <cstring>

#include "exec/cpu/pass_state.h"

namespace gale::exec {
namespace {

// From this many input values on, panels are made once by all threads together, which costs a barrier (about 0.5 us,
// the time that preparing about 4,000 values takes); below, every thread makes its own.
constexpr size_t kSharedPanelValues = 8192;
// Panels that are walked for each tile row in turn: half of the second-level cache of the smallest processor in view
// (512 KB).
constexpr size_t kPanelBlockBytes = size_t{256} << 10;
constexpr size_t kMaxHeight = 16;

// The panels of a step: `count` columns in panels of 8, the last one with the rest.
struct Panels {
  std::byte* int8 = nullptr;
  std::byte* float32 = nullptr;
  size_t count = 0;
  size_t int8_bytes = 0, float_bytes = 0;  // of a full panel

  size_t size() const { return (count + kMaxKernelColumns - 1) / kMaxKernelColumns; }
  int columns(size_t panel) const {
    return static_cast<int>(std::min<size_t>(kMaxKernelColumns, count - panel * kMaxKernelColumns));
  }
  const std::byte* get(PanelKind kind, size_t panel) const {
    return kind == PanelKind::int8 ? int8 + panel * int8_bytes : float32 + panel * float_bytes;
  }
};

// Writes column `slot` of the panels: prologue of the pass' column `column`. Stores the residual sum if `owns`.
void write_column(const LoweredMatrix& step, PassState& pass, ThreadScratch& scratch, const Panels& panels, size_t slot,
                  size_t column, bool owns) {
  const LoweredPrologue& prologue = step.prologue;
  const size_t width = step.input_width;
  const float* values = pass.row(prologue.input, column);
  if (prologue.kind == model::Prologue::Kind::norm) {
    pass.vector->rms_norm(values, prologue.weight.data(), prologue.epsilon, width, scratch.row.data());
    values = scratch.row.data();
  } else if (prologue.kind == model::Prologue::Kind::add_norm) {
    pass.vector->add_rms_norm(values, prologue.post_weight.data(), prologue.epsilon,
                              pass.row(prologue.residual, column), width, scratch.sum.data());
    if (owns) std::memcpy(pass.row(prologue.sum, column), scratch.sum.data(), width * sizeof(float));
    pass.vector->rms_norm(scratch.sum.data(), prologue.weight.data(), prologue.epsilon, width, scratch.row.data());
    values = scratch.row.data();
  }
  const size_t panel = slot / kMaxKernelColumns;
  const int in_panel = static_cast<int>(slot % kMaxKernelColumns);
  if (step.needs_int8) {
    pass.matrix->panel_writer(PanelKind::int8)(values, width, panels.columns(panel), in_panel,
                                               panels.int8 + panel * panels.int8_bytes);
  }
  if (step.needs_float) {
    pass.matrix->panel_writer(PanelKind::float32)(values, width, panels.columns(panel), in_panel,
                                                  panels.float32 + panel * panels.float_bytes);
  }
}

// Puts the products of one tile row and one panel where they belong. `products` [columns x height].
void finish(const LoweredMatrix& step, const LoweredGroup& group, PassState& pass, const uint32_t* active,
            size_t first_slot, int columns, size_t first_row, float* products) {
  using Epilogue = model::MatrixStep::Epilogue;
  const size_t height = group.matrix->height;
  const size_t rows = std::min<size_t>(height, group.matrix->rows - first_row);
  if (step.epilogue == Epilogue::logits && step.softcap > 0) {
    pass.vector->softcap(products, step.softcap, height * static_cast<size_t>(columns));
  }
  for (int c = 0; c < columns; ++c, products += height) {
    const size_t slot = first_slot + static_cast<size_t>(c);
    if (step.epilogue == Epilogue::logits) {
      std::memcpy(pass.logits.data() + slot * pass.vocabulary + first_row, products, rows * sizeof(float));
      continue;
    }
    float* out = pass.row(group.output, active != nullptr ? active[slot] : slot) + first_row;
    if (step.epilogue == Epilogue::add) {
      pass.vector->add(out, products, rows);
    } else {
      std::memcpy(out, products, rows * sizeof(float));
    }
  }
}

}  // namespace

void run_matrix(const LoweredMatrix& step, PassState& pass, int member) {
  const bool logits = step.epilogue == model::MatrixStep::Epilogue::logits;
  const uint32_t* active = logits ? pass.wanted.data() : nullptr;
  const size_t count = logits ? pass.wanted.size() : pass.columns.size();
  if (count == 0) return;
  const size_t threads = static_cast<size_t>(pass.team->size());
  ThreadScratch& scratch = pass.scratch[static_cast<size_t>(member)];

  const bool shared =
      count > kNarrowColumns || (count >= threads && threads > 1 && count * step.input_width > kSharedPanelValues);
  Panels panels;
  panels.count = count;
  panels.int8_bytes = panel_bytes(PanelKind::int8, step.input_width, kMaxKernelColumns);
  panels.float_bytes = panel_bytes(PanelKind::float32, step.input_width, kMaxKernelColumns);
  panels.int8 = shared ? pass.int8_panels.data() : scratch.int8_panel.data();
  panels.float32 = shared ? pass.float_panels.data() : scratch.float_panel.data();
  const auto column_of = [&](size_t slot) { return active != nullptr ? active[slot] : slot; };
  if (shared) {
    const Range mine = split_range(count, member, pass.team->size());
    for (size_t slot = mine.begin; slot < mine.end; ++slot) {
      write_column(step, pass, scratch, panels, slot, column_of(slot), /*owns=*/true);
    }
    pass.team->barrier(member);
  } else {
    for (size_t slot = 0; slot < count; ++slot) {
      write_column(step, pass, scratch, panels, slot, column_of(slot),
                   /*owns=*/slot % threads == static_cast<size_t>(member));
    }
  }

  const size_t begin = step.unit_begin[static_cast<size_t>(member)],
               end = step.unit_begin[static_cast<size_t>(member) + 1];
  const size_t widest_panel =
      std::max(step.needs_int8 ? panels.int8_bytes : 0, step.needs_float ? panels.float_bytes : 0);
  const size_t panels_per_block = std::max<size_t>(1, kPanelBlockBytes / widest_panel);
  alignas(64) float products[kMaxKernelColumns * kMaxHeight];
  alignas(64) float gated[kMaxKernelColumns * kMaxHeight];
  for (size_t first_panel = 0; first_panel < panels.size(); first_panel += panels_per_block) {
    const size_t end_panel = std::min(panels.size(), first_panel + panels_per_block);
    for (const LoweredGroup& group : step.groups) {
      const size_t tile_rows = group.matrix->tile_rows();
      const size_t from = std::max(begin, group.first_unit), to = std::min(end, group.first_unit + tile_rows);
      for (size_t unit = from; unit < to; ++unit) {
        const size_t tile_row = unit - group.first_unit;
        for (size_t panel = first_panel; panel < end_panel; ++panel) {
          const int columns = panels.columns(panel);
          group.kernels[static_cast<size_t>(columns)](group.matrix->tile_row(tile_row), panels.get(group.panel, panel),
                                                      step.input_width, products);
          if (group.gated_by != nullptr) {
            group.gated_kernels[static_cast<size_t>(columns)](
                group.gated_by->tile_row(tile_row), panels.get(group.gated_panel, panel), step.input_width, gated);
            const size_t n = group.matrix->height * static_cast<size_t>(columns);
            (step.activation == model::Activation::silu ? pass.vector->silu_gated : pass.vector->gelu_gated)(
                products, gated, n, products);
          }
          finish(step, group, pass, active, panel * kMaxKernelColumns, columns, tile_row * group.matrix->height,
                 products);
        }
      }
    }
  }
}

void prefetch_weights(const LoweredMatrix& step, int member) {
  // About what memory delivers while a thread waits at the barrier, at most one tile row.
  constexpr size_t kBytes = 12288, kLine = 64;
  const size_t unit = step.unit_begin[static_cast<size_t>(member)];
  for (const LoweredGroup& group : step.groups) {
    if (unit < group.first_unit || unit >= group.first_unit + group.matrix->tile_rows()) continue;
    const std::byte* tiles = group.matrix->tile_row(unit - group.first_unit);
    for (size_t offset = 0; offset < std::min(kBytes, group.matrix->tile_row_size); offset += kLine)
      __builtin_prefetch(tiles + offset);
    return;
  }
}

}  // namespace gale::exec
