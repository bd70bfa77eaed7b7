// Re-tiles the weights of a program: plans the memory, then walks the file in order with all threads.
#include "exec/cpu/tiled_weights.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"

namespace gale::exec {
namespace {

using model::Weight;

constexpr size_t kCacheLine = 64;
// Bytes of a weight that a thread re-tiles before it gives the file's pages back: large enough to make the system calls
// cheap, small enough not to matter for peak memory.
constexpr size_t kReleaseBytes = size_t{1} << 20;

// Where a weight goes: `offset` of its first tile row in the arena and the step from one tile row to the next.
struct Placement {
  Weight weight;
  size_t offset, tile_row_size, stride;
};

Result<size_t> tile_row_size_of(Weight weight, uint32_t height) {
  if (!has_matrix_kernel(weight->type)) {
    return fail(ErrorKind::unsupported,
                "tensor '{}' has type {}, for which there is no CPU kernel; there are kernels for Q4_0, Q4_1, Q5_0, "
                "Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, F16, BF16 and F32",
                weight->name, format::type_name(weight->type));
  }
  return tile_row_bytes(weight->type, height, weight->row_length());
}

Result<std::vector<Placement>> plan(const model::Program& program, uint32_t height, size_t& total) {
  std::vector<Placement> placements;
  const auto placed = [&](Weight weight) {
    return std::any_of(placements.begin(), placements.end(), [&](const Placement& p) { return p.weight == weight; });
  };
  total = 0;
  for (const model::Step& step : program.steps) {
    const auto* matrix = std::get_if<model::MatrixStep>(&step);
    if (matrix == nullptr) continue;
    const bool gated = matrix->epilogue == model::MatrixStep::Epilogue::gated;
    if (gated && !placed(matrix->groups[0].weight) && !placed(matrix->groups[1].weight)) {
      const auto gate = tile_row_size_of(matrix->groups[0].weight, height);
      if (!gate) return gate.error();
      const auto up = tile_row_size_of(matrix->groups[1].weight, height);
      if (!up) return up.error();
      const size_t stride = *gate + *up;
      placements.push_back({matrix->groups[0].weight, total, *gate, stride});
      placements.push_back({matrix->groups[1].weight, total + *gate, *up, stride});
      total += round_up(stride * divide_up<size_t>(matrix->groups[0].weight->rows(), height), kCacheLine);
      continue;
    }
    for (const model::RowGroup& group : matrix->groups) {
      if (placed(group.weight)) continue;
      const auto size = tile_row_size_of(group.weight, height);
      if (!size) return size.error();
      placements.push_back({group.weight, total, *size, *size});
      total += round_up(*size * divide_up<size_t>(group.weight->rows(), height), kCacheLine);
    }
  }
  return placements;
}

}  // namespace

Result<TiledWeights> TiledWeights::load(const model::Program& program, const format::Checkpoint& checkpoint,
                                        uint32_t height, Team& team) {
  size_t total = 0;
  auto planned = plan(program, height, total);
  if (!planned) return std::move(planned).error();
  if (const size_t available = available_memory_bytes(); total > available) {
    return fail(ErrorKind::limit,
                "the weights take {:.2f} GB, but only {:.2f} GB of memory are available; use a smaller or "
                "more strongly quantised model",
                static_cast<double>(total) * 1e-9, static_cast<double>(available) * 1e-9);
  }
  auto memory = PageBuffer::allocate(total, /*huge_pages=*/true);
  if (!memory) return std::move(memory).error();

  TiledWeights weights;
  weights.memory_ = std::move(*memory);
  for (const Placement& p : *planned) {
    weights.matrices_.emplace(
        p.weight, TiledMatrix{p.weight->type, static_cast<uint32_t>(p.weight->rows()), p.weight->row_length(), height,
                              weights.memory_.data() + p.offset, p.tile_row_size, p.stride});
  }
  // In file order, so that a cold file is read front to back.
  std::sort(planned->begin(), planned->end(), [](const Placement& a, const Placement& b) {
    return std::pair(a.weight->file, a.weight->stored().data()) < std::pair(b.weight->file, b.weight->stored().data());
  });
  for (const Placement& p : *planned) checkpoint.will_read(*p.weight);
  // Where a thread makes rows that the file doesn't hold as they are.
  size_t row_memory = 0;
  for (const Placement& p : *planned)
    if (p.weight->recipe) row_memory = std::max<size_t>(row_memory, height * p.weight->row_bytes());
  std::vector<std::vector<std::byte>> buffers(static_cast<size_t>(team.size()), std::vector<std::byte>(row_memory));
  std::byte* const arena = weights.memory_.data();
  team.run([&](int member) {
    for (size_t i = 0; i < planned->size(); ++i) {
      const Placement& p = (*planned)[i];
      // The kernel maps pages around each fault, so pages at the borders of what was released come back: once more
      // behind it.
      if (member == 0 && i > 0) checkpoint.release(*(*planned)[i - 1].weight);
      const size_t rows = p.weight->rows();
      const size_t row_bytes = p.weight->stored().size() / rows;
      const Range mine = split_range(divide_up<size_t>(rows, height), member, team.size());
      size_t kept = mine.begin * height;  // the rows from here on are still mapped in
      for (size_t t = mine.begin; t < mine.end; ++t) {
        const size_t first = t * height;
        const size_t count = std::min<size_t>(height, rows - first);
        const auto file_rows = p.weight->rows(first, count, buffers[static_cast<size_t>(member)]);
        make_tile_row(p.weight->type, height, p.weight->row_length(), file_rows.data(), static_cast<uint32_t>(count),
                      arena + p.offset + t * p.stride);
        const size_t done = first + count;
        if ((done - kept) * row_bytes >= kReleaseBytes || t + 1 == mine.end) {
          checkpoint.release(*p.weight, kept, done - kept);
          kept = done;
        }
      }
    }
  });
  checkpoint.release_all();
  return weights;
}

const TiledMatrix* TiledWeights::find(model::Weight weight) const {
  const auto it = matrices_.find(weight);
  return it == matrices_.end() ? nullptr : &it->second;
}

}  // namespace gale::exec
