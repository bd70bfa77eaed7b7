// Lying headers must not cause allocations: counts every byte that is asked for while a file of 100 bytes is parsed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "format/gguf.h"
#include "format/gguf_bytes.h"
#include "format/safetensors.h"
#include "format/safetensors_bytes.h"

namespace {
std::atomic<size_t> largest_request{0};
}  // namespace

// Replaces the global operators of this test program; nothrow and array forms come here, too.
void* operator new(size_t size) {
  size_t seen = largest_request.load();
  while (seen < size && !largest_request.compare_exchange_weak(seen, size)) {
  }
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace gale::format {
namespace {

using test::append;
using test::GgufBytes;
using test::KeyType;

size_t largest_allocation(const std::string& bytes) {
  const std::string name = "bad.gguf";
  largest_request = 0;
  const auto result = parse_gguf(test::bytes_of_text(bytes), name);
  EXPECT_FALSE(result.ok());
  return largest_request;
}

constexpr size_t limit = 4096;  // messages and tables of a few entries

TEST(GgufAllocation, RequestsAreSeen) {
  largest_request = 0;
  EXPECT_EQ(std::vector<char>(100000).size(), 100000u);
  EXPECT_GE(largest_request.load(), 100000u);
}

TEST(GgufAllocation, LyingCounts) {
  for (int shift = 4; shift < 64; ++shift) {
    const uint64_t lie = uint64_t{1} << shift;
    GgufBytes tensors;
    tensors.extra_tensors = lie;
    EXPECT_LE(largest_allocation(tensors.build()), limit) << shift;
    GgufBytes keys;
    keys.extra_keys = lie;
    EXPECT_LE(largest_allocation(keys.build()), limit) << shift;
    for (uint32_t type = 0; type <= 13; ++type) {
      std::string array;
      append(array, type);
      append(array, std::max<uint64_t>(lie, 1024));
      EXPECT_LE(largest_allocation(GgufBytes().raw("k", KeyType::array, array).build()), limit) << type << " " << shift;
    }
    std::string text;
    append(text, std::max<uint64_t>(lie, 1024));
    EXPECT_LE(largest_allocation(GgufBytes().raw("k", KeyType::string, text).build()), limit) << shift;
  }
}

TEST(SafetensorsAllocation, LyingNumbers) {
  for (int shift = 10; shift < 64; ++shift) {
    const uint64_t lie = uint64_t{1} << shift;
    const std::string number = std::to_string(lie);
    const std::string shape = R"({"a":{"dtype":"F32","shape":[)" + number + R"(],"data_offsets":[0,4]}})";
    const std::string offsets = R"({"a":{"dtype":"U8","shape":[)" + number + R"(],"data_offsets":[0,)" + number + "]}}";
    std::string length = test::safetensors_file("{}", "1234");
    std::memcpy(length.data(), &lie, sizeof lie);
    for (const std::string& file :
         {test::safetensors_file(shape, "1234"), test::safetensors_file(offsets, "1234"), length}) {
      largest_request = 0;
      const auto parsed = parse_safetensors(test::bytes_of_text(file), "bad.safetensors");
      EXPECT_FALSE(parsed.ok());
      EXPECT_LE(largest_request.load(), limit) << shift;
    }
  }
}

}  // namespace
}  // namespace gale::format
