// The vector kernels for AVX-512.
#if defined(__x86_64__)
#include "exec/cpu/lanes_avx512.h"
#include "exec/cpu/vector_algorithms.h"

namespace gale::exec {

const VectorKernels& avx512_vector_kernels() {
  static constexpr VectorKernels kernels = VectorAlgorithms<Lanes>::table();
  return kernels;
}

}  // namespace gale::exec
#endif
