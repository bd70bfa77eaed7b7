// Answers of sessions: what ends them, what is shown of them, and cancelling from other threads.
#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/session_fixture.h"

namespace gale::engine {
namespace {

TEST_F(SessionTest, MaxTokensAndSeeds) {
  const OracleModel oracle = test::make_oracle_model(model_options("llama", true));
  const auto engine = open_engine(oracle.path);
  const auto draw = [&](std::optional<uint64_t> seed, uint32_t count, Session* session = nullptr) {
    const auto fresh = session == nullptr ? new_session(*engine) : nullptr;
    if (session == nullptr) session = fresh.get();
    EXPECT_TRUE(session->append(oracle.tokens).ok());
    GenerateOptions options = greedy(count);
    options.sampling.temperature = 1;
    options.sampling.seed = seed;
    options.ignore_end = true;
    auto tokens = generate(*session, options).tokens;
    EXPECT_TRUE(session->rewind(0).ok());
    return tokens;
  };
  const auto seven = draw(7, 20);
  EXPECT_EQ(seven.size(), 20u);
  EXPECT_EQ(draw(7, 20), seven);
  EXPECT_NE(draw(8, 20), seven);
  EXPECT_NE(draw(std::nullopt, 20), draw(std::nullopt, 20));
  const auto session = new_session(*engine);  // second request in the same session
  draw(8, 20, session.get());
  EXPECT_EQ(draw(7, 20, session.get()), seven);
  EXPECT_EQ(draw(7, 1), std::vector<Token>(seven.begin(), seven.begin() + 1));
  EXPECT_TRUE(draw(7, 0).empty());
  GenerateOptions wrong = greedy(5);
  wrong.sampling.temperature = -1;
  ASSERT_TRUE(session->append(oracle.tokens).ok());
  EXPECT_FALSE(session->generate(wrong, {}).ok());
}

TEST_F(SessionTest, StopStringsAcrossTokens) {
  const OracleModel oracle = test::make_oracle_model(model_options("llama", true));
  const auto engine = open_engine(oracle.path);
  std::string text;
  GenerateOptions options = greedy(40);
  options.ignore_end = true;
  {
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append(oracle.tokens).ok());
    generate(*session, options, &text);
  }
  ASSERT_GT(text.size(), 12u);
  size_t checked = 0;
  for (size_t at = 1; at + 4 < text.size(); ++at) {  // 4 bytes anywhere: inside tokens and across their borders
    const std::string stop = text.substr(at, 4);
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append(oracle.tokens).ok());
    GenerateOptions with_stop = options;
    with_stop.stops = {"not in the text at all", stop};
    std::string shown;
    const GenerateResult result = generate(*session, with_stop, &shown);
    EXPECT_EQ(result.reason, StopReason::stop_string);
    EXPECT_EQ(shown, text.substr(0, text.find(stop))) << "stop at " << at;
    // What was made is in the session, whole tokens of it; the next turn goes on from there.
    std::vector<Token> all = oracle.tokens;
    all.insert(all.end(), result.tokens.begin(), result.tokens.end());
    EXPECT_EQ(session->tokens(), all);
    ++checked;
  }
  EXPECT_GT(checked, 5u);
  // A stop string that never comes holds nothing back in the end.
  const auto session = new_session(*engine);
  ASSERT_TRUE(session->append(oracle.tokens).ok());
  GenerateOptions never = options;
  never.stops = {text.substr(text.size() - 3) + "and more"};
  std::string shown;
  EXPECT_EQ(generate(*session, never, &shown).reason, StopReason::length);
  EXPECT_EQ(shown, text);
}

TEST_F(SessionTest, EndTokensEndTheTurnAndAreNotPrinted) {
  const OracleModel oracle = test::make_oracle_model(model_options("llama", true));
  // Greedy tokens before the first repetition: any of them can play an end token.
  std::vector<Token> made;
  {
    const auto engine = open_engine(oracle.path);
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append(oracle.tokens).ok());
    GenerateOptions options = greedy(16);
    options.ignore_end = true;
    made = generate(*session, options).tokens;
  }
  size_t distinct = 0;
  while (distinct < made.size() && std::find(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(distinct),
                                             made[distinct]) == made.begin() + static_cast<std::ptrdiff_t>(distinct))
    ++distinct;
  ASSERT_GE(distinct, 3u);
  const Token other = 0;  // a byte that plays the other end token; it must not be made earlier
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    for (size_t at = 0; at < distinct; ++at) {
      ScratchFolder folder;
      test::ModelFile file(oracle.path);
      file.set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(other));
      file.set(key, static_cast<uint32_t>(made[at]));
      const auto engine = open_engine(file.write(folder));
      EXPECT_TRUE(engine->tokenizer().ends_turn(made[at]));
      const auto session = new_session(*engine);
      ASSERT_TRUE(session->append(oracle.tokens).ok());
      std::string shown;
      const GenerateResult result = generate(*session, greedy(16), &shown);
      EXPECT_EQ(result.reason, StopReason::end_token) << key;
      const std::vector<Token> expected(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(at));
      EXPECT_EQ(result.tokens, expected) << key;
      EXPECT_EQ(session->tokens().size(), oracle.tokens.size() + at);
      // The next turn goes on like a cold run.
      std::vector<Token> all = session->tokens();
      all.push_back(5);
      ASSERT_TRUE(session->append(std::vector<Token>{5}).ok());
      EXPECT_TRUE(same_bits(session->logits(), cold(*engine, all)));
      GenerateOptions on = greedy(16);
      on.ignore_end = true;
      ASSERT_TRUE(session->rewind(oracle.tokens.size()).ok());
      EXPECT_EQ(generate(*session, on).tokens, made);
    }
  }
}

