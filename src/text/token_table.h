// Flat open-addressing hash tables of a vocabulary: bytes to token, and pair of tokens to merge.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace gale::text {

// Differs from process to process, so that no file can be made whose tokens all fall into one slot.
uint64_t table_seed();

inline uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_bytes(std::string_view text, uint64_t seed) {
  constexpr uint64_t odd = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  const char* p = text.data();
  size_t n = text.size();
  uint64_t hash = seed ^ n * odd;
  for (; n > 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    hash = mix(hash ^ word, odd);
  }
  uint64_t last = 0;
  if (n >= 4) {
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + n - 4, 4);
    last = static_cast<uint64_t>(high) << 32 | low;
  } else if (n > 0) {
    last = static_cast<uint64_t>(static_cast<uint8_t>(p[0])) << 16 |
           static_cast<uint64_t>(static_cast<uint8_t>(p[n / 2])) << 8 | static_cast<uint8_t>(p[n - 1]);
  }
  return mix(hash ^ last, seed | 1);
}

// Keys are not stored: `keys[token]` of the caller holds the bytes of each token.
class TokenTable {
 public:
  void reserve(size_t count) {
    slots_.assign(std::bit_ceil(count * 2 + 2), Slot{0, -1});
    seed_ = table_seed();
  }
  // The slot's token may be overwritten by the caller; -1 there: the key is new.
  Token& slot(std::string_view key, std::span<const std::string_view> keys) {
    const uint64_t hash = hash_bytes(key, seed_);
    const size_t at = locate(key, hash, keys);
    slots_[at].tag = static_cast<uint32_t>(hash >> 32);
    return slots_[at].token;
  }
  Token find(std::string_view key, std::span<const std::string_view> keys) const {
    return slots_.empty() ? -1 : slots_[locate(key, hash_bytes(key, seed_), keys)].token;
  }

 private:
  struct Slot {
    uint32_t tag;
    Token token;
  };
  size_t locate(std::string_view key, uint64_t hash, std::span<const std::string_view> keys) const {
    const size_t last = slots_.size() - 1;
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t at = hash & last;
    while (slots_[at].token >= 0 && !(slots_[at].tag == tag && keys[static_cast<size_t>(slots_[at].token)] == key)) {
      at = (at + 1) & last;
    }
    return at;
  }
  std::vector<Slot> slots_;
  uint64_t seed_ = 0;
};

// What two neighbouring symbols become.
struct Merge {
  uint32_t priority = UINT32_MAX;  // lowest first; UINT32_MAX: the two don't merge
  Token token = -1;
};

// Keys are pairs of tokens; the first merge of a pair stays.
class MergeTable {
 public:
  void reserve(size_t count) {
    slots_.assign(std::bit_ceil(count * 2 + 2), Slot{empty, {}});
    seed_ = table_seed() | 1;
  }
  void add(Token left, Token right, Merge merge) {
    Slot& slot = slots_[locate(pair(left, right))];
    if (slot.pair == empty) slot = {pair(left, right), merge};
  }
  Merge find(Token left, Token right) const {
    if (left < 0 || right < 0 || slots_.empty()) return {};
    return slots_[locate(pair(left, right))].merge;
  }

 private:
  static constexpr uint64_t empty = UINT64_MAX;
  struct Slot {
    uint64_t pair;
    Merge merge;
  };
  static uint64_t pair(Token left, Token right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t locate(uint64_t key) const {
    const size_t last = slots_.size() - 1;
    size_t at = mix(key ^ seed_, 0x9E3779B97F4A7C15u) & last;
    while (slots_[at].pair != key && slots_[at].pair != empty) at = (at + 1) & last;
    return at;
  }
  std::vector<Slot> slots_;
  uint64_t seed_ = 0;
};

}  // namespace gale::text
