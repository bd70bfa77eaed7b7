// Everything that lives as long as one pass: buffers, panels, angles, the columns by sequence, scratch memory per
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "base/team.h"
#include "exec/cpu/attention_kernels.h"
#include "exec/cpu/kv_cache.h"
#include "exec/cpu/lowering.h"
#include "exec/cpu/matrix_kernels.h"
#include "exec/cpu/vector_kernels.h"
#include "exec/pass.h"

namespace gale::exec {

// Up to this many columns a pass is "narrow": every matrix step reads its weights once for all of them, and attention
// is divided over chunks of positions. Wider passes divide attention over blocks of columns. Results are the same bits.
constexpr size_t kNarrowColumns = kMaxKernelColumns;

// The columns of one sequence in this pass: `columns[i]` (index into the pass) is at position first_position + i.
struct SequenceColumns {
  SequenceId id = 0;
  uint32_t first_position = 0;
  std::vector<uint32_t> columns;

  uint32_t end_position() const { return first_position + static_cast<uint32_t>(columns.size()); }
};

// Memory of one thread; grown before the team starts.
struct ThreadScratch {
  std::vector<float> row, sum;           // [largest input] after norm; the residual sum before it
  PageBuffer int8_panel, float_panel;    // private panels of a narrow pass
  std::vector<float> queries;            // [query rows x largest head]
  std::vector<float> key;                // [largest head]
  std::vector<std::byte> embedding_row;  // of an embedding whose rows the file doesn't hold as they are needed
  std::vector<QueryRow> rows;
  std::vector<float> partials;   // wide passes: [query rows x chunks x (2 + value size)]
  std::vector<float> attention;  // attention_scratch_floats(query rows)
};

// What a pass reads and writes. Built once per executor, refilled for each pass.
struct PassState {
  const LoweredProgram* program = nullptr;
  const MatrixKernels* matrix = nullptr;
  const VectorKernels* vector = nullptr;
  const AttentionKernels* attention = nullptr;
  KvCache* cache = nullptr;
  Team* team = nullptr;

  std::vector<size_t> widths;            // of the program's buffers
  std::vector<PageBuffer> memory;        // [max columns x width] each
  PageBuffer int8_panels, float_panels;  // shared panels of wide steps
  std::vector<ThreadScratch> scratch;    // one per thread

  std::span<const Column> columns;
  std::vector<uint32_t> wanted;  // columns that want logits
  std::span<float> logits;       // [wanted x vocabulary]
  size_t vocabulary = 0;
  std::vector<SequenceColumns> sequences;

  struct Angles {
    std::vector<float> cos, sin;  // [columns x pairs]
  };
  std::vector<Angles> angles;  // by LoweredAttention::rope

  // Narrow attention: partial results [sequence][kv head][column][head of the group][chunk][2 + value size], and how
  // many chunks of a (step, sequence, kv head) are done; whoever does the last one merges.
  std::vector<float> partials;
  std::vector<std::atomic<uint32_t>> chunks_done;  // [steps x chunk_counters]
  size_t chunk_counters = 0;
  std::vector<std::atomic<uint32_t>> next_task;  // wide attention, by step

  float* row(model::BufferId buffer, size_t column) const {
    return reinterpret_cast<float*>(memory[buffer].data()) + column * widths[buffer];
  }
};

// Allocates what does not depend on the pass.
Status prepare(PassState& pass, const model::Program& program, size_t max_columns);

// The phases; every member of the team calls them, with a barrier after each. Only run_attention and wide matrix steps
// call the barrier inside as well.
void run_embed(const LoweredEmbed& step, PassState& pass, int member);
void fill_angles(PassState& pass, int member);
void run_matrix(const LoweredMatrix& step, PassState& pass, int member);
void run_attention(const LoweredAttention& step, size_t step_index, PassState& pass, int member);

// Sizes the scratch memory and counters that attention needs in this pass (before the team starts).
void prepare_attention(PassState& pass);
// Bytes of cache that an attention step reads in this pass.
uint64_t attention_bytes(const LoweredAttention& step, const PassState& pass);
// Asks for the first bytes of a thread's share of a matrix step, so that they arrive while it waits for the others.
void prefetch_weights(const LoweredMatrix& step, int member);

}  // namespace gale::exec
