// The reference executor against float64 answers of the oracle, and its promises about sequences and errors.
#include "exec/reference/reference_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "exec/oracle_model.h"

namespace gale::exec {
namespace {

using test::make_oracle_model;
using test::nmse;
using test::OracleModel;
using test::OracleOptions;

constexpr double kBound = 1e-10;

// A model ready to run; everything an executor refers to stays where it is.
struct Loaded {
  std::unique_ptr<format::Checkpoint> checkpoint;
  std::unique_ptr<model::Program> program;
  std::unique_ptr<ReferenceExecutor> executor;
};

Loaded load(const std::string& path) {
  Loaded out;
  auto checkpoint = format::Checkpoint::open(path);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  out.checkpoint = std::make_unique<format::Checkpoint>(std::move(checkpoint).value());
  const auto hparams = model::read_hparams(*out.checkpoint);
  if (!hparams.ok()) throw std::runtime_error(hparams.error().message);
  auto program = model::build_program(*out.checkpoint, *hparams);
  if (!program.ok()) throw std::runtime_error(program.error().message);
  out.program = std::make_unique<model::Program>(std::move(program).value());
  auto executor = ReferenceExecutor::create(*out.program);
  if (!executor.ok()) throw std::runtime_error(executor.error().message);
  out.executor = std::move(executor).value();
  return out;
}

SequenceId open(ReferenceExecutor& executor, uint32_t positions) {
  auto id = executor.open_sequence(positions);
  if (!id.ok()) throw std::runtime_error(id.error().message);
  return *id;
}

std::vector<Column> columns_of(SequenceId sequence, std::span<const int32_t> tokens, uint32_t first,
                               bool wants = true) {
  std::vector<Column> out;
  for (size_t i = 0; i < tokens.size(); ++i)
    out.push_back({sequence, first + static_cast<uint32_t>(i), tokens[i], wants});
  return out;
}

std::vector<float> run(ReferenceExecutor& executor, const std::vector<Column>& columns, size_t vocabulary) {
  const auto wanted = std::count_if(columns.begin(), columns.end(), [](const Column& c) { return c.wants_logits; });
  std::vector<float> logits(static_cast<size_t>(wanted) * vocabulary);
  const Status status = executor.run(columns, logits);
  if (!status.ok()) throw std::runtime_error(status.error().message);
  return logits;
}

std::vector<float> run_whole(ReferenceExecutor& executor, const OracleModel& model) {
  const auto length = static_cast<uint32_t>(model.tokens.size());
  return run(executor, columns_of(open(executor, length), model.tokens, 0), model.vocabulary);
}

class OracleAnswers : public testing::TestWithParam<OracleOptions> {};

TEST_P(OracleAnswers, AllAtOnceAndOneByOne) {
  if (const auto why = test::oracle_missing(); !why.empty()) GTEST_SKIP() << why;
  const OracleModel model = make_oracle_model(GetParam());
  const Loaded loaded = load(model.path);
  const std::vector<float> whole = run_whole(*loaded.executor, model);
  const double error = nmse(model.logits, whole);
  RecordProperty("nmse", std::to_string(error * 1e15) + "e-15");
  EXPECT_LT(error, kBound);

  const SequenceId sequence = open(*loaded.executor, 4096);
  for (uint32_t i = 0; i < model.tokens.size(); ++i) {
    const std::vector<float> row = run(*loaded.executor, {{sequence, i, model.tokens[i], true}}, model.vocabulary);
    ASSERT_TRUE(std::equal(row.begin(), row.end(), whole.begin() + static_cast<ptrdiff_t>(i * model.vocabulary)))
        << "position " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Float, OracleAnswers,
                         testing::Values(OracleOptions{.arch = "llama", .variant = "llama3"},
                                         OracleOptions{.arch = "llama", .variant = "tied"},
                                         OracleOptions{.arch = "llama", .variant = "llama3", .size = "small"},
                                         OracleOptions{.arch = "llama", .variant = "tied", .size = "small"},
                                         OracleOptions{.arch = "gemma3"},
                                         OracleOptions{.arch = "gemma3", .size = "small", .greedy = 4}),
                         [](const auto& info) { return test::test_name(info.param); });

INSTANTIATE_TEST_SUITE_P(
    Quantised, OracleAnswers,
    testing::Values(OracleOptions{.arch = "llama", .quant = "f16"}, OracleOptions{.arch = "llama", .quant = "bf16"},
                    OracleOptions{.arch = "llama", .quant = "q4_0"}, OracleOptions{.arch = "llama", .quant = "q4_1"},
                    OracleOptions{.arch = "llama", .quant = "q5_0"}, OracleOptions{.arch = "llama", .quant = "q5_1"},
                    OracleOptions{.arch = "llama", .quant = "q8_0"}, OracleOptions{.arch = "llama", .quant = "q4_K"},
                    OracleOptions{.arch = "llama", .quant = "q5_K"}, OracleOptions{.arch = "llama", .quant = "q6_K"},
                    OracleOptions{.arch = "gemma3", .quant = "q4_1"}, OracleOptions{.arch = "gemma3", .quant = "q8_0"},
                    OracleOptions{.arch = "gemma3",
                                  .quant = "q4_K",
                                  .overrides = {"attn_(q|k)=q5_0", "attn_v=q8_0", "ffn_down=q6_K", "token_embd=q8_0"}}),
    [](const auto& info) { return test::test_name(info.param); });

// Everything below uses one model per family, with a window shorter than its prompt in gemma3's case.
class Sequences : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const auto why = test::oracle_missing(); !why.empty()) GTEST_SKIP() << why;
    model_ = make_oracle_model({.arch = GetParam()});
    loaded_ = load(model_.path);
  }
  ReferenceExecutor& executor() { return *loaded_.executor; }

