// The KV cache: layouts, block reuse, windows, truncation and limits.
#include "exec/cpu/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace gale::exec {
namespace {

using model::Cache;

std::unique_ptr<KvCache> make(std::vector<Cache> caches, CacheType type = CacheType::f16) {
  auto cache = KvCache::create(caches, type);
  EXPECT_TRUE(cache.ok()) << (cache.ok() ? "" : cache.error().message);
  return std::move(cache).value();
}

SequenceId open(KvCache& cache, uint32_t positions) {
  auto id = cache.open(positions);
  EXPECT_TRUE(id.ok());
  return *id;
}

void grow(KvCache& cache, SequenceId id, uint32_t count) {
  const Status status = cache.reserve(id, count);
  ASSERT_TRUE(status.ok()) << status.error().message;
  cache.commit(id, count);
}

bool is_zero(const std::byte* bytes, size_t n) {
  return std::all_of(bytes, bytes + n, [](std::byte b) { return b == std::byte{0}; });
}

TEST(HeadBlockLayout, bytes_follow_the_type) {
  EXPECT_EQ(head_block_layout(CacheType::f32, 64, 32)->key_bytes, 64u * 64 * 4);
  EXPECT_EQ(head_block_layout(CacheType::f32, 64, 32)->value_bytes, 64u * 32 * 4);
  EXPECT_EQ(head_block_layout(CacheType::f16, 10, 6)->bytes(), 64u * 16 * 2);
  EXPECT_EQ(head_block_layout(CacheType::q8_0, 64, 96)->key_bytes, 64u * 2 * 34);
  EXPECT_EQ(head_block_layout(CacheType::q8_0, 64, 96)->value_bytes, 64u * 3 * 34);
  for (auto [k, v] : {std::pair{80u, 64u}, {64u, 80u}}) {
    const auto layout = head_block_layout(CacheType::q8_0, k, v);
    ASSERT_FALSE(layout.ok());
    EXPECT_EQ(layout.error().kind, ErrorKind::unsupported);
    EXPECT_NE(layout.error().message.find("80"), std::string::npos) << layout.error().message;
  }
  EXPECT_FALSE(head_block_layout(CacheType::f16, 0, 64).ok());
  EXPECT_FALSE(head_block_layout(CacheType::f16, 64, 0xFFFFFFFF).ok());
}

TEST(KvCache, blocks_are_distinct_aligned_zero_and_stay_where_they_are) {
  auto cache = make({{3, 64, 64, 0}, {1, 32, 64, 0}, {3, 64, 64, 0}});
  const SequenceId a = open(*cache, 1000), b = open(*cache, 1000);
  std::set<std::byte*> seen;
  std::vector<std::byte*> first_blocks;
  for (uint32_t done = 0; done < 640; done += 64) {
    for (SequenceId id : {a, b}) {
      grow(*cache, id, 64);
      for (uint32_t c = 0; c < 3; ++c) {
        for (uint32_t h = 0; h < (c == 1 ? 1u : 3u); ++h) {
          std::byte* block = cache->head_block(id, c, h, done / 64);
          ASSERT_NE(block, nullptr);
          EXPECT_TRUE(seen.insert(block).second);
          EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
          EXPECT_TRUE(is_zero(block, cache->layout(c).bytes()));
          std::memset(block, 0xAB, cache->layout(c).bytes());  // overlaps would show as not zero later
        }
      }
    }
    first_blocks.push_back(cache->head_block(a, 0, 0, 0));
  }
  for (std::byte* block : first_blocks) EXPECT_EQ(block, first_blocks[0]);
  EXPECT_EQ(cache->length(a), 640u);
  EXPECT_EQ(cache->head_block(a, 0, 0, 10), nullptr);
  EXPECT_EQ(cache->head_block(a, 0, 3, 0), nullptr);
  EXPECT_EQ(cache->head_block(a, 3, 0, 0), nullptr);
}

TEST(KvCache, a_block_taken_again_is_zero) {
  auto cache = make({{2, 32, 32, 0}});
  const SequenceId a = open(*cache, 100), b = open(*cache, 100);
  grow(*cache, a, 65);
  grow(*cache, b, 1);
  std::set<std::byte*> freed = {cache->head_block(a, 0, 0, 0), cache->head_block(a, 0, 0, 1)};
  for (uint32_t i = 0; i < 2; ++i) std::memset(cache->head_block(a, 0, 0, i), 0xFF, 2 * cache->layout(0).bytes());
  cache->close(a);
  EXPECT_FALSE(cache->is_open(a));
  grow(*cache, b, 99);
  std::byte* again = cache->head_block(b, 0, 0, 1);
  EXPECT_TRUE(freed.contains(again)) << "memory that was given back is used first";
  EXPECT_TRUE(is_zero(again, 2 * cache->layout(0).bytes()));
}

TEST(KvCache, closed_ids_stay_closed) {
  auto cache = make({{1, 32, 32, 0}});
  const SequenceId a = open(*cache, 10);
  grow(*cache, a, 5);
  cache->close(a);
  const SequenceId b = open(*cache, 20);
  EXPECT_NE(a, b);
  EXPECT_FALSE(cache->is_open(a));
  EXPECT_TRUE(cache->is_open(b));
  EXPECT_EQ(cache->length(b), 0u);
  EXPECT_EQ(cache->max_positions(b), 20u);
  EXPECT_FALSE(cache->truncate(a, 0));
  EXPECT_EQ(cache->head_block(a, 0, 0, 0), nullptr);
  const Status status = cache->reserve(a, 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::invalid_input);
  cache->commit(a, 1);
  cache->close(a);
  EXPECT_TRUE(cache->is_open(b));
  EXPECT_FALSE(cache->is_open(12345));
  EXPECT_FALSE(cache->open(0).ok());
}

TEST(KvCache, a_full_sequence_is_a_limit_with_numbers) {
  auto cache = make({{1, 32, 32, 0}});
  const SequenceId a = open(*cache, 257);
  grow(*cache, a, 250);
  const Status status = cache->reserve(a, 8);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::limit);
  EXPECT_NE(status.error().message.find("250"), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find("257"), std::string::npos) << status.error().message;
  grow(*cache, a, 7);
  EXPECT_EQ(cache->length(a), 257u);
  EXPECT_FALSE(cache->reserve(a, 0xFFFFFFFF).ok());
  EXPECT_TRUE(cache->reserve(a, 0).ok());
}

