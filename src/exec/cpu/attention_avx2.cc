// The attention kernels for AVX2.
#if defined(__x86_64__)
#include "exec/cpu/attention_algorithms.h"
#include "exec/cpu/lanes_avx2.h"

namespace gale::exec {

const AttentionKernels& avx2_attention_kernels(CacheType type) {
  return attention_table<Lanes>(type);
}

}  // namespace gale::exec
#endif