  OracleModel model_;
  Loaded loaded_;
};

TEST_P(Sequences, GreedyContinuation) {
  std::vector<float> logits = run_whole(executor(), model_);
  std::vector<float> last(logits.end() - static_cast<ptrdiff_t>(model_.vocabulary), logits.end());
  const SequenceId sequence = open(executor(), 100);
  run(executor(), columns_of(sequence, model_.tokens, 0, false), model_.vocabulary);
  for (size_t i = 0; i < model_.greedy.size(); ++i) {
    ASSERT_GT(model_.greedy_lead[i], 1e-5f) << "choose another seed: the greedy text is a matter of luck";
    const auto token = static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
    ASSERT_EQ(token, model_.greedy[i]) << "token " << i;
    last =
        run(executor(), {{sequence, static_cast<uint32_t>(model_.tokens.size() + i), token, true}}, model_.vocabulary);
  }
}

TEST_P(Sequences, TwoSequencesMixedInOnePass) {
  const std::vector<float> alone = run_whole(executor(), model_);
  std::vector<int32_t> other = model_.tokens;
  std::reverse(other.begin(), other.end());
  const SequenceId c = open(executor(), 64);
  const std::vector<float> other_alone = run(executor(), columns_of(c, other, 0), model_.vocabulary);

  // One sequence starts 7 positions later; each pass has several columns of both, in a different order each time.
  const SequenceId a = open(executor(), 64), b = open(executor(), 64);
  size_t next_a = 7, next_b = 0, turn = 0;
  run(executor(), columns_of(a, std::span(model_.tokens).first(7), 0, false), model_.vocabulary);
  while (next_a < model_.tokens.size() || next_b < other.size()) {
    std::vector<Column> columns;
    const size_t of_a = std::min(1 + turn % 3, model_.tokens.size() - next_a),
                 of_b = std::min(1 + turn % 4, other.size() - next_b);
    for (size_t i = 0; i < std::max(of_a, of_b); ++i) {
      const Column column_a{a, static_cast<uint32_t>(next_a + i), i < of_a ? model_.tokens[next_a + i] : 0, true};
      const Column column_b{b, static_cast<uint32_t>(next_b + i), i < of_b ? other[next_b + i] : 0, true};
      if (turn % 2 == 0 && i < of_a) columns.push_back(column_a);
      if (i < of_b) columns.push_back(column_b);
      if (turn % 2 == 1 && i < of_a) columns.push_back(column_a);
    }
    const std::vector<float> logits = run(executor(), columns, model_.vocabulary);
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::vector<float>& expected = columns[i].sequence == a ? alone : other_alone;
      const auto row = expected.begin() + static_cast<ptrdiff_t>(columns[i].position * model_.vocabulary);
      ASSERT_TRUE(std::equal(row, row + static_cast<ptrdiff_t>(model_.vocabulary),
                             logits.begin() + static_cast<ptrdiff_t>(i * model_.vocabulary)))
          << "sequence " << columns[i].sequence << " position " << columns[i].position;
    }
    next_a += of_a, next_b += of_b, ++turn;
  }
  EXPECT_EQ(executor().length(a), model_.tokens.size());
  EXPECT_EQ(executor().length(b), other.size());
}