TEST(KvCache, too_little_memory_is_a_limit_with_numbers_and_changes_nothing) {
  // 2^19 heads x 64 x (512 + 512) x 4 bytes = 128 GiB a block.
  auto cache = make({{1, 32, 32, 0}, {1u << 19, 512, 512, 0}}, CacheType::f32);
  const uint64_t needed = (uint64_t{1} << 37) + 64 * 64 * 4;
  if (available_memory_bytes() > needed) GTEST_SKIP() << "this machine has the memory";
  const SequenceId a = open(*cache, 100);
  const Status status = cache->reserve(a, 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::limit);
  EXPECT_NE(status.error().message.find(std::to_string(needed)), std::string::npos) << status.error().message;
  EXPECT_EQ(cache->head_block(a, 0, 0, 0), nullptr);
  EXPECT_EQ(cache->length(a), 0u);
}

TEST(KvCache, unusable_shapes_are_refused) {
  for (const Cache& shape : {Cache{0, 64, 64, 0}, Cache{0xFFFFFFFF, 65536, 65536, 0}, Cache{1, 0, 64, 0}}) {
    EXPECT_FALSE(KvCache::create(std::vector<Cache>{shape}, CacheType::f16).ok());
  }
  EXPECT_FALSE(KvCache::create(std::vector<Cache>{{1, 40, 64, 0}}, CacheType::q8_0).ok());
}

