// Sessions: whatever is appended, generated and forgotten, they go on like a cold run, bit for bit.
#include "engine/session_fixture.h"

namespace gale::engine {
namespace {

TEST_F(SessionTest, GreedyTextIsTheOracles) {
  for (const char* size : {"tiny", "small"}) {
    for (const auto& [arch, variant] :
         {std::pair{"llama", "llama3"}, std::pair{"llama", "tied"}, std::pair{"gemma3", "default"}}) {
      OracleOptions options = model_options(arch, false, size);
      options.variant = variant;
      const OracleModel oracle = test::make_oracle_model(options);
      for (const ExecutorKind executor : {ExecutorKind::cpu, ExecutorKind::reference}) {
        EngineOptions engine_options = test::test_options();
        engine_options.executor = executor;
        const auto engine = open_engine(oracle.path, engine_options);
        const auto session = new_session(*engine);
        ASSERT_TRUE(session->append(oracle.tokens).ok());
        EXPECT_TRUE(test::nmse(oracle.row(oracle.tokens.size() - 1), session->logits()) < 1e-8);
        const GenerateResult result = generate(*session, greedy(static_cast<uint32_t>(oracle.greedy.size())));
        ASSERT_EQ(result.tokens.size(), oracle.greedy.size());
        EXPECT_EQ(result.reason, StopReason::length);
        size_t compared = 0;
        while (compared < oracle.greedy.size() && oracle.greedy_lead[compared] > 1e-3f) {
          ASSERT_EQ(result.tokens[compared], oracle.greedy[compared]) << test::test_name(options) << " " << compared;
          ++compared;
        }
        EXPECT_GE(compared, 3u) << "the oracle's leads are too small to compare anything";
      }
    }
  }
}

TEST_F(SessionTest, GoesOnLikeAColdRun) {
  for (const auto& options :
       {model_options("llama"), model_options("gemma3"), model_options("llama", false, "small", "q4_0"),
        model_options("gemma3", false, "small", "q4_K")}) {
    const OracleModel oracle = test::make_oracle_model(options);
    const auto engine = open_engine(oracle.path);
    const auto session = new_session(*engine);
    EXPECT_TRUE(session->logits().empty());
    std::vector<Token> all = some_tokens(70, oracle.vocabulary);
    ASSERT_TRUE(session->append(std::span(all).first(1)).ok());
    EXPECT_TRUE(same_bits(session->logits(), cold(*engine, std::span(all).first(1))));
    ASSERT_TRUE(session->append(std::span(all).subspan(1)).ok());
    EXPECT_TRUE(same_bits(session->logits(), cold(*engine, all)));
    ASSERT_TRUE(session->append({}).ok());  // nothing changes nothing
    EXPECT_TRUE(same_bits(session->logits(), cold(*engine, all)));

    const GenerateResult result = generate(*session, greedy(9));
    all.insert(all.end(), result.tokens.begin(), result.tokens.end());
    EXPECT_EQ(session->tokens(), all);
    EXPECT_EQ(result.passes, 8u);  // the first token came from the prompt's logits
    const std::vector<Token> more = some_tokens(5, oracle.vocabulary, 99);
    ASSERT_TRUE(session->append(more).ok());
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(session->tokens(), all);
    EXPECT_TRUE(same_bits(session->logits(), cold(*engine, all)));

    // Back to every kind of place: into what was generated, into the prompt, to one token, to none.
    for (const size_t length :
         {size_t{75}, size_t{71}, size_t{70}, size_t{64}, size_t{63}, size_t{20}, size_t{1}, size_t{0}}) {
      ASSERT_TRUE(session->rewind(length).ok());
      EXPECT_EQ(session->tokens().size(), length);
      EXPECT_TRUE(session->logits().empty());
      all.resize(length);
      const std::vector<Token> other = some_tokens(3, oracle.vocabulary, static_cast<uint32_t>(length) + 5);
      ASSERT_TRUE(session->append(other).ok());
      all.insert(all.end(), other.begin(), other.end());
      EXPECT_TRUE(same_bits(session->logits(), cold(*engine, all))) << test::test_name(options) << " " << length;
    }
    const Status status = session->rewind(100);
    ASSERT_FALSE(status.ok());
    EXPECT_TRUE(test::has(status.error().message, "100"));
    EXPECT_EQ(session->tokens(), all);
  }
}

// Generating right after a rewind needs the logits of a token whose pass is long gone.
TEST_F(SessionTest, GeneratesAfterRewind) {
  for (const char* arch : {"llama", "gemma3"}) {
    const OracleModel oracle = test::make_oracle_model(model_options(arch));
    const auto engine = open_engine(oracle.path);
    const std::vector<Token> prompt = some_tokens(150, oracle.vocabulary);
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append(prompt).ok());
    for (const size_t length : {size_t{149}, size_t{100}, size_t{9}, size_t{1}}) {
      ASSERT_TRUE(session->rewind(length).ok());
      const GenerateResult warm = generate(*session, greedy(6));
      const auto fresh = new_session(*engine);
      ASSERT_TRUE(fresh->append(std::span(prompt).first(length)).ok());
      EXPECT_EQ(warm.tokens, generate(*fresh, greedy(6)).tokens) << arch << " " << length;
      ASSERT_TRUE(session->rewind(length).ok());
    }
    ASSERT_TRUE(session->rewind(0).ok());
    const auto nothing = session->generate(greedy(3), {});
    ASSERT_FALSE(nothing.ok());
    EXPECT_TRUE(test::has(nothing.error().message, "append a token first"));
  }
}

// Gemma's windows of 8: blocks behind them are given back, and a rewind to there starts over.
TEST_F(SessionTest, GoesFarBeyondTheWindow) {
  const OracleModel oracle = test::make_oracle_model(model_options("gemma3"));
  EngineOptions options = test::test_options();
  options.context = 700;
  const auto engine = open_engine(oracle.path, options);
  const auto session = new_session(*engine);
  std::vector<Token> all = some_tokens(300, oracle.vocabulary);
  ASSERT_TRUE(session->append(all).ok());
  const GenerateResult result = generate(*session, greedy(250));  // column by column
  ASSERT_EQ(result.tokens.size(), 250u);
  all.insert(all.end(), result.tokens.begin(), result.tokens.end());
  ASSERT_TRUE(session->append(std::span(all).first(1)).ok());
  std::vector<Token> longer = all;
  longer.push_back(all[0]);
  EXPECT_TRUE(same_bits(session->logits(), cold(*engine, longer)));
  for (const size_t length : {size_t{500}, size_t{130}, size_t{7}}) {
    ASSERT_TRUE(session->rewind(length).ok());
    all.resize(length);
    all.push_back(5);
    ASSERT_TRUE(session->append(std::span(all).last(1)).ok());
    EXPECT_EQ(session->tokens(), all);
    EXPECT_TRUE(same_bits(session->logits(), cold(*engine, all))) << length;
  }
}

TEST_F(SessionTest, TwoSessionsDoNotTouchEachOther) {
  for (const char* arch : {"llama", "gemma3"}) {
    const OracleModel oracle = test::make_oracle_model(model_options(arch, false, "small", "q8_0"));
    const auto engine = open_engine(oracle.path);
    const std::vector<Token> first = some_tokens(90, oracle.vocabulary, 3),
                             second = some_tokens(41, oracle.vocabulary, 4);
    const auto alone = [&](const std::vector<Token>& prompt) {
      const auto session = new_session(*engine);
      EXPECT_TRUE(session->append(prompt).ok());
      return generate(*session, greedy(12)).tokens;
    };
    const auto expected_first = alone(first), expected_second = alone(second);
    const auto a = new_session(*engine), b = new_session(*engine);
    ASSERT_TRUE(a->append(std::span(first).first(50)).ok());
    ASSERT_TRUE(b->append(second).ok());
    ASSERT_TRUE(a->append(std::span(first).subspan(50)).ok());
    std::vector<Token> got_first, got_second;
    for (int i = 0; i < 12; ++i) {
      for (auto [session, got] : {std::pair{a.get(), &got_first}, std::pair{b.get(), &got_second}}) {
        const auto tokens = generate(*session, greedy(1)).tokens;
        ASSERT_EQ(tokens.size(), 1u);
        got->push_back(tokens[0]);
      }
    }
    EXPECT_EQ(got_first, expected_first);
    EXPECT_EQ(got_second, expected_second);
  }
}

TEST_F(SessionTest, LogitsOfEveryTokenInAnyChunks) {
  const OracleModel oracle = test::make_oracle_model(model_options("gemma3", false, "small", "q4_1"));
  const auto engine = open_engine(oracle.path);
  std::vector<float> expected(oracle.tokens.size() * oracle.vocabulary), got(expected.size());
  {
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append_with_logits(oracle.tokens, expected, 64).ok());
    EXPECT_TRUE(same_bits(session->logits(), std::span(expected).last(oracle.vocabulary)));
  }
  EXPECT_TRUE(same_bits(std::span(expected).last(oracle.vocabulary), cold(*engine, oracle.tokens)));
  for (const uint32_t chunk : {1, 2, 3, 7, 16, 63}) {
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append_with_logits(oracle.tokens, got, chunk).ok());
    EXPECT_TRUE(same_bits(got, expected)) << chunk;
  }
  {  // behind tokens that a generate left unfinished
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append(std::span(oracle.tokens).first(20)).ok());
    const GenerateResult made = generate(*session, greedy(3));
    std::vector<Token> all(oracle.tokens.begin(), oracle.tokens.begin() + 20);
    all.insert(all.end(), made.tokens.begin(), made.tokens.end());
    std::vector<float> two(2 * oracle.vocabulary);
    ASSERT_TRUE(session->append_with_logits(std::vector<Token>{4, 5}, two, 1).ok());
    all.push_back(4);
    EXPECT_TRUE(same_bits(std::span(two).first(oracle.vocabulary), cold(*engine, all)));
    all.push_back(5);
    EXPECT_TRUE(same_bits(std::span(two).last(oracle.vocabulary), cold(*engine, all)));
  }
  const auto session = new_session(*engine);
  EXPECT_FALSE(session->append_with_logits(oracle.tokens, std::span(got).first(5), 1).ok());
  EXPECT_FALSE(session->append_with_logits(oracle.tokens, got, 0).ok());
  EXPECT_FALSE(session->append_with_logits(oracle.tokens, got, 65).ok());
  EXPECT_TRUE(session->tokens().empty());
}