TEST_P(Sequences, OnlyWantedLogitsInColumnOrder) {
  const std::vector<float> all = run_whole(executor(), model_);
  std::vector<Column> columns = columns_of(open(executor(), 64), model_.tokens, 0, false);
  const size_t wanted[] = {0, 3, columns.size() - 1};
  for (const size_t i : wanted) columns[i].wants_logits = true;
  const std::vector<float> some = run(executor(), columns, model_.vocabulary);
  ASSERT_EQ(some.size(), 3 * model_.vocabulary);
  for (size_t row = 0; row < 3; ++row)
    for (size_t i = 0; i < model_.vocabulary; ++i)
      ASSERT_EQ(some[row * model_.vocabulary + i], all[wanted[row] * model_.vocabulary + i]);
}

TEST_P(Sequences, TruncateAndGoOnElsewhere) {
  const std::vector<float> all = run_whole(executor(), model_);
  const SequenceId sequence = open(executor(), 64);
  std::vector<int32_t> detour(model_.tokens.begin(), model_.tokens.begin() + 30);
  for (size_t i = 11; i < detour.size(); ++i) detour[i] = (detour[i] + 1) % static_cast<int32_t>(model_.vocabulary);
  run(executor(), columns_of(sequence, detour, 0, false), model_.vocabulary);
  EXPECT_EQ(executor().length(sequence), 30u);
  EXPECT_TRUE(executor().truncate(sequence, 40));  // longer than it is: nothing to forget
  EXPECT_EQ(executor().length(sequence), 30u);
  ASSERT_TRUE(executor().truncate(sequence, 11));
  EXPECT_EQ(executor().length(sequence), 11u);
  const auto rest = std::span(model_.tokens).subspan(11);
  const std::vector<float> logits = run(executor(), columns_of(sequence, rest, 11), model_.vocabulary);
  EXPECT_TRUE(std::equal(logits.begin(), logits.end(), all.begin() + static_cast<ptrdiff_t>(11 * model_.vocabulary)));
  EXPECT_TRUE(executor().truncate(sequence, 0));
  EXPECT_EQ(executor().length(sequence), 0u);
  EXPECT_FALSE(executor().truncate(12345, 0));
}

TEST_P(Sequences, ErrorsLeaveSequencesAsTheyWere) {
  const SequenceId sequence = open(executor(), 6), other = open(executor(), 6);
  const auto vocabulary = static_cast<int32_t>(model_.vocabulary);
  run(executor(), columns_of(sequence, std::vector<int32_t>{1, 2, 3}, 0, false), model_.vocabulary);
  std::vector<float> logits(model_.vocabulary);
  const std::span<float> none;
  const auto expect_error = [&](std::string_view part, const std::vector<Column>& columns, std::span<float> room) {
    const Status status = executor().run(columns, room);
    const std::string message = status.ok() ? "no error" : status.error().message;
    EXPECT_NE(message.find(part), std::string::npos) << "expected '" << part << "', got: " << message;
  };
  expect_error("token -1", {{sequence, 3, -1, false}}, none);
  expect_error("vocabulary", {{sequence, 3, vocabulary, false}}, none);
  expect_error("expected 3", {{sequence, 2, 1, false}}, none);
  expect_error("expected 3", {{sequence, 4, 1, false}}, none);
  expect_error("column 1", {{sequence, 3, 1, false}, {sequence, 3, 1, false}}, none);
  expect_error("column 1", {{sequence, 3, 1, false}, {sequence, 5, 1, false}}, none);
  expect_error("holds 6 positions", columns_of(sequence, std::vector<int32_t>{1, 2, 3, 4}, 3, false), none);
  expect_error("not open", {{999, 0, 1, false}}, none);
  expect_error("logits", {{sequence, 3, 1, true}}, none);
  expect_error("logits", {{sequence, 3, 1, false}}, logits);
  // A good column of one sequence beside a bad one of another changes neither.
  expect_error("column 1", {{other, 0, 1, false}, {sequence, 9, 1, false}}, none);
  EXPECT_EQ(executor().length(sequence), 3u);
  EXPECT_EQ(executor().length(other), 0u);
  EXPECT_TRUE(executor().run({}, {}).ok());

  // Exactly full works, and what was refused left no trace.
  const std::vector<int32_t> tokens{1, 2, 3, 4, 5, 6};
  const SequenceId fresh = open(executor(), 6);
  const std::vector<float> expected = run(executor(), columns_of(fresh, tokens, 0), model_.vocabulary);
  const std::vector<float> got =
      run(executor(), columns_of(sequence, std::span(tokens).subspan(3), 3), model_.vocabulary);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin() + static_cast<ptrdiff_t>(3 * model_.vocabulary)));

  executor().close_sequence(sequence);
  executor().close_sequence(sequence);  // closing twice is harmless
  EXPECT_EQ(executor().length(sequence), 0u);
  EXPECT_FALSE(executor().run(std::vector<Column>{{sequence, 0, 1, false}}, none).ok());
  EXPECT_FALSE(executor().open_sequence(0).ok());
}

