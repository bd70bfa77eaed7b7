// Compares with the token ids that another engine gave: cases made by tests/peers/tokenizer_peer.py.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "text/model_vocabulary.h"
#include "text/vocabulary_files.h"

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

// The vocabulary of a model file, or of a directory with a tokenizer's files.
struct Opened {
  std::unique_ptr<ModelVocabulary> file;
  Vocabulary directory;
  VocabularySource source() const { return file ? file->source : directory.source(); }
};

Result<Opened> open_vocabulary(const std::string& path) {
  Opened opened;
  if (std::filesystem::is_directory(path)) {
    auto vocabulary = read_vocabulary_directory(path);
    if (!vocabulary) return vocabulary.error();
    opened.directory = std::move(*vocabulary);
  } else {
    auto vocabulary = read_vocabulary(path);
    if (!vocabulary) return vocabulary.error();
    opened.file = std::move(*vocabulary);
  }
  return opened;
}

constexpr uint32_t flag_special = 1, flag_bos = 2;
constexpr uint32_t flag_one_way = 8;  // the tokens don't decode to the text
constexpr uint32_t flag_exact = 4;    // what is lost is replaced as the other library does it

// File: text path of the model; then cases: flags, text, expected tokens, the text that they decode to.
// The environment variable GALE_TOKENIZER_CASES names the file.
TEST(TokenizerPeer, GivesTheSameTokens) {
  const char* path = std::getenv("GALE_TOKENIZER_CASES");
  if (path == nullptr) GTEST_SKIP() << "GALE_TOKENIZER_CASES is not set (tests/peers/tokenizer_peer.py sets it)";
  std::ifstream in(path, std::ios::binary);
  CaseReader cases(std::string(std::istreambuf_iterator<char>(in), {}));
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::duration d) { return std::chrono::duration_cast<std::chrono::microseconds>(d).count(); };
  auto start = Clock::now();
  auto vocabulary = open_vocabulary(cases.text());
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  const auto read = Clock::now() - start;
  start = Clock::now();
  auto tokenizer = Tokenizer::create(vocabulary->source());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::printf("%zu tokens, read in %ld us, created in %ld us\n", tokenizer->size(), static_cast<long>(us(read)),
              static_cast<long>(us(Clock::now() - start)));
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
    const std::string back = cases.text();
    size_t lost = 0;
    start = Clock::now();
    const std::vector<Token> got =
        tokenizer->encode(text, {(flags & flag_special) != 0, (flags & flag_bos) != 0}, &lost);
    time += us(Clock::now() - start);
    ++count;
    bytes += text.size();
    lossy += lost > 0;
    const bool same = lost > 0 && (flags & flag_exact) == 0 && !replacement.empty()
                          ? without_replacement(got) == without_replacement(expected)
                          : got == expected;
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
    if (lost == 0 && (flags & (flag_bos | flag_one_way)) == 0 && tokenizer->decode(got, true) != back) {
      if (++bad_round_trips <= 5)
        ADD_FAILURE() << "flags " << flags << ": '" << back << "' decodes to '" << tokenizer->decode(got, true) << "'";
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
