// Keys and values of all sequences, in blocks of 64 positions that are taken when needed and given back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "exec/pass.h"
#include "model/program.h"

namespace gale::exec {

constexpr uint32_t kBlockPositions = 64;
constexpr uint32_t kChunkPositions =
    256;  // attention is split at multiples of this position, whatever the pass looks like

// Layout of one block of one KV head (E = element; positions p in 0..63):
//   F32, F16  keys E [4 tiles][head_size][16 positions], then values E [64][value_size]
//   Q8_0      keys: [4 tiles][head_size / 32] x (f16 scale[16], i8 [32][16]); values: [64][value_size / 32] x (f16, i8
//   [32])
// (Q8_0 wants head sizes that are multiples of 32: an error otherwise.)
struct HeadBlockLayout {
  size_t key_bytes = 0, value_bytes = 0;
  size_t bytes() const { return key_bytes + value_bytes; }
};
Result<HeadBlockLayout> head_block_layout(CacheType type, uint32_t head_size, uint32_t value_size);

// The cache of one Program for many sequences. Used by one thread (between passes, and at the start of one); the blocks
// are then read and written by the team.
class KvCache {
 public:
  static Result<std::unique_ptr<KvCache>> create(std::span<const model::Cache> caches, CacheType type);
  ~KvCache();

  Result<SequenceId> open(uint32_t max_positions);
  void close(SequenceId id);
  bool is_open(SequenceId id) const;
  uint32_t length(SequenceId id) const;
  uint32_t max_positions(SequenceId id) const;
  // False if a windowed cache no longer holds the positions that a query at `length` would see.
  bool truncate(SequenceId id, uint32_t length);

  // Takes the blocks that positions [length, length + count) need. Errors: limit (sequence full, or no memory), with
  // numbers.
  Status reserve(SequenceId id, uint32_t count);
  // Makes the positions part of the sequence, and gives back blocks that no later query of a windowed cache can see.
  // (The `window` positions before the new length are kept, and 64 more so that a short rewind is possible.)
  void commit(SequenceId id, uint32_t count);

  // Block `block` (positions 64 * block ...) of KV head `head` in cache `cache`; null if it was given back or never
  // taken.
  std::byte* head_block(SequenceId id, uint32_t cache, uint32_t head, uint32_t block) const;
  const HeadBlockLayout& layout(uint32_t cache) const;
  CacheType type() const;
  // Bytes that a sequence of `positions` holds at most.
  uint64_t bytes(uint32_t positions) const;

 private:
  struct State;
  explicit KvCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gale::exec
