// Attention steps: norm, rotate and append new keys and values, then attend, divided over chunks (narrow) or columns
// (wide).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "exec/cpu/pass_state.h"

namespace gale::exec {
namespace {

constexpr uint32_t kBlocksPerChunk = kChunkPositions / kBlockPositions;
// Query rows (columns x heads of a group) that one task of a wide pass handles together: enough to use each key and
// value many times while it is in registers and first-level cache.
constexpr uint32_t kWideRows = 48;
// Floats of partial results a thread of a wide pass may hold; long contexts take fewer columns per task.
constexpr size_t kWidePartialFloats = size_t{1} << 20;

// The first position that a query at `position` sees.
uint32_t first_visible(const model::AttentionStep& step, uint32_t position) {
  return step.window == 0 || position + 1 <= step.window ? 0 : position + 1 - step.window;
}

struct ChunkRange {
  uint32_t begin = 0, end = 0;
  uint32_t size() const { return end - begin; }
};

// Chunks that queries at positions [first, end) see.
ChunkRange visible_chunks(const model::AttentionStep& step, uint32_t first, uint32_t end) {
  return {first_visible(step, first) / kChunkPositions, (end - 1) / kChunkPositions + 1};
}

uint32_t group_size(const model::AttentionStep& step) {
  return step.heads / step.kv_heads;
}
size_t partial_floats(const model::AttentionStep& step) {
  return 2 + step.value_size;
}

// Norms (if the model does) and rotates one head of `column` into `out`.
void prepare_head(const LoweredAttention& step, const PassState& pass, const float* head,
                  const std::vector<float>& norm, size_t column, float* out) {
  const uint32_t size = step.step.head_size;
  if (norm.empty()) {
    std::memcpy(out, head, size * sizeof(float));
  } else {
    pass.vector->rms_norm(head, norm.data(), step.step.epsilon, size, out);
  }
  const uint32_t rotating = step.step.rope.dimensions;
  if (rotating == 0) return;
  const PassState::Angles& angles = pass.angles[step.rope];
  const auto rotate =
      step.step.rope.pairs == model::Rope::Pairs::neighbours ? pass.vector->rope_neighbours : pass.vector->rope_halves;
  rotate(out, angles.cos.data() + column * (rotating / 2), angles.sin.data() + column * (rotating / 2), rotating);
}

void append(const LoweredAttention& step, PassState& pass, const SequenceColumns& sequence, uint32_t index,
            uint32_t kv_head, ThreadScratch& scratch) {
  const model::AttentionStep& s = step.step;
  const uint32_t column = sequence.columns[index], position = sequence.first_position + index;
  std::byte* block = pass.cache->head_block(sequence.id, s.cache, kv_head, position / kBlockPositions);
  prepare_head(step, pass, pass.row(s.k, column) + kv_head * s.head_size, step.k_norm, column, scratch.key.data());
  pass.attention->append_key(scratch.key.data(), s.head_size, position % kBlockPositions, block);
  pass.attention->append_value(pass.row(s.v, column) + kv_head * s.value_size, s.value_size, position % kBlockPositions,
                               block + pass.cache->layout(s.cache).key_bytes);
}

void find_blocks(const model::AttentionStep& step, const PassState& pass, const SequenceColumns& sequence,
                 uint32_t kv_head, uint32_t chunk, const std::byte* (&blocks)[kBlocksPerChunk]) {
  for (uint32_t b = 0; b < kBlocksPerChunk; ++b) {
    blocks[b] = pass.cache->head_block(sequence.id, step.cache, kv_head, chunk * kBlocksPerChunk + b);
  }
}

// Attends to one chunk for columns [first, end) of a sequence and all heads of a group. The partial result of row
// (column, head of the group) goes to partials + (row * chunk stride + chunk - first chunk) * partial_floats.
void attend_chunk(const LoweredAttention& step, PassState& pass, const SequenceColumns& sequence, uint32_t first,
                  uint32_t end, uint32_t kv_head, uint32_t chunk, ChunkRange chunks, float* partials,
                  ThreadScratch& scratch, const std::byte* const* next_blocks = nullptr) {
  const model::AttentionStep& s = step.step;
  const uint32_t chunk_begin = chunk * kChunkPositions, chunk_end = chunk_begin + kChunkPositions;
  scratch.rows.clear();
  for (uint32_t i = first; i < end; ++i) {
    const uint32_t position = sequence.first_position + i;
    const uint32_t begin = std::max(chunk_begin, first_visible(s, position)), stop = std::min(chunk_end, position + 1);
    if (begin >= stop) continue;
    for (uint32_t h = 0; h < group_size(s); ++h) {
      const size_t row = static_cast<size_t>(i - first) * group_size(s) + h;
      scratch.rows.push_back({scratch.queries.data() + row * s.head_size, begin, stop,
                              partials + (row * chunks.size() + (chunk - chunks.begin)) * partial_floats(s)});
    }
  }
  if (scratch.rows.empty()) return;
  const std::byte* blocks[kBlocksPerChunk];
  find_blocks(s, pass, sequence, kv_head, chunk, blocks);
  ChunkArguments arguments;
  arguments.blocks = blocks;
  arguments.first_position = chunk_begin;
  arguments.head_size = s.head_size;
  arguments.value_size = s.value_size;
  arguments.key_bytes = pass.cache->layout(s.cache).key_bytes;
  arguments.scale = s.scale;
  arguments.softcap = s.softcap;
  arguments.rows = scratch.rows.data();
  arguments.row_count = static_cast<uint32_t>(scratch.rows.size());
  arguments.scratch = scratch.attention.data();
  arguments.next_blocks = next_blocks;
  pass.attention->chunk(arguments);
}

// Norms and rotates the queries of columns [first, end) for all heads of a group into scratch.queries.
void prepare_queries(const LoweredAttention& step, PassState& pass, const SequenceColumns& sequence, uint32_t first,
                     uint32_t end, uint32_t kv_head, ThreadScratch& scratch) {
  const model::AttentionStep& s = step.step;
  float* out = scratch.queries.data();
  for (uint32_t i = first; i < end; ++i) {
    const uint32_t column = sequence.columns[i];
    for (uint32_t h = 0; h < group_size(s); ++h, out += s.head_size) {
      prepare_head(step, pass, pass.row(s.q, column) + (kv_head * group_size(s) + h) * s.head_size, step.q_norm, column,
                   out);
    }
  }
}

// Merges the chunks that each row sees into the output buffer.
void merge_rows(const LoweredAttention& step, PassState& pass, const SequenceColumns& sequence, uint32_t first,
                uint32_t end, uint32_t kv_head, ChunkRange chunks, const float* partials) {
  const model::AttentionStep& s = step.step;
  for (uint32_t i = first; i < end; ++i) {
    const uint32_t position = sequence.first_position + i;
    const ChunkRange seen = visible_chunks(s, position, position + 1);
    for (uint32_t h = 0; h < group_size(s); ++h) {
      const size_t row = static_cast<size_t>(i - first) * group_size(s) + h;
      float* out = pass.row(s.output, sequence.columns[i]) + (kv_head * group_size(s) + h) * s.value_size;
      pass.attention->merge(partials + (row * chunks.size() + (seen.begin - chunks.begin)) * partial_floats(s),
                            partial_floats(s), seen.size(), s.value_size, out);
    }
  }
}

// A task of a narrow pass: one chunk of one KV head of one sequence.
struct NarrowTask {
  const SequenceColumns* sequence = nullptr;
  ChunkRange chunks;
  uint32_t kv_head = 0, chunk = 0;
  float* partials = nullptr;  // of all rows of (sequence, KV head)
  size_t counter = 0;         // of its finished chunks
};

size_t count_narrow_tasks(const model::AttentionStep& s, const PassState& pass) {
  size_t count = 0;
  for (const SequenceColumns& sequence : pass.sequences) {
    count += visible_chunks(s, sequence.first_position, sequence.end_position()).size() * s.kv_heads;
  }
  return count;
}

NarrowTask narrow_task(const model::AttentionStep& s, PassState& pass, size_t index) {
  NarrowTask task;
  task.partials = pass.partials.data();
  for (const SequenceColumns& sequence : pass.sequences) {
    task.chunks = visible_chunks(s, sequence.first_position, sequence.end_position());
    const size_t head_floats = sequence.columns.size() * group_size(s) * task.chunks.size() * partial_floats(s);
    if (index < size_t{task.chunks.size()} * s.kv_heads) {
      task.sequence = &sequence;
      task.kv_head = static_cast<uint32_t>(index / task.chunks.size());
      task.chunk = task.chunks.begin + static_cast<uint32_t>(index % task.chunks.size());
      task.partials += task.kv_head * head_floats;
      task.counter += task.kv_head;
      return task;
    }
    index -= size_t{task.chunks.size()} * s.kv_heads;
    task.partials += s.kv_heads * head_floats;
    task.counter += s.kv_heads;
  }
  return task;
}

// Every thread takes a run of tasks that lie behind each other, so that it knows what it will read next. The task that
// owns a new position also appends it; whoever finishes the last chunk of a head merges.
void run_narrow(const LoweredAttention& step, size_t step_index, PassState& pass, int member, ThreadScratch& scratch) {
  const model::AttentionStep& s = step.step;
  const Range mine = split_range(count_narrow_tasks(s, pass), member, pass.team->size());
  if (mine.begin == mine.end) return;
  NarrowTask task = narrow_task(s, pass, mine.begin);
  bool prepared = false;  // scratch holds the queries of this task's sequence and KV head
  for (size_t index = mine.begin; index < mine.end; ++index) {
    const SequenceColumns& sequence = *task.sequence;
    const uint32_t count = static_cast<uint32_t>(sequence.columns.size());
    for (uint32_t i = 0; i < count; ++i) {
      if ((sequence.first_position + i) / kChunkPositions == task.chunk)
        append(step, pass, sequence, i, task.kv_head, scratch);
    }
    if (!prepared) prepare_queries(step, pass, sequence, 0, count, task.kv_head, scratch);
    const NarrowTask next = index + 1 < mine.end ? narrow_task(s, pass, index + 1) : NarrowTask{};
    const std::byte* next_blocks[kBlocksPerChunk];
    if (next.sequence != nullptr) find_blocks(s, pass, *next.sequence, next.kv_head, next.chunk, next_blocks);
    attend_chunk(step, pass, sequence, 0, count, task.kv_head, task.chunk, task.chunks, task.partials, scratch,
                 next.sequence != nullptr ? next_blocks : nullptr);
    std::atomic<uint32_t>& done = pass.chunks_done[step_index * pass.chunk_counters + task.counter];
    if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == task.chunks.size()) {
      merge_rows(step, pass, sequence, 0, count, task.kv_head, task.chunks, task.partials);
    }
    prepared = next.sequence == task.sequence && next.kv_head == task.kv_head;
    task = next;
  }
}

// Columns of one task of a wide pass, so that the partial results fit.
uint32_t columns_per_task(const model::AttentionStep& s, uint32_t chunks) {
  const size_t by_memory = kWidePartialFloats / (group_size(s) * chunks * partial_floats(s));
  return static_cast<uint32_t>(std::max<size_t>(1, std::min<size_t>(by_memory, kWideRows / group_size(s))));
}

void run_wide(const LoweredAttention& step, size_t step_index, PassState& pass, int member, ThreadScratch& scratch) {
  const model::AttentionStep& s = step.step;
  for (const SequenceColumns& sequence : pass.sequences) {
    const Range mine = split_range(sequence.columns.size() * s.kv_heads, member, pass.team->size());
    for (size_t item = mine.begin; item < mine.end; ++item) {
      append(step, pass, sequence, static_cast<uint32_t>(item / s.kv_heads), static_cast<uint32_t>(item % s.kv_heads),
             scratch);
    }
  }
  pass.team->barrier(member);
  for (uint32_t task = pass.next_task[step_index].fetch_add(1, std::memory_order_relaxed);;
       task = pass.next_task[step_index].fetch_add(1, std::memory_order_relaxed)) {
    uint32_t rest = task;
    bool found = false;
    for (const SequenceColumns& sequence : pass.sequences) {
      const uint32_t count = static_cast<uint32_t>(sequence.columns.size());
      const uint32_t step_columns =
          columns_per_task(s, visible_chunks(s, sequence.first_position, sequence.end_position()).size());
      const uint32_t blocks = divide_up(count, step_columns);
      if (rest >= blocks * s.kv_heads) {
        rest -= blocks * s.kv_heads;
        continue;
      }
      found = true;
      // Late columns see most positions: they go first, so that threads finish together.
      const uint32_t kv_head = rest % s.kv_heads, block = blocks - 1 - rest / s.kv_heads;
      const uint32_t first = block * step_columns, end = std::min(count, first + step_columns);
      const ChunkRange chunks = visible_chunks(s, sequence.first_position + first, sequence.first_position + end);
      prepare_queries(step, pass, sequence, first, end, kv_head, scratch);
      for (uint32_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
        attend_chunk(step, pass, sequence, first, end, kv_head, chunk, chunks, scratch.partials.data(), scratch);
      }
      merge_rows(step, pass, sequence, first, end, kv_head, chunks, scratch.partials.data());
      break;
    }
    if (!found) return;
  }
}

}  // namespace

