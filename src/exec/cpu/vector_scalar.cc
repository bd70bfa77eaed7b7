// The vector kernels for portable C++.
#include "exec/cpu/lanes_scalar.h"
#include "exec/cpu/vector_algorithms.h"

namespace gale::exec {

const VectorKernels& scalar_vector_kernels() {
  static constexpr VectorKernels kernels = VectorAlgorithms<Lanes>::table();
  return kernels;
}

}  // namespace gale::exec
