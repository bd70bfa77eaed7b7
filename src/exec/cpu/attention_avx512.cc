// The attention kernels for AVX-512.
#if defined(__x86_64__)
#include "exec/cpu/attention_algorithms.h"
#include "exec/cpu/lanes_avx512.h"

namespace gale::exec {

const AttentionKernels& avx512_attention_kernels(CacheType type) {
  return attention_table<Lanes>(type);
}

}  // namespace gale::exec
#endif
