// The CPU executor against the oracle, and column invariance to the last bit.
#include "exec/cpu/cpu_executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "exec/oracle_model.h"
#include "model/hparams.h"

namespace gale::exec {
namespace {

using test::OracleModel;
using test::OracleOptions;

// A loaded model; members in the order of dependence.
struct Loaded {
  format::Checkpoint checkpoint;
  model::Hparams hparams;
  model::Program program;
};

std::unique_ptr<Loaded> load(const std::string& path) {
  auto loaded = std::make_unique<Loaded>();
  auto checkpoint = format::Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  loaded->checkpoint = std::move(*checkpoint);
  auto hparams = model::read_hparams(loaded->checkpoint);
  EXPECT_TRUE(hparams.ok()) << hparams.error().message;
  loaded->hparams = std::move(*hparams);
  auto program = model::build_program(loaded->checkpoint, loaded->hparams);
  EXPECT_TRUE(program.ok()) << program.error().message;
  loaded->program = std::move(*program);
  return loaded;
}

std::vector<Isa> all_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa <= detect_isa()) isas.push_back(isa);
  }
  return isas;
}

std::unique_ptr<CpuExecutor> make_executor(const Loaded& loaded, int threads, Isa isa,
                                           CacheType cache = CacheType::f32) {
  CpuOptions options;
  options.threads = threads;
  options.pin_threads = false;
  options.isa = isa;
  options.cache_type = cache;
  auto executor = CpuExecutor::create(loaded.program, loaded.checkpoint, options);
  EXPECT_TRUE(executor.ok()) << executor.error().message;
  return std::move(*executor);
}

// Logits of every token, fed in chunks of the given size.
std::vector<float> run_chunks(CpuExecutor& executor, const std::vector<int32_t>& tokens, size_t chunk,
                              size_t vocabulary) {
  const auto id = executor.open_sequence(static_cast<uint32_t>(tokens.size()));
  EXPECT_TRUE(id.ok()) << id.error().message;
  std::vector<float> logits(tokens.size() * vocabulary);
  for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const size_t count = std::min(chunk, tokens.size() - begin);
    std::vector<Column> columns;
    for (size_t i = 0; i < count; ++i)
      columns.push_back({*id, static_cast<uint32_t>(begin + i), tokens[begin + i], true});
    const Status status = executor.run(columns, std::span(logits).subspan(begin * vocabulary, count * vocabulary));
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  executor.close_sequence(*id);
  return logits;
}

double nmse(const std::vector<float>& got, const std::vector<float>& expected) {
  double error = 0, power = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    power += std::pow(static_cast<double>(expected[i]), 2);
  }
  return error / power;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Case {
  OracleOptions options;
  double limit;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << test::test_name(c.options);
}