void run_attention(const LoweredAttention& step, size_t step_index, PassState& pass, int member) {
  ThreadScratch& scratch = pass.scratch[static_cast<size_t>(member)];
  if (pass.columns.size() <= kNarrowColumns) {
    run_narrow(step, step_index, pass, member, scratch);
  } else {
    run_wide(step, step_index, pass, member, scratch);
  }
}

void prepare_attention(PassState& pass) {
  const bool narrow = pass.columns.size() <= kNarrowColumns;
  size_t shared = 0, own = 0, query_rows = 0, query_floats = 0, counters = 0;
  for (const LoweredStep& lowered : pass.program->steps) {
    const auto* attention = std::get_if<LoweredAttention>(&lowered.action);
    if (attention == nullptr) continue;
    const model::AttentionStep& s = attention->step;
    size_t floats = 0;
    for (const SequenceColumns& sequence : pass.sequences) {
      const uint32_t chunks = visible_chunks(s, sequence.first_position, sequence.end_position()).size();
      const size_t columns = narrow ? sequence.columns.size() : columns_per_task(s, chunks);
      const size_t rows = columns * group_size(s);
      // A task's columns may begin one window later than the sequence's first column, never see more chunks.
      floats += s.kv_heads * rows * chunks * partial_floats(s);
      own = std::max(own, rows * chunks * partial_floats(s));
      query_rows = std::max(query_rows, rows);
      query_floats = std::max(query_floats, rows * s.head_size);
    }
    shared = std::max(shared, floats);
    counters = std::max<size_t>(counters, pass.sequences.size() * s.kv_heads);
  }
  const auto grow = [](auto& vector, size_t size) {
    if (vector.size() < size) vector.resize(size);
  };
  for (ThreadScratch& scratch : pass.scratch) {
    grow(scratch.queries, query_floats);
    grow(scratch.attention, attention_scratch_floats(static_cast<uint32_t>(query_rows)));
    if (!narrow) grow(scratch.partials, own);
    scratch.rows.reserve(query_rows);
  }
  const size_t steps = pass.program->steps.size();
  if (narrow) {
    grow(pass.partials, shared);
    pass.chunk_counters = counters;
    if (pass.chunks_done.size() < steps * counters)
      pass.chunks_done = std::vector<std::atomic<uint32_t>>(steps * counters);
    for (auto& done : pass.chunks_done) done.store(0, std::memory_order_relaxed);
  } else {
    if (pass.next_task.size() < steps) pass.next_task = std::vector<std::atomic<uint32_t>>(steps);
    for (auto& next : pass.next_task) next.store(0, std::memory_order_relaxed);
  }
}

uint64_t attention_bytes(const LoweredAttention& step, const PassState& pass) {
  const model::AttentionStep& s = step.step;
  uint64_t positions = 0;
  for (const SequenceColumns& sequence : pass.sequences) {
    positions += sequence.end_position() - first_visible(s, sequence.first_position);
  }
  return positions * s.kv_heads * pass.cache->layout(s.cache).bytes() / kBlockPositions;
}

void fill_angles(PassState& pass, int member) {
  for (size_t r = 0; r < pass.angles.size(); ++r) {
    const std::vector<double>& frequency = pass.program->ropes[r].frequency;
    for (size_t c = static_cast<size_t>(member); c < pass.columns.size(); c += static_cast<size_t>(pass.team->size())) {
      for (size_t i = 0; i < frequency.size(); ++i) {
        const double angle = pass.columns[c].position * frequency[i];
        pass.angles[r].cos[c * frequency.size() + i] = static_cast<float>(std::cos(angle));
        pass.angles[r].sin[c * frequency.size() + i] = static_cast<float>(std::sin(angle));
      }
    }
  }
}

}  // namespace gale::exec