// Every position that a later query can see, and 64 more, must be there; blocks wholly below must not.
TEST(KvCache, windows_give_back_what_nobody_can_see) {
  for (uint32_t window : {1u, 5u, 63u, 64u, 65u, 128u, 512u}) {
    for (uint32_t step : {1u, 7u, 64u, 100u}) {
      auto cache = make({{1, 32, 32, window}, {1, 32, 32, 0}});
      const SequenceId a = open(*cache, 2000);
      for (uint32_t length = step; length <= 1500; length += step) {
        grow(*cache, a, step);
        const uint32_t kept = length > window + 64 ? length - window - 64 : 0;
        for (uint32_t block = 0; block * 64 < length; ++block) {
          const bool needed = (block + 1) * 64 > kept;
          ASSERT_EQ(cache->head_block(a, 0, 0, block) != nullptr, needed)
              << "window " << window << " length " << length << " block " << block;
          ASSERT_NE(cache->head_block(a, 1, 0, block), nullptr);
        }
        uint64_t held = 0;
        for (uint32_t block = 0; block * 64 < length; ++block) held += cache->head_block(a, 0, 0, block) != nullptr;
        ASSERT_LE((held + (length + 63) / 64) * cache->layout(0).bytes(), cache->bytes(length))
            << "window " << window << " length " << length;
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST(KvCache, truncation_succeeds_while_the_window_is_there) {
  for (uint32_t window : {1u, 64u, 100u}) {
    for (uint32_t back = 0; back <= 300; ++back) {
      auto cache = make({{1, 32, 32, 0}, {1, 32, 32, window}});
      const SequenceId a = open(*cache, 1000);
      const uint32_t length = 500;
      grow(*cache, a, length);
      const uint32_t to = length - back;
      // A query at `to` sees positions to - window + 1 .. to; those below `to` must still be cached.
      bool expected = true;
      for (uint32_t p = to + 1 > window ? to + 1 - window : 0; p < to; ++p) {
        expected &= cache->head_block(a, 1, 0, p / 64) != nullptr;
      }
      EXPECT_TRUE(expected || back > 64) << "a rewind of 64 is always possible";
      ASSERT_EQ(cache->truncate(a, to), expected) << "window " << window << " back " << back;
      ASSERT_EQ(cache->length(a), expected ? to : length);
      if (expected) {
        EXPECT_EQ(cache->head_block(a, 0, 0, (to + 63) / 64), nullptr);
        EXPECT_NE(cache->head_block(a, 0, 0, (to - 1) / 64), nullptr);
        grow(*cache, a, 200);
        for (uint32_t p = to; p < to + 200; ++p) {
          const bool kept = p + window + 64 >= to + 200;
          ASSERT_TRUE(!kept || cache->head_block(a, 1, 0, p / 64) != nullptr)
              << "window " << window << " back " << back;
        }
      }
    }
  }
}

TEST(KvCache, truncation_is_not_extension) {
  auto cache = make({{1, 32, 32, 0}});
  const SequenceId a = open(*cache, 1000);
  grow(*cache, a, 100);
  EXPECT_FALSE(cache->truncate(a, 101));
  EXPECT_TRUE(cache->truncate(a, 100));
  std::memset(cache->head_block(a, 0, 0, 1), 0xFF, cache->layout(0).bytes());
  EXPECT_TRUE(cache->truncate(a, 64));
  EXPECT_EQ(cache->head_block(a, 0, 0, 1), nullptr);
  grow(*cache, a, 1);
  EXPECT_TRUE(is_zero(cache->head_block(a, 0, 0, 1), cache->layout(0).bytes()));
  EXPECT_TRUE(cache->truncate(a, 0));
  EXPECT_EQ(cache->length(a), 0u);
  grow(*cache, a, 1000);
}

TEST(KvCache, reservations_may_be_repeated_and_abandoned) {
  auto cache = make({{1, 32, 32, 64}});
  const SequenceId a = open(*cache, 1000);
  ASSERT_TRUE(cache->reserve(a, 100).ok());
  std::byte* block = cache->head_block(a, 0, 0, 1);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(cache->length(a), 0u);
  ASSERT_TRUE(cache->reserve(a, 300).ok());
  EXPECT_EQ(cache->head_block(a, 0, 0, 1), block);
  EXPECT_NE(cache->head_block(a, 0, 0, 4), nullptr);
  EXPECT_TRUE(cache->truncate(a, 0));
  EXPECT_EQ(cache->head_block(a, 0, 0, 0), nullptr);
}

TEST(KvCache, memory_of_many_sequences_is_reused) {
  auto cache = make({{8, 128, 128, 0}, {8, 128, 128, 256}}, CacheType::f32);  // 512 KiB a block, 64 a slab
  std::vector<SequenceId> ids;
  for (int i = 0; i < 12; ++i) {
    ids.push_back(open(*cache, 4096));
    grow(*cache, ids.back(), 1000);
  }
  std::set<std::byte*> blocks;
  for (SequenceId id : ids) {
    for (uint32_t b = 0; b < 16; ++b) EXPECT_TRUE(blocks.insert(cache->head_block(id, 0, 0, b)).second);
  }
  for (SequenceId id : ids) cache->close(id);
  const SequenceId id = open(*cache, 4096);
  grow(*cache, id, 4096);
  std::set<std::byte*> again;
  for (uint32_t b = 0; b < 64; ++b) EXPECT_TRUE(again.insert(cache->head_block(id, 0, 0, b)).second);
  for (std::byte* block : again) EXPECT_TRUE(is_zero(block, 8 * cache->layout(0).bytes()));
}

TEST(KvCache, bytes_count_windows) {
  auto cache = make({{2, 64, 64, 0}, {2, 64, 64, 512}});
  const uint64_t block = 2 * cache->layout(0).bytes();
  EXPECT_EQ(cache->bytes(0), 0u);
  EXPECT_EQ(cache->bytes(1), 2 * block);
  EXPECT_EQ(cache->bytes(640), 20 * block);
  EXPECT_EQ(cache->bytes(6400), 100 * block + 10 * block);
  EXPECT_EQ(cache->type(), CacheType::f16);
}

}  // namespace
}  // namespace gale::exec
