// Opens many damaged copies of one model, a file or a directory, in one process: each must give an error that names it
// and a reason, or a model that answers.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace gale {
namespace {

constexpr unsigned kSecondsPerCase = 60;          // beyond it the case counts as a hang: SIGALRM ends the process
constexpr long kMostMemoryKb = 3l * 1024 * 1024;  // resident, of the whole process; the files are smaller than 10 MB

constexpr uint64_t kExtremes[] = {
    0, 1, 0xFF, 0x7FFFFFFF, 0x80000000, UINT32_MAX, 1ull << 40, (1ull << 48) - 1, 0x7FFFFFFFFFFFFFFF, UINT64_MAX};

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Overwrites a few bytes with noise, an extreme number, or bytes from elsewhere in the file. Most of the damage goes
// into the header, where it matters; `header` is its length.
std::string corrupted(const std::string& file, size_t header, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  std::string out = file;
  for (uint64_t edits = 1 + below(4); edits > 0; --edits) {
    const size_t range = below(5) == 0 ? out.size() : header;
    const size_t at = below(range);
    switch (below(4)) {
      case 0:  // one bit
        out[at] = static_cast<char>(out[at] ^ (1 << below(8)));
        break;
      case 1:  // noise
        for (size_t i = at; i < std::min(out.size(), at + 1 + below(16)); ++i) out[i] = static_cast<char>(random());
        break;
      case 2: {  // a number
        const uint64_t value = kExtremes[below(std::size(kExtremes))];
        const size_t bytes = below(2) == 0 ? 4 : 8;
        std::memcpy(out.data() + at, &value, std::min(bytes, out.size() - at));
        break;
      }
      default: {  // a copy
        const size_t from = below(range), count = std::min<size_t>(1 + below(32), out.size() - std::max(at, from));
        std::memmove(out.data() + at, out.data() + from, count);
      }
    }
  }
  return out;
}

struct Outcome {
  bool fine = true;
  std::string text;  // "answer", or the error
};

// Four tokens by the model: two appended, two generated.
Outcome answer(engine::Engine& engine) {
  auto session = engine.new_session();
  if (!session) return {!session.error().message.empty(), session.error().message};
  const std::vector<text::Token> prompt{0, static_cast<text::Token>(engine.program().vocabulary - 1)};
  if (const Status status = (*session)->append(prompt); !status) return {true, status.error().message};
  engine::GenerateOptions options;
  options.max_tokens = 2;
  options.ignore_end = true;
  const auto generated = (*session)->generate(options, {});
  if (!generated) return {!generated.error().message.empty(), generated.error().message};
  return {true, "answer"};
}

Outcome open_and_answer(const std::string& path) {
  engine::EngineOptions options;
  options.threads = 2;
  auto engine = engine::Engine::open(path, options);
  if (engine) return answer(**engine);
  const std::string& message = engine.error().message;
  if (message.find(path) == std::string::npos) return {false, "the error doesn't name the file: " + message};
  if (message.size() < path.size() + 8) return {false, "the error gives no reason: " + message};
  return {true, message};
}

// A file of the copy that gets damaged, and what is in it when it is whole.
struct Target {
  std::string path;
  std::string whole;
  size_t header = 0;  // bytes before the data of tensors
};

Target make_target(const std::string& original, const std::string& copy, const format::Checkpoint& checkpoint) {
  Target out{copy, contents(original), 0};
  out.header = out.whole.size();
  for (size_t i = 0; i < checkpoint.files().size(); ++i) {
    const MappedFile& file = checkpoint.files()[i];
    if (!std::filesystem::equivalent(file.path(), original)) continue;
    for (const format::Tensor& tensor : checkpoint.tensors())
      if (tensor.file == i)
        out.header = std::min(out.header, static_cast<size_t>(tensor.stored().data() - file.bytes().data()));
  }
  return out;
}

// The file, or every file of the directory (but for the oracle's answers); the copy is made.
std::vector<Target> make_targets(const std::string& original, const std::string& copy,
                                 const format::Checkpoint& checkpoint) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(original)) return {make_target(original, copy, checkpoint)};
  fs::create_directories(copy);
  std::vector<Target> out;
  for (const auto& entry : fs::directory_iterator(original)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("expected", 0) == 0) continue;
    out.push_back(make_target(entry.path().string(), (fs::path(copy) / name).string(), checkpoint));
    std::ofstream(out.back().path, std::ios::binary | std::ios::trunc) << out.back().whole;
  }
  std::sort(out.begin(), out.end(), [](const Target& a, const Target& b) { return a.path < b.path; });
  return out;
}

int run(const std::string& original, const std::string& copy, size_t cuts, size_t corruptions, uint64_t seed,
        bool verbose) {
  auto checkpoint = format::Checkpoint::open(original);
  if (!checkpoint) {
    std::fprintf(stderr, "%s\n", checkpoint.error().message.c_str());
    return 2;
  }
  const std::vector<Target> targets = make_targets(original, copy, *checkpoint);
  size_t answers = 0, errors = 0;
  for (size_t i = 0; i < cuts + corruptions; ++i) {
    const Target& target = targets[i % targets.size()];
    std::string damaged;
    if (i < cuts) {  // half of the cuts in the header, half anywhere
      const size_t range = i / targets.size() % 2 == 0 ? target.header : target.whole.size();
      damaged = target.whole.substr(0, range * (i / 2) / std::max<size_t>(1, cuts / 2));
    } else {
      damaged = corrupted(target.whole, target.header, seed * 1'000'003 + i);
    }
    std::ofstream(target.path, std::ios::binary | std::ios::trunc) << damaged;
    std::printf("case %zu %s\n", i, target.path.c_str());  // the last one printed is the one that crashed
    std::fflush(stdout);
    ::alarm(kSecondsPerCase);
    const Outcome outcome = open_and_answer(copy);
    ::alarm(0);
    if (verbose) std::printf("  %s\n", outcome.text.c_str());
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    if (usage.ru_maxrss > kMostMemoryKb) {
      std::printf("bad case %zu: %ld kB of memory were taken\n", i, usage.ru_maxrss);
      return 1;
    }
    if (!outcome.fine) {
      std::printf("bad case %zu: %s\n", i, outcome.text.c_str());
      return 1;
    }
    ++(outcome.text == "answer" ? answers : errors);
    if (targets.size() > 1) std::ofstream(target.path, std::ios::binary | std::ios::trunc) << target.whole;
  }
  std::printf("done: %zu answers, %zu errors\n", answers, errors);
  return 0;
}

}  // namespace
}  // namespace gale

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: load_driver MODEL COPY CUTS CORRUPTIONS SEED [verbose]\n");
    return 2;
  }
  return gale::run(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10),
                   std::strtoull(argv[5], nullptr, 10), argc > 6);
}
