// Products of one tile row with 1 to 8 columns, one implementation per instruction set, all with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "format/tensor_type.h"

namespace gale::exec {

constexpr int kMaxKernelColumns = 8;

// What a type wants its activations to be.
enum class PanelKind { int8, float32 };
PanelKind panel_kind(format::TensorType type);

// A *panel* is the input of up to 8 columns, next to each other so that a kernel walks it once. With C columns:
//   int8:    per block of 32 values: i8 values[C][32] | f32 scale[C] | f32 sum[C] | i32 half_sum[C][2]
//            value = scale * int8; half_sum are the integer sums of values 0-15 and 16-31; sum = scale * float(both)
//   float32: per value: f32 [C]
size_t panel_bytes(PanelKind kind, size_t row_length, int columns);

// out[c * height + r] = row r of the tile row . column c. `length` is the row length in values (a multiple of the block
// of the type). The order of additions of an element is fixed by its row alone and is the same for every instruction
// set (u: weight as stored without offset, x: int8 activations, I: exact integer arithmetic, all products with float
// are rounded once, fma is fused; for every block of 32 in rising order):
//   Q4_0  acc = fma(d * scale, float(I(u.x - 8 S)), acc)      S = sum of x; Q5_0: 16, Q8_0: 128 in place of 8
//   Q4_1, Q5_1  acc = fma(d * scale, float(I(u.x)), acc); acc = fma(m, sum, acc)
//   Q4_K, Q5_K  acc = fma((d * float(sc)) * scale, float(I(u.x)), acc); acc = fma(-(dmin * float(mn)), sum, acc)
//   Q6_K  acc = fma(d * scale, float(I(sc0 (u.x - 32 S0) + sc1 (u.x - 32 S1))), acc), over the two halves of the block
//   F32, F16, BF16   acc = fma(w, x, acc) for every value in rising order
using MatrixKernel = void (*)(const std::byte* tile_row, const std::byte* panel, size_t length, float* out);

// Writes column `column` of a panel of `columns` from x [length]. int8: scale = max|x| / 127 of the block (0 if that is
// 0), value = round to nearest even of x / scale computed as x * (127 / max|x|). A block whose 127 / max|x| overflows
// counts as all zero; one that holds a NaN or an infinity gets values and integer sums 0, and max|x| / 127 (NaN if
// there is a NaN) as its scale and NaN as its sum, so that every product with it is NaN. sum = scale *
// float(half_sum[0] + half_sum[1]).
using PanelWriter = void (*)(const float* x, size_t length, int columns, int column, std::byte* panel);

struct MatrixKernels {
  Isa isa;
  uint32_t height;  // rows of a tile: 16 with AVX-512, 8 otherwise
  // Null for a type without a kernel. `columns` in 1 .. kMaxKernelColumns.
  MatrixKernel (*kernel)(format::TensorType type, int columns);
  PanelWriter (*panel_writer)(PanelKind kind);
};

// The kernels of an instruction set that this processor has. The scalar ones also exist for a height of 16.
const MatrixKernels& matrix_kernels(Isa isa);

// One table per instruction set, and the scalar one for both heights; each is defined in its own file, compiled for
// that set.
const MatrixKernels& scalar_matrix_kernels();
const MatrixKernels& scalar_matrix_kernels_16();  // the same for tiles of 16 rows
#if defined(__x86_64__)
const MatrixKernels& avx2_matrix_kernels();
const MatrixKernels& avx512_matrix_kernels();
#endif

}  // namespace gale::exec
