// What the tests of sessions share: models, tokens, cold runs to compare with.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine.h"
#include "engine/model_file.h"

namespace gale::engine {

using test::new_session;
using test::open_engine;
using test::OracleModel;
using test::OracleOptions;
using text::Token;

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = test::oracle_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

inline OracleOptions model_options(const char* arch, bool vocab = false, const char* size = "tiny",
                                   const char* quant = "f32") {
  OracleOptions options;
  options.arch = arch;
  options.size = size;
  options.quant = quant;
  options.vocab = vocab;
  return options;
}

// Any tokens: the same for the same start.
inline std::vector<Token> some_tokens(size_t count, size_t vocabulary, uint32_t state = 1) {
  std::vector<Token> tokens(count);
  for (Token& token : tokens) {
    state = state * 1664525u + 1013904223u;
    token = static_cast<Token>((state >> 8) % vocabulary);
  }
  return tokens;
}

inline std::vector<float> copy(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.empty() || a.size() != b.size()) {
    return testing::AssertionFailure() << a.size() << " and " << b.size() << " logits";
  }
  if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "logits differ";
}

// Logits after these tokens in a session that never saw anything else.
inline std::vector<float> cold(Engine& engine, std::span<const Token> tokens) {
  const auto session = new_session(engine);
  const Status status = session->append(tokens);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return copy(session->logits());
}

inline GenerateOptions greedy(uint32_t max_tokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  return options;
}

inline GenerateResult generate(Session& session, const GenerateOptions& options, std::string* text = nullptr) {
  auto result = session.generate(options, [&](std::string_view more) {
    if (text != nullptr) *text += more;
  });
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? *result : GenerateResult{};
}

}  // namespace gale::engine
