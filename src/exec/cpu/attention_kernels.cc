// Choice of the attention kernels for an instruction set and cache type.
#include "exec/cpu/attention_kernels.h"

#include "exec/cpu/kv_cache.h"

namespace gale::exec {

size_t attention_scratch_floats(uint32_t row_count) {
  return size_t{row_count} * kChunkPositions;
}

const AttentionKernels& attention_kernels(Isa isa, CacheType type) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512_attention_kernels(type);
  if (isa == Isa::avx2) return avx2_attention_kernels(type);
#endif
  static_cast<void>(isa);
  return scalar_attention_kernels(type);
}

}  // namespace gale::exec
