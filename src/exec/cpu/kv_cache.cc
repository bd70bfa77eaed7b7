// Block tables of sequences over pools of equally large blocks: taking, giving back, windows and limits.
#include "exec/cpu/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"

namespace gale::exec {
namespace {

// Memory is mapped in steps of this size (it is taken from the machine only page by page, when first written).
constexpr size_t kSlabBytes = size_t{32} << 20;
// What a reservation must leave to the rest of the process.
constexpr size_t kMemoryMargin = size_t{16} << 20;
// A sequence id is slot + generation * 2^16, so that an id that was closed is never taken for a later sequence's.
constexpr uint32_t kSlotBits = 16;
constexpr uint32_t kMaxSlots = 1u << kSlotBits;

// Blocks of one size. Caches of the same shape share a pool: neighbouring layers then fill the same huge pages.
class BlockPool {
 public:
  explicit BlockPool(size_t block_bytes) : block_bytes_(block_bytes) {}

  size_t block_bytes() const { return block_bytes_; }
  // How many of `count` blocks would be memory that was never written before.
  uint64_t fresh_of(uint64_t count) const { return count - std::min<uint64_t>(count, free_.size()); }

  // Zeroed.
  Result<std::byte*> take() {
    if (!free_.empty()) {
      std::byte* block = free_.back();
      free_.pop_back();
      ++taken_;
      // What masked positions hold is multiplied by nothing, but must never be a NaN left by somebody else.
      std::memset(block, 0, block_bytes_);
      return block;
    }
    if (slabs_.empty() || used_in_last_ == blocks_per_slab()) {
      auto slab = PageBuffer::allocate(blocks_per_slab() * block_bytes_, /*huge_pages=*/true);
      if (!slab.ok()) return std::move(slab).error();
      slabs_.push_back(std::move(slab).value());
      used_in_last_ = 0;
    }
    ++taken_;
    return slabs_.back().data() + block_bytes_ * used_in_last_++;
  }

  void give_back(std::byte* block) {
    free_.push_back(block);
    if (--taken_ == 0 && slabs_.size() > 1) shrink();
  }

 private:
  size_t blocks_per_slab() const { return std::max<size_t>(kSlabBytes / block_bytes_, 1); }

  // Nothing is in use: all memory but the first slab goes back to the machine.
  void shrink() {
    slabs_.resize(1);
    used_in_last_ = blocks_per_slab();
    free_.clear();
    for (size_t i = used_in_last_; i-- > 0;) free_.push_back(slabs_[0].data() + i * block_bytes_);
  }

  size_t block_bytes_;
  std::vector<PageBuffer> slabs_;
  size_t used_in_last_ = 0;
  std::vector<std::byte*> free_;
  size_t taken_ = 0;
};

struct CacheShape {
  model::Cache cache;
  HeadBlockLayout layout;
  size_t pool = 0;  // index into pools
};

struct Sequence {
  bool open = false;
  uint32_t generation = 0;
  uint32_t length = 0;
  uint32_t max_positions = 0;
  std::vector<std::vector<std::byte*>> tables;  // [caches][blocks]; null where given back
};

// First position that a query at `length` sees in a cache with this window.
uint32_t first_visible(uint32_t length, uint32_t window) {
  return window == 0 || length < window ? 0 : length - window + 1;
}

// First position that is kept once a sequence has `length` positions.
uint32_t first_kept(uint32_t length, uint32_t window) {
  if (window == 0 || length < kBlockPositions || length - kBlockPositions < window) return 0;
  return length - kBlockPositions - window;
}

}  // namespace

struct KvCache::State {
  CacheType type = CacheType::f16;
  std::vector<CacheShape> shapes;
  std::vector<BlockPool> pools;
  std::vector<Sequence> sequences;

  const Sequence* find(SequenceId id) const {
    const uint32_t slot = id % kMaxSlots;
    if (slot >= sequences.size()) return nullptr;
    const Sequence& sequence = sequences[slot];
    return sequence.open && sequence.generation == id / kMaxSlots ? &sequence : nullptr;
  }
  Sequence* find(SequenceId id) { return const_cast<Sequence*>(std::as_const(*this).find(id)); }