TEST_F(SessionTest, RefusesTokensOutOfRange) {
  const OracleModel oracle = test::make_oracle_model(model_options("llama"));
  const auto engine = open_engine(oracle.path);
  const auto session = new_session(*engine);
  ASSERT_TRUE(session->append(std::vector<Token>{1, 2}).ok());
  for (const Token token : {Token{-1}, static_cast<Token>(oracle.vocabulary), INT32_MAX, INT32_MIN}) {
    const Status status = session->append(std::vector<Token>{3, token, 4});
    ASSERT_FALSE(status.ok());
    EXPECT_TRUE(test::has(status.error().message, std::to_string(token)));
    EXPECT_TRUE(test::has(status.error().message, std::to_string(oracle.vocabulary)));
    EXPECT_EQ(session->tokens(), (std::vector<Token>{1, 2}));
  }
  EXPECT_TRUE(same_bits(session->logits(), cold(*engine, std::vector<Token>{1, 2})));
}

// Context 256: 255 leave room for one token, 256 for none, more don't fit; nothing is cut silently.
TEST_F(SessionTest, ContextIsNeverOverrun) {
  const OracleModel oracle = test::make_oracle_model(model_options("llama"));
  const auto engine = open_engine(oracle.path);
  ASSERT_EQ(engine->context(), 256u);
  {
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append(some_tokens(255, oracle.vocabulary)).ok());
    const GenerateResult result = generate(*session, greedy(UINT32_MAX));
    EXPECT_EQ(result.tokens.size(), 1u);
    EXPECT_EQ(result.reason, StopReason::context_full);
    EXPECT_EQ(session->tokens().size(), 256u);
    EXPECT_FALSE(session->append(std::vector<Token>{1}).ok());
  }
  {
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append(some_tokens(250, oracle.vocabulary)).ok());
    const GenerateResult result = generate(*session, greedy(UINT32_MAX));
    EXPECT_EQ(result.tokens.size(), 6u);
    EXPECT_EQ(result.reason, StopReason::context_full);
  }
  {
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append(some_tokens(256, oracle.vocabulary)).ok());
    EXPECT_EQ(session->logits().size(), oracle.vocabulary);
    const auto result = session->generate(greedy(5), {});
    ASSERT_FALSE(result.ok());  // an empty answer would look like success
    EXPECT_EQ(result.error().kind, ErrorKind::limit);
    EXPECT_TRUE(test::has(result.error().message, "256"));
  }
  for (const size_t count : {257, 300, 100'000}) {
    const auto session = new_session(*engine);
    const Status status = session->append(some_tokens(count, oracle.vocabulary));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::limit);
    EXPECT_TRUE(test::has(status.error().message, std::to_string(count)));
    EXPECT_TRUE(test::has(status.error().message, "256"));
    EXPECT_TRUE(session->tokens().empty());
    ASSERT_TRUE(session->append(some_tokens(3, oracle.vocabulary)).ok());  // and the session goes on
    const Status again = session->append(some_tokens(254, oracle.vocabulary));
    ASSERT_FALSE(again.ok());
    EXPECT_TRUE(test::has(again.error().message, "254"));
    EXPECT_EQ(session->tokens().size(), 3u);
  }
}

}  // namespace
}  // namespace gale::engine
