// Tokenizers on one thread: reading, creating and encoding in bytes/s.
//   tokenizer_bench VOCABULARY TEXT...      a GGUF file or a directory with a tokenizer's files; texts to encode
#include <benchmark/benchmark.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "engine/vocabulary_metadata.h"
#include "text/tokenizer.h"

namespace {

using namespace gale;

struct Opened {
  format::Checkpoint checkpoint;  // what the vocabulary of a file points into
  std::optional<text::Vocabulary> vocabulary;
};

Result<Opened> open(const std::string& path) {
  Opened opened;
  if (std::filesystem::is_directory(path)) {
    auto vocabulary = text::read_vocabulary_directory(path);
    if (!vocabulary) return std::move(vocabulary).error();
    opened.vocabulary = std::move(*vocabulary);
    return opened;
  }
  auto checkpoint = format::Checkpoint::open(path);
  if (!checkpoint) return std::move(checkpoint).error();
  opened.checkpoint = std::move(*checkpoint);
  auto vocabulary = engine::read_vocabulary(opened.checkpoint.metadata());
  if (!vocabulary) return std::move(vocabulary).error();
  if (!vocabulary->has_value()) return fail(ErrorKind::not_found, "{}: no vocabulary", path);
  opened.vocabulary = std::move(*vocabulary);
  return opened;
}

void encode(benchmark::State& state, const text::Tokenizer& tokenizer, const std::string& text) {
  size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer.encode(text).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}

}  // namespace

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  if (count < 3) {
    std::printf("usage: tokenizer_bench VOCABULARY TEXT...\n");
    return 0;
  }
  const std::string path = arguments[1];
  const auto opened = open(path);
  const auto tokenizer =
      opened ? text::Tokenizer::create(opened->vocabulary->source()) : Result<text::Tokenizer>(opened.error());
  if (!tokenizer) {
    std::printf("%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  benchmark::RegisterBenchmark("read", [&](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(open(path));
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("create", [&](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(text::Tokenizer::create(opened->vocabulary->source()));
  })->Unit(benchmark::kMillisecond);
  for (int i = 2; i < count; ++i) {
    const std::string name = arguments[i];
    std::ifstream file(name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    benchmark::RegisterBenchmark(("encode " + std::filesystem::path(name).filename().string()).c_str(),
                                 [&tokenizer, text](benchmark::State& state) { encode(state, *tokenizer, text); })
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
