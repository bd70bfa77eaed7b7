// Feeds a fuzz target the files of its corpus: as they are, cut short, and with single bytes changed.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t cuts_per_file = 100;
constexpr size_t changes_per_file = 1000;

using Bytes = std::vector<uint8_t>;

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// A copy of exactly this size, so that a sanitizer sees each access beyond the end.
void feed(const Bytes& bytes, size_t size) {
  const Bytes input(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

void replay(const Bytes& bytes) {
  feed(bytes, bytes.size());
  const size_t step = bytes.size() / cuts_per_file + 1;
  for (size_t size = 0; size < bytes.size(); size += step) feed(bytes, size);
  uint64_t random = bytes.size();
  Bytes changed = bytes;
  for (size_t i = 0; i < changes_per_file && !bytes.empty(); ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;  // Knuth's generator: the same everywhere
    // Twice as often in the first bytes, where the structure is.
    const size_t reach = i % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 256);
    const size_t place = (random >> 33) % reach;
    changed[place] = static_cast<uint8_t>(random >> 24);
    feed(changed, changed.size());
    changed[place] = bytes[place];
  }
}

}  // namespace

int main(int count, char** arguments) {
  size_t files = 0;
  feed({}, 0);
  for (int i = 1; i < count; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i], error)) {
      if (!entry.is_regular_file()) continue;
      replay(read(entry.path()));
      ++files;
    }
  }
  std::printf("%zu files replayed\n", files);
  return files > 0 ? 0 : 1;  // an empty corpus tests nothing
}
