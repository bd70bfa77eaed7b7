// Attention over one chunk of cached positions for several query rows, reading every key and value once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "exec/pass.h"

namespace gale::exec {

// One query head of one column.
struct QueryRow {
  const float* q;       // [head_size], after norm and rope
  uint32_t begin, end;  // positions it sees inside the chunk: [begin, end), absolute, begin < end
  float* partial;       // [2 + value_size]: max, sum, weighted values (not normalised)
};

struct ChunkArguments {
  const std::byte* const*
      blocks;               // head blocks of the chunk, kChunkPositions / kBlockPositions of them; null where unused
  uint32_t first_position;  // of the chunk: a multiple of kChunkPositions
  uint32_t head_size, value_size;
  size_t key_bytes;  // offset of the values in a head block
  float scale, softcap;
  const QueryRow* rows;
  uint32_t row_count;
  float* scratch;  // attention_scratch_floats(row_count)
  const std::byte* const* next_blocks =
      nullptr;  // of the chunk that this thread will read next, to be asked for; or null
};

// Score of position p: chain of fma over d in rising order (Q8_0: per 32 elements, then fma with the block's scale),
// times scale, softcapped. max over [begin, end). e(p) = exp(score - max); sum: lane = p % 16, rising, folded like in
// vector_kernels.h. Values: per element a chain of fma over p in rising order. So a row's result depends on nothing but
// its own q, range and cache.
struct AttentionKernels {
  void (*chunk)(const ChunkArguments& arguments);
  // Writes the key / value of one position (p in 0..63) of a head block. F16: clamped to the largest finite half.
  void (*append_key)(const float* key, uint32_t head_size, uint32_t position, std::byte* head_block);
  void (*append_value)(const float* value, uint32_t value_size, uint32_t position, std::byte* values);
  // Merges the partial results of one row, chunks in rising order, into out [value_size]; no chunk: zeros, no NaN.
  // `stride` floats lie between the partials of consecutive chunks.
  void (*merge)(const float* partials, size_t stride, uint32_t chunks, uint32_t value_size, float* out);
};
size_t attention_scratch_floats(uint32_t row_count);

const AttentionKernels& attention_kernels(Isa isa, CacheType type);
const AttentionKernels& scalar_attention_kernels(CacheType type);
#if defined(__x86_64__)
const AttentionKernels& avx2_attention_kernels(CacheType type);
const AttentionKernels& avx512_attention_kernels(CacheType type);
#endif

}  // namespace gale::exec
