// Cutting text into words that can be looked up, and copying the tokens of words that came up before, change nothing.
#include <gtest/gtest.h>

#include <random>

#include "text/byte_vocabulary.h"

namespace gale::text {
namespace {

using Tokens = std::vector<Token>;

// Neighbours whose union has the best score, again and again, leftmost first: over the whole text.
Tokens merge_slowly(const TestVocabulary& vocabulary, std::string text) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < text.size();) {
    const bool space = text[i] == ' ';
    parts.push_back(space ? "\u2581" : text.substr(i, 1));
    ++i;
  }
  const auto token_of = [&](const std::string& part) {
    const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), part);
    return found == vocabulary.tokens.end() ? -1 : static_cast<Token>(found - vocabulary.tokens.begin());
  };
  for (;;) {
    size_t at = 0;
    float best = -1e9f;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const Token t = token_of(parts[i] + parts[i + 1]);
      if (t < 0 || vocabulary.scores[static_cast<size_t>(t)] <= best) continue;
      best = vocabulary.scores[static_cast<size_t>(t)];
      at = i;
    }
    if (best == -1e9f) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  Tokens out;
  for (const std::string& part : parts) out.push_back(token_of(part));
  return out;
}

TEST(TokenizerCutting, OverCharactersGivesWhatMergingTheWholeTextGives) {
  const std::string mark = "\u2581";
  TestVocabulary v = piece_vocabulary({{mark, -20},
                                       {"a", -20},
                                       {"b", -20},
                                       {",", -20},
                                       {"\n", -20},
                                       {"ab", -1},
                                       {mark + "a", -2},
                                       {mark + "ab", -3},
                                       {"a" + mark, -4},
                                       {"bb", -5},
                                       {"," + mark, -6},
                                       {"abb", -7},
                                       {mark + mark, -8},
                                       {"b,", -9}});
  v.extra.add_space_prefix = false;
  const auto t = Tokenizer::create(v.source());
  ASSERT_TRUE(t) << t.error().message;
  std::mt19937 random(5);
  for (int n = 0; n < 300; ++n) {
    std::string text;
    for (size_t i = random() % 60; i > 0; --i) text += "aabb ,\n "[random() % 8];
    EXPECT_EQ(t->encode(text), merge_slowly(v, text)) << text;
  }
}

TEST(TokenizerCutting, LongTextsGiveTheTokensOfTheirWords) {
  TestVocabulary v = byte_vocabulary({{"a", "b"}, {"b", "c"}, {" ", "a"}, {"ab", "ab"}, {" a", "b"}});
  v.pre = "gpt-2";
  const auto t = Tokenizer::create(v.source());
  ASSERT_TRUE(t) << t.error().message;
  std::mt19937 random(6);
  std::string text;
  Tokens expected;
  for (int n = 0; n < 20000; ++n) {  // far more than the cache has room for, and many that come again
    std::string word = " ";
    for (size_t i = random() % 7 + 1; i > 0; --i) word += static_cast<char>('a' + random() % 4);
    const Tokens tokens = t->encode(word);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    text += word;
  }
  EXPECT_EQ(t->encode(text), expected);
}

TEST(TokenizerCutting, WhatIsLostIsCountedEachTime) {
  TestVocabulary v = byte_vocabulary({}, "x");
  const auto t = Tokenizer::create(v.source());
  ASSERT_TRUE(t) << t.error().message;
  std::string text;
  for (int n = 0; n < 3000; ++n) text += " axb";
  size_t lost = 0;
  t->encode(text, {}, &lost);
  EXPECT_EQ(lost, 3000u);
}

}  // namespace
}  // namespace gale::text
