// Compares with the token ids that another engine gave: cases made by tests/peers/tokenizer_peer.py.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "text/model_vocabulary.h"

namespace gale::text {
namespace {

class CaseReader {
 public:
  explicit CaseReader(std::string bytes) : bytes_(std::move(bytes)) {}
  bool done() const { return at_ >= bytes_.size(); }
  uint32_t number() {
    uint32_t n = 0;
    if (at_ + 4 <= bytes_.size()) std::memcpy(&n, bytes_.data() + at_, 4);
    at_ += 4;
    return n;
  }
  std::string text() {
    const size_t n = number();
    std::string out = at_ <= bytes_.size() ? bytes_.substr(at_, n) : std::string();
    at_ += n;
    return out;
  }
  std::vector<Token> tokens() {
    std::vector<Token> out(number());
    for (Token& t : out) t = static_cast<Token>(number());
    return out;
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

// File: text path of the model; then cases: flags (1 special, 2 with BOS), text, expected tokens.
// The environment variable GALE_TOKENIZER_CASES names the file.
TEST(TokenizerPeer, GivesTheSameTokens) {
  const char* path = std::getenv("GALE_TOKENIZER_CASES");
  if (path == nullptr) GTEST_SKIP() << "GALE_TOKENIZER_CASES is not set (tests/peers/tokenizer_peer.py sets it)";
  std::ifstream in(path, std::ios::binary);
  CaseReader cases(std::string(std::istreambuf_iterator<char>(in), {}));
  auto vocabulary = read_vocabulary(cases.text());
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::duration d) { return std::chrono::duration_cast<std::chrono::microseconds>(d).count(); };
  auto start = Clock::now();
  auto tokenizer = Tokenizer::create((*vocabulary)->source);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::printf("created in %ld us\n", static_cast<long>(us(Clock::now() - start)));
  // What a lost byte becomes, to leave out of the comparison.
  const std::vector<Token> replacement = tokenizer->encode("\xEF\xBF\xBD");
  const auto without_replacement = [&](std::vector<Token> tokens) {
    for (size_t i = 0; i + replacement.size() <= tokens.size();) {
      if (std::equal(replacement.begin(), replacement.end(), tokens.begin() + static_cast<ptrdiff_t>(i))) {
        tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(i),
                     tokens.begin() + static_cast<ptrdiff_t>(i + replacement.size()));
      } else {
        ++i;
      }
    }
    return tokens;
  };
  size_t count = 0, bytes = 0, lossy = 0, wrong = 0, bad_round_trips = 0;
  int64_t time = 0;
  while (!cases.done()) {
    const uint32_t flags = cases.number();
    const std::string text = cases.text();
    const std::vector<Token> expected = cases.tokens();
    size_t lost = 0;
    start = Clock::now();
    const std::vector<Token> got = tokenizer->encode(text, {(flags & 1) != 0, (flags & 2) != 0}, &lost);
    time += us(Clock::now() - start);
    ++count;
    bytes += text.size();
    lossy += lost > 0;
    const bool same =
        lost > 0 && !replacement.empty() ? without_replacement(got) == without_replacement(expected) : got == expected;
    if (!same && ++wrong <= 30) {
      const auto at = static_cast<size_t>(
          std::mismatch(got.begin(), got.end(), expected.begin(), expected.end()).first - got.begin());
      std::string message = "flags " + std::to_string(flags) + " token " + std::to_string(at) + ": text ";
      const std::string before = tokenizer->decode(std::span(got).first(at), true);
      for (const char c : text.substr(std::min(text.size(), before.size()), 60)) {
        char hex[8];
        std::snprintf(hex, sizeof(hex), c >= 0x20 && c < 0x7F ? "%c" : "\\x%02x",
                      static_cast<unsigned>(static_cast<uint8_t>(c)));
        message += hex;
      }
      message += "\n  got     ";
      for (size_t i = at; i < std::min(got.size(), at + 8); ++i) message += " " + std::to_string(got[i]);
      message += "\n  expected";
      for (size_t i = at; i < std::min(expected.size(), at + 8); ++i) message += " " + std::to_string(expected[i]);
      ADD_FAILURE() << message;
    }
    if (lost == 0 && (flags & 2) == 0 && tokenizer->decode(got, true) != text) {
      if (++bad_round_trips <= 5)
        ADD_FAILURE() << "flags " << flags << ": '" << text << "' decodes to '" << tokenizer->decode(got, true) << "'";
    }
  }
  std::printf(
      "%zu cases, %zu bytes (%zu cases with lost bytes): %zu differ, %zu don't decode to their text; %.1f MB/s\n",
      count, bytes, lossy, wrong, bad_round_trips,
      static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(time, 1)));
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(bad_round_trips, 0u);
}

}  // namespace
}  // namespace gale::text