std::vector<Case> oracle_cases() {
  std::vector<Case> cases;
  struct Family {
    const char *arch, *variant;
  };
  for (const Family family : {Family{"llama", "llama3"}, Family{"llama", "tied"}, Family{"gemma3", "default"}}) {
    for (const char* size : {"tiny", "small"}) {
      const auto add = [&](const char* quant, double limit) {
        OracleOptions options;
        options.arch = family.arch;
        options.variant = family.variant;
        options.size = size;
        options.quant = quant;
        options.greedy = 0;  // not looked at here, and slow to make
        cases.push_back({options, limit});
      };
      add("f32", 1e-8);
      add("f16", 1e-8);
      add("bf16", 1e-8);
      for (const char* quant : {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_K", "q5_K", "q6_K"}) add(quant, 1e-2);
    }
  }
  // Directories whose values are made on demand: other rows, scales, 1 + w.
  for (const Family family : {Family{"llama", "llama3"}, Family{"gemma3", "default"}}) {
    for (const char* hf : {"bf16", "fp8", "nvfp4"})
      cases.push_back({{.arch = family.arch, .variant = family.variant, .greedy = 0, .hf = hf}, 1e-8});
  }
  return cases;
}

class CpuOracle : public testing::TestWithParam<Case> {};

TEST_P(CpuOracle, GivesTheOraclesLogits) {
  const OracleModel oracle = test::make_oracle_model(GetParam().options);
  const auto loaded = load(oracle.directory.empty() ? oracle.path : oracle.directory);
  for (const Isa isa : all_isas()) {
    const auto executor = make_executor(*loaded, 2, isa);
    const double error = nmse(run_chunks(*executor, oracle.tokens, 64, oracle.vocabulary), oracle.logits);
    EXPECT_TRUE(error < GetParam().limit) << name(isa) << ": NMSE " << error;
  }
}

// Contract 1: how a prompt is cut, how many threads run and which instruction set they use changes no bit.
TEST_P(CpuOracle, IsInvariant) {
  const OracleModel oracle = test::make_oracle_model(GetParam().options);
  const auto loaded = load(oracle.directory.empty() ? oracle.path : oracle.directory);
  std::vector<float> expected;
  for (const Isa isa : all_isas()) {
    for (const int threads : {1, 2, 3, 4}) {
      const auto executor = make_executor(*loaded, threads, isa, CacheType::f16);
      std::vector<size_t> chunks{1, 5, 512};
      if (threads == 2) chunks = {1, 2, 3, 4, 5, 7, 8, 16, 64, 512};
      // The portable kernels take a hundred times as long: every chunk on the tiny models, one per thread count here.
      if (isa == Isa::scalar && GetParam().options.size == "small")
        chunks = {std::vector<size_t>{1, 3, 8, 512}[threads - 1]};
      for (const size_t chunk : chunks) {
        const std::vector<float> got = run_chunks(*executor, oracle.tokens, chunk, oracle.vocabulary);
        if (expected.empty()) expected = got;
        ASSERT_TRUE(same_bits(got, expected)) << name(isa) << ", " << threads << " threads, chunks of " << chunk;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, CpuOracle, testing::ValuesIn(oracle_cases()),
                         [](const auto& info) { return test::test_name(info.param.options); });

// Two sequences share passes: neither changes a bit of the other's logits.
TEST(CpuExecutor, SequencesDoNotTouchEachOther) {
  for (const char* arch : {"llama", "gemma3"}) {
    OracleOptions options;
    options.arch = arch;
    options.size = "small";
    options.quant = "q4_0";
    const OracleModel oracle = test::make_oracle_model(options);
    const auto loaded = load(oracle.path);
    const auto executor = make_executor(*loaded, 2, detect_isa(), CacheType::f16);
    std::vector<int32_t> other(oracle.tokens.rbegin(), oracle.tokens.rend());
    const std::vector<float> alone = run_chunks(*executor, oracle.tokens, 1, oracle.vocabulary);
    const std::vector<float> other_alone = run_chunks(*executor, other, 512, oracle.vocabulary);
    for (const auto& [mine, theirs] : {std::pair<size_t, size_t>{1, 3}, {4, 4}, {3, 17}, {30, 1}}) {
      const auto a = executor->open_sequence(200), b = executor->open_sequence(200);
      ASSERT_TRUE(a.ok() && b.ok());
      const size_t vocabulary = oracle.vocabulary;
      size_t at = 0, bt = 0;
      while (at < oracle.tokens.size() || bt < other.size()) {
        std::vector<Column> columns;
        std::vector<const float*> expected;
        const size_t na = std::min(mine, oracle.tokens.size() - at), nb = std::min(theirs, other.size() - bt);
        for (size_t i = 0; i < std::max(na, nb); ++i) {  // alternating columns of the two
          if (i < na) {
            columns.push_back({*a, static_cast<uint32_t>(at + i), oracle.tokens[at + i], true});
            expected.push_back(alone.data() + (at + i) * vocabulary);
          }
          if (i < nb) {
            columns.push_back({*b, static_cast<uint32_t>(bt + i), other[bt + i], true});
            expected.push_back(other_alone.data() + (bt + i) * vocabulary);
          }
        }
        at += na, bt += nb;
        std::vector<float> logits(columns.size() * vocabulary);
        const Status status = executor->run(columns, logits);
        ASSERT_TRUE(status.ok()) << status.error().message;
        for (size_t c = 0; c < columns.size(); ++c) {
          ASSERT_EQ(std::memcmp(logits.data() + c * vocabulary, expected[c], vocabulary * sizeof(float)), 0)
              << arch << " column " << c << " with " << mine << " beside " << theirs;
        }
      }
      executor->close_sequence(*a);
      executor->close_sequence(*b);
    }
  }
}

// Only the columns that ask get logits, and asking changes nothing.
TEST(CpuExecutor, GivesLogitsWhereWanted) {
  OracleOptions options;
  options.quant = "q8_0";
  const OracleModel oracle = test::make_oracle_model(options);
  const auto loaded = load(oracle.path);
  const auto executor = make_executor(*loaded, 2, detect_isa());
  const std::vector<float> all = run_chunks(*executor, oracle.tokens, 512, oracle.vocabulary);
  const auto id = executor->open_sequence(100);
  ASSERT_TRUE(id.ok());
  std::vector<Column> columns;
  for (size_t i = 0; i < oracle.tokens.size(); ++i)
    columns.push_back({*id, static_cast<uint32_t>(i), oracle.tokens[i], i % 7 == 3});
  size_t wanted = 0;
  for (const Column& column : columns) wanted += column.wants_logits;
  std::vector<float> logits(wanted * oracle.vocabulary);
  ASSERT_TRUE(executor->run(columns, logits).ok());
  for (size_t w = 0; w < wanted; ++w) {
    EXPECT_EQ(std::memcmp(logits.data() + w * oracle.vocabulary, all.data() + (3 + 7 * w) * oracle.vocabulary,
                          oracle.vocabulary * sizeof(float)),
              0);
  }
}

TEST(CpuExecutor, RefusesWhatDoesNotFit) {
  const OracleModel oracle = test::make_oracle_model({});
  const auto loaded = load(oracle.path);
  const auto executor = make_executor(*loaded, 1, Isa::scalar);
  const auto id = executor->open_sequence(4);
  ASSERT_TRUE(id.ok());
  const auto error = [&](std::vector<Column> columns, size_t logits) {
    std::vector<float> out(logits);
    const Status status = executor->run(columns, out);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(executor->length(*id), 0u);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_NE(error({{*id, 0, -1, false}}, 0).find("token -1"), std::string::npos);
  EXPECT_NE(error({{*id, 0, 96, false}}, 0).find("96 tokens"), std::string::npos);
  EXPECT_NE(error({{*id, 1, 5, false}}, 0).find("position 1"), std::string::npos);
  EXPECT_NE(error({{77, 0, 5, false}}, 0).find("sequence 77"), std::string::npos);
  EXPECT_NE(error({{*id, 0, 5, true}}, 1).find("logits"), std::string::npos);
  std::vector<Column> five;
  for (uint32_t i = 0; i < 5; ++i) five.push_back({*id, i, 1, false});
  EXPECT_FALSE(error(five, 0).empty());
  EXPECT_TRUE(executor->run(std::span(five).first(4), {}).ok());
  EXPECT_EQ(executor->length(*id), 4u);
}

// Forgetting positions and running others gives what a fresh sequence gives.
TEST(CpuExecutor, TruncatesLikeAColdRun) {
  for (const char* arch : {"llama", "gemma3"}) {
    OracleOptions options;
    options.arch = arch;
    options.size = "small";
    const OracleModel oracle = test::make_oracle_model(options);
    const auto loaded = load(oracle.path);
    const auto executor = make_executor(*loaded, 2, detect_isa());
    const std::vector<float> expected = run_chunks(*executor, oracle.tokens, 512, oracle.vocabulary);
    const auto id = executor->open_sequence(200);
    ASSERT_TRUE(id.ok());
    std::vector<Column> columns;
    for (size_t i = 0; i < oracle.tokens.size(); ++i)
      columns.push_back({*id, static_cast<uint32_t>(i), i < 60 ? oracle.tokens[i] : 1, false});
    ASSERT_TRUE(executor->run(columns, {}).ok());
    ASSERT_TRUE(executor->truncate(*id, 60));
    columns.clear();
    for (size_t i = 60; i < oracle.tokens.size(); ++i)
      columns.push_back({*id, static_cast<uint32_t>(i), oracle.tokens[i], true});
    std::vector<float> logits(columns.size() * oracle.vocabulary);
    ASSERT_TRUE(executor->run(columns, logits).ok());
    EXPECT_EQ(std::memcmp(logits.data(), expected.data() + 60 * oracle.vocabulary, logits.size() * sizeof(float)), 0)
        << arch;
  }
}

}  // namespace
}  // namespace gale::exec
