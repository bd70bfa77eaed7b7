// Choice of the vector kernels for an instruction set.
#include "exec/cpu/vector_kernels.h"

namespace gale::exec {

const VectorKernels& vector_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512_vector_kernels();
  if (isa == Isa::avx2) return avx2_vector_kernels();
#endif
  static_cast<void>(isa);
  return scalar_vector_kernels();
}

}  // namespace gale::exec