  // Gives back blocks [begin, end) of one cache of a sequence.
  void give_back(Sequence& sequence, size_t cache, size_t begin, size_t end) {
    std::vector<std::byte*>& table = sequence.tables[cache];
    for (size_t b = begin; b < std::min(end, table.size()); ++b) {
      if (table[b] != nullptr) pools[shapes[cache].pool].give_back(std::exchange(table[b], nullptr));
    }
    if (end >= table.size()) table.resize(std::min(begin, table.size()));
  }
};

Result<HeadBlockLayout> head_block_layout(CacheType type, uint32_t head_size, uint32_t value_size) {
  constexpr uint32_t kMaxHeadSize = 1u << 16;  // keeps every product below in range
  if (head_size == 0 || value_size == 0 || head_size > kMaxHeadSize || value_size > kMaxHeadSize) {
    return fail(ErrorKind::invalid_input, "heads of {} (keys) and {} (values) elements: both must be 1 to {}",
                head_size, value_size, kMaxHeadSize);
  }
  const size_t positions = kBlockPositions;
  switch (type) {
    case CacheType::f32:
      return HeadBlockLayout{positions * head_size * 4, positions * value_size * 4};
    case CacheType::f16:
      return HeadBlockLayout{positions * head_size * 2, positions * value_size * 2};
    case CacheType::q8_0:
      break;
  }
  if (head_size % 32 != 0 || value_size % 32 != 0) {
    return fail(
        ErrorKind::unsupported,
        "a Q8_0 cache needs head sizes that are multiples of 32, this model has {} (keys) and {} (values): use an "
        "F16 cache",
        head_size, value_size);
  }
  return HeadBlockLayout{positions * (head_size / 32) * 34, positions * (value_size / 32) * 34};
}

Result<std::unique_ptr<KvCache>> KvCache::create(std::span<const model::Cache> caches, CacheType type) {
  auto state = std::make_unique<State>();
  state->type = type;
  for (const model::Cache& cache : caches) {
    auto layout = head_block_layout(type, cache.head_size, cache.value_size);
    if (!layout.ok()) return std::move(layout).error();
    const auto bytes = checked_multiply<size_t>(cache.kv_heads, layout->bytes());
    // 2^40: the sum over all blocks of a sequence (2^26 of them at most) stays far from overflow.
    if (cache.kv_heads == 0 || !bytes || *bytes > (size_t{1} << 40)) {
      return fail(ErrorKind::invalid_input, "cache {} has {} heads of {} bytes per {} positions: not a usable size",
                  state->shapes.size(), cache.kv_heads, layout->bytes(), kBlockPositions);
    }
    size_t pool = 0;
    while (pool < state->pools.size() && state->pools[pool].block_bytes() != *bytes) ++pool;
    if (pool == state->pools.size()) state->pools.emplace_back(*bytes);
    state->shapes.push_back({cache, *layout, pool});
  }
  return std::unique_ptr<KvCache>(new KvCache(std::move(state)));
}

KvCache::KvCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
KvCache::~KvCache() = default;

Result<SequenceId> KvCache::open(uint32_t max_positions) {
  if (max_positions == 0) return fail(ErrorKind::invalid_input, "a sequence must have room for at least 1 position");
  uint32_t slot = 0;
  while (slot < state_->sequences.size() && state_->sequences[slot].open) ++slot;
  if (slot == kMaxSlots) {
    return fail(ErrorKind::limit, "{} sequences are open, {} is the most: close some first", slot, kMaxSlots);
  }
  if (slot == state_->sequences.size()) state_->sequences.emplace_back();
  Sequence& sequence = state_->sequences[slot];
  sequence.open = true;
  sequence.length = 0;
  sequence.max_positions = max_positions;
  sequence.tables.assign(state_->shapes.size(), {});
  return SequenceId{slot + sequence.generation * kMaxSlots};
}

void KvCache::close(SequenceId id) {
  Sequence* sequence = state_->find(id);
  if (sequence == nullptr) return;
  for (size_t c = 0; c < state_->shapes.size(); ++c) state_->give_back(*sequence, c, 0, SIZE_MAX);
  sequence->open = false;
  sequence->generation = (sequence->generation + 1) % kMaxSlots;
  sequence->length = 0;
  sequence->tables.clear();
}

bool KvCache::is_open(SequenceId id) const {
  return state_->find(id) != nullptr;
}

uint32_t KvCache::length(SequenceId id) const {
  const Sequence* sequence = state_->find(id);
  return sequence == nullptr ? 0 : sequence->length;
}

uint32_t KvCache::max_positions(SequenceId id) const {
  const Sequence* sequence = state_->find(id);
  return sequence == nullptr ? 0 : sequence->max_positions;
}

bool KvCache::truncate(SequenceId id, uint32_t length) {
  Sequence* sequence = state_->find(id);
  if (sequence == nullptr || length > sequence->length) return false;
  for (size_t c = 0; c < state_->shapes.size(); ++c) {
    const uint32_t first = first_visible(length, state_->shapes[c].cache.window);
    // Blocks are given back from the front only, so the first one that is visible decides.
    if (first < length && sequence->tables[c][first / kBlockPositions] == nullptr) return false;
  }
  for (size_t c = 0; c < state_->shapes.size(); ++c) {
    state_->give_back(*sequence, c, divide_up(length, kBlockPositions), SIZE_MAX);
  }
  sequence->length = length;
  return true;
}

Status KvCache::reserve(SequenceId id, uint32_t count) {
  Sequence* sequence = state_->find(id);
  if (sequence == nullptr) return fail(ErrorKind::invalid_input, "sequence {} is not open", id);
  if (count == 0) return {};
  if (count > sequence->max_positions - sequence->length) {
    return fail(ErrorKind::limit, "{} more positions do not fit: the sequence holds {} of {}", count, sequence->length,
                sequence->max_positions);
  }
  const size_t first = sequence->length / kBlockPositions;
  const size_t end = (size_t{sequence->length} + count - 1) / kBlockPositions + 1;

  std::vector<uint64_t> wanted(state_->pools.size(), 0);
  for (size_t c = 0; c < state_->shapes.size(); ++c) {
    const std::vector<std::byte*>& table = sequence->tables[c];
    for (size_t b = first; b < end; ++b) wanted[state_->shapes[c].pool] += b >= table.size() || table[b] == nullptr;
  }
  uint64_t needed = 0;
  for (size_t p = 0; p < wanted.size(); ++p)
    needed += state_->pools[p].fresh_of(wanted[p]) * state_->pools[p].block_bytes();
  if (needed > 0) {
    const uint64_t available = available_memory_bytes();
    if (needed > available - std::min<uint64_t>(available, kMemoryMargin)) {
      return fail(ErrorKind::limit,
                  "{} more positions of cache need {} bytes, {} are available: use a shorter context, a smaller cache "
                  "type, or fewer sequences",
                  count, needed, available);
    }
  }

  std::vector<std::pair<size_t, size_t>> taken;  // (cache, block), to undo
  for (size_t c = 0; c < state_->shapes.size(); ++c) {
    std::vector<std::byte*>& table = sequence->tables[c];
    if (table.size() < end) table.resize(end, nullptr);
    for (size_t b = first; b < end; ++b) {
      if (table[b] != nullptr) continue;
      auto block = state_->pools[state_->shapes[c].pool].take();
      if (!block.ok()) {
        for (auto [cache, index] : taken) state_->give_back(*sequence, cache, index, index + 1);
        return std::move(block).error();
      }
      table[b] = *block;
      taken.emplace_back(c, b);
    }
  }
  return {};
}

void KvCache::commit(SequenceId id, uint32_t count) {
  Sequence* sequence = state_->find(id);
  if (sequence == nullptr) return;
  const uint32_t before = sequence->length;
  sequence->length += std::min(count, sequence->max_positions - sequence->length);
  for (size_t c = 0; c < state_->shapes.size(); ++c) {
    const uint32_t window = state_->shapes[c].cache.window;
    // What lies below was given back by earlier commits (a truncation never brings a block back).
    const size_t begin = first_kept(before, window) / kBlockPositions;
    const size_t end = first_kept(sequence->length, window) / kBlockPositions;
    if (end > begin) state_->give_back(*sequence, c, begin, end);
  }
}

std::byte* KvCache::head_block(SequenceId id, uint32_t cache, uint32_t head, uint32_t block) const {
  const Sequence* sequence = state_->find(id);
  if (sequence == nullptr || cache >= sequence->tables.size()) return nullptr;
  const std::vector<std::byte*>& table = sequence->tables[cache];
  if (block >= table.size() || table[block] == nullptr || head >= state_->shapes[cache].cache.kv_heads) return nullptr;
  return table[block] + head * state_->shapes[cache].layout.bytes();
}

const HeadBlockLayout& KvCache::layout(uint32_t cache) const {
  return state_->shapes[cache].layout;
}

CacheType KvCache::type() const {
  return state_->type;
}

uint64_t KvCache::bytes(uint32_t positions) const {
  uint64_t total = 0;
  for (const CacheShape& shape : state_->shapes) {
    uint64_t blocks = divide_up<uint64_t>(positions, kBlockPositions);
    if (shape.cache.window > 0) {
      // The kept window + 64 positions end anywhere in a block, so they touch at most this many.
      blocks = std::min(blocks, (uint64_t{shape.cache.window} + 62) / kBlockPositions + 2);
    }
    total += blocks * state_->pools[shape.pool].block_bytes();
  }
  return total;
}

}  // namespace gale::exec
