// The attention kernels for portable C++.
#include "exec/cpu/attention_algorithms.h"
#include "exec/cpu/lanes_scalar.h"

namespace gale::exec {

const AttentionKernels& scalar_attention_kernels(CacheType type) {
  return attention_table<Lanes>(type);
}

}  // namespace gale::exec
