// Chooses matrix kernels by instruction set and says how panels are laid out.
#include "exec/cpu/matrix_kernels.h"

#include "exec/cpu/tile_layout.h"

namespace gale::exec {

PanelKind panel_kind(format::TensorType type) {
  return block_size(type).values > 1 ? PanelKind::int8 : PanelKind::float32;
}

size_t panel_bytes(PanelKind kind, size_t row_length, int columns) {
  const size_t c = static_cast<size_t>(columns);
  // Per block of 32 values and column: 32 values, scale, sum, two half sums.
  return kind == PanelKind::int8 ? row_length / 32 * c * (32 + 4 + 4 + 2 * 4) : row_length * c * sizeof(float);
}

const MatrixKernels& matrix_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512_matrix_kernels();
  if (isa == Isa::avx2) return avx2_matrix_kernels();
#endif
  (void)isa;
  return scalar_matrix_kernels();
}

}  // namespace gale::exec