// The last layers of a windowed model see exactly the window: the token just outside it must not matter where every
// block slides, and the one just inside must. A model in which all but one block slide cannot show this by its logits,
// so the window itself is changed.
TEST_P(Sequences, WindowsCountTheQueryItself) {
  const auto run_with_window = [&](uint32_t window) {
    for (size_t i = 0; i < loaded_.program->steps.size(); ++i)
      if (auto* attention = std::get_if<model::AttentionStep>(&loaded_.program->steps[i])) {
        attention->window = window;
        loaded_.program->caches[attention->cache].window = window;
      }
    return ReferenceExecutor::create(*loaded_.program);
  };
  // Window 1: every token sees only itself, so a row depends on its own token alone.
  {
    const auto executor = run_with_window(1);
    ASSERT_TRUE(executor.ok());
    const SequenceId a = open(**executor, 8), b = open(**executor, 8);
    const std::vector<float> row_a =
        run(**executor, columns_of(a, std::vector<int32_t>{5, 9, 3}, 0), model_.vocabulary);
    const std::vector<float> row_b =
        run(**executor, columns_of(b, std::vector<int32_t>{7, 1, 3}, 0), model_.vocabulary);
    EXPECT_TRUE(std::equal(row_a.end() - static_cast<ptrdiff_t>(model_.vocabulary), row_a.end(),
                           row_b.end() - static_cast<ptrdiff_t>(model_.vocabulary)));
  }
  // Window 2: the token before matters as well; what lies (blocks * 1) further back does not.
  {
    const auto executor = run_with_window(2);
    ASSERT_TRUE(executor.ok());
    const size_t reach = loaded_.program->blocks + 1;  // positions that a row can depend on, itself included
    const auto last_row = [&](size_t changed) {
      std::vector<int32_t> tokens(model_.tokens.begin(), model_.tokens.begin() + 20);
      if (changed < tokens.size()) tokens[changed] = (tokens[changed] + 1) % static_cast<int32_t>(model_.vocabulary);
      const SequenceId id = open(**executor, 32);
      std::vector<float> logits = run(**executor, columns_of(id, tokens, 0), model_.vocabulary);
      return std::vector<float>(logits.end() - static_cast<ptrdiff_t>(model_.vocabulary), logits.end());
    };
    const std::vector<float> plain = last_row(99);
    EXPECT_EQ(plain, last_row(19 - reach));
    EXPECT_NE(plain, last_row(20 - reach));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Sequences, testing::Values("llama", "gemma3"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ReferenceExecutor, RefusesAProgramThatIsNotValid) {
  const auto executor = ReferenceExecutor::create(model::Program{});
  ASSERT_FALSE(executor.ok());
  EXPECT_NE(executor.error().message.find("logits"), std::string::npos) << executor.error().message;
}

TEST(CacheTypes, NamesAndSizes) {
  for (const CacheType type : {CacheType::f16, CacheType::f32, CacheType::q8_0}) {
    const auto parsed = parse_cache_type(name(type));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, type);
  }
  EXPECT_EQ(parse_cache_type("q8_0").value(), CacheType::q8_0);
  EXPECT_FALSE(parse_cache_type("q8").ok());
  EXPECT_FALSE(parse_cache_type("").ok());
  EXPECT_EQ(bytes_per_element(CacheType::f16), 2);
  EXPECT_EQ(bytes_per_element(CacheType::f32), 4);
  EXPECT_EQ(bytes_per_element(CacheType::q8_0) * 32, 34);
}

}  // namespace
}  // namespace gale::exec