TEST_F(SessionTest, CancelBeforeAndBetweenPasses) {
  const OracleModel oracle = test::make_oracle_model(model_options("llama", true));
  EngineOptions engine_options = test::test_options();
  engine_options.chunk = 16;
  const auto engine = open_engine(oracle.path, engine_options);
  const std::vector<Token> prompt = some_tokens(100, oracle.vocabulary);
  std::atomic<bool> cancel{true};
  const auto session = new_session(*engine);
  const Status refused = session->append(prompt, &cancel);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(session->tokens().empty());

  cancel = false;
  std::vector<size_t> seen;
  const Status stopped = session->append(prompt, &cancel, [&](size_t done, size_t total) {
    EXPECT_EQ(total, 100u);
    seen.push_back(done);
    cancel = done >= 32;
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(seen, (std::vector<size_t>{16, 32}));
  ASSERT_EQ(session->tokens(), std::vector<Token>(prompt.begin(), prompt.begin() + 32));  // what was done stays
  cancel = false;
  ASSERT_TRUE(session->append(std::span(prompt).subspan(32), &cancel).ok());
  EXPECT_TRUE(same_bits(session->logits(), cold(*engine, prompt)));

  GenerateOptions options = greedy(50);
  options.ignore_end = true;
  options.cancel = &cancel;
  cancel = true;
  GenerateResult result = generate(*session, options);
  EXPECT_EQ(result.reason, StopReason::cancelled);
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(session->tokens(), prompt);
  // By another thread in the middle of an answer: no further pass.
  cancel = false;
  size_t pieces = 0, tokens_then = 0;
  auto cancelled = session->generate(options, [&](std::string_view) {
    if (++pieces != 3) return;
    tokens_then = session->tokens().size();
    std::thread([&] { cancel = true; }).join();
  });
  ASSERT_TRUE(cancelled.ok());
  ASSERT_GE(pieces, 3u);
  EXPECT_EQ(cancelled->reason, StopReason::cancelled);
  EXPECT_EQ(session->tokens().size(), tokens_then);
  std::vector<Token> all = session->tokens();
  EXPECT_EQ(all.size(), 100 + cancelled->tokens.size());
  cancel = false;
  all.push_back(9);
  ASSERT_TRUE(session->append(std::vector<Token>{9}).ok());
  EXPECT_TRUE(same_bits(session->logits(), cold(*engine, all)));
}

// At any moment: the session stays consistent.
TEST_F(SessionTest, CancelledByARacingThread) {
  const OracleModel oracle = test::make_oracle_model(model_options("llama", true));
  EngineOptions engine_options = test::test_options();
  engine_options.context = 2000;
  const auto engine = open_engine(oracle.path, engine_options);
  for (int round = 0; round < 5; ++round) {
    const auto session = new_session(*engine);
    ASSERT_TRUE(session->append(oracle.tokens).ok());
    std::atomic<bool> cancel{false};
    std::atomic<int> shown{0};
    std::thread other([&] {
      while (shown.load() <= round) std::this_thread::yield();
      cancel = true;
    });
    GenerateOptions options = greedy(1500);
    options.ignore_end = true;
    options.cancel = &cancel;
    const auto result = session->generate(options, [&](std::string_view) { ++shown; });
    shown = 1000;
    other.join();
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_TRUE(result->reason == StopReason::cancelled || result->reason == StopReason::length);
    EXPECT_EQ(session->tokens().size(), oracle.tokens.size() + result->tokens.size());
    std::vector<Token> all = session->tokens();
    all.push_back(9);
    ASSERT_TRUE(session->append(std::vector<Token>{9}).ok());
    EXPECT_TRUE(same_bits(session->logits(), cold(*engine, all)));
  }
}

}  // namespace
}  // namespace gale::engine
