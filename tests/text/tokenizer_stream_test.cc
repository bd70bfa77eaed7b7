// Text that appears token by token: whole characters only, stop strings across borders.
#include <gtest/gtest.h>

#include "text/byte_vocabulary.h"

namespace gale::text {
namespace {

TEST(TokenizerStream, NeverHalfACharacter) {
  TestVocabulary v = byte_vocabulary();
  auto tokenizer = Tokenizer::create(v.source());
  ASSERT_TRUE(tokenizer);
  StreamingDetokenizer stream(*tokenizer);
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
  std::vector<std::string> steps;
  for (const char c : text) steps.push_back(stream.push(static_cast<uint8_t>(c)));
  EXPECT_EQ(steps, (std::vector<std::string>{"a", "", "\xC3\xA9", "", "", "\xE2\x82\xAC", "", "", "",
                                             "\xF0\x9F\x98\x80", "z"}));
  EXPECT_EQ(stream.finish(), "");
}

TEST(TokenizerStream, BrokenBytesBecomeReplacementCharacters) {
  TestVocabulary v = byte_vocabulary();
  auto tokenizer = Tokenizer::create(v.source());
  ASSERT_TRUE(tokenizer);
  const std::string fffd = "\xEF\xBF\xBD";
  const auto through = [&](std::string_view bytes) {
    StreamingDetokenizer stream(*tokenizer);
    std::string out;
    for (const char c : bytes) out += stream.push(static_cast<uint8_t>(c));
    return out + stream.finish();
  };
  EXPECT_EQ(through("\xFFz"), fffd + "z");
  EXPECT_EQ(through("\xE2\x82z"), fffd + "z");
  EXPECT_EQ(through("\xE2\x82"), fffd);
  EXPECT_EQ(through("\xF0\x9F\x98"), fffd);
  EXPECT_EQ(through("\xED\xA0\x80"), fffd + fffd + fffd);
  EXPECT_EQ(through("\xC0\x80"), fffd + fffd);
  EXPECT_EQ(through("\xF4\x90\x80\x80"), fffd + fffd + fffd + fffd);
  EXPECT_EQ(through("\xE2\xE2\x82\xAC"), fffd + "\xE2\x82\xAC");
  EXPECT_EQ(through("\xC3\xC3\xA9"), fffd + "\xC3\xA9");
}

TEST(TokenizerStream, FirstSpaceOfSentencePiece) {
  TestVocabulary v = piece_vocabulary({{"\xE2\x96\x81hi", 0}, {"\xE2\x96\x81you", 0}});
  auto tokenizer = Tokenizer::create(v.source());
  ASSERT_TRUE(tokenizer);
  StreamingDetokenizer fresh(*tokenizer);
  EXPECT_EQ(fresh.push(1), "");
  EXPECT_EQ(fresh.push(259), "hi");
  EXPECT_EQ(fresh.push(260), " you");
  EXPECT_EQ(fresh.push(2), "");
  StreamingDetokenizer more(*tokenizer, true);
  EXPECT_EQ(more.push(259), " hi");
}

// Everything that is shown when `text` comes in pieces of `step` bytes.
std::string shown(const std::vector<std::string>& stops, std::string_view text, size_t step, bool* stopped = nullptr) {
  StopStrings watch(stops);
  std::string out;
  for (size_t i = 0; i < text.size(); i += step) out += watch.push(text.substr(i, step));
  out += watch.finish();
  if (stopped != nullptr) *stopped = watch.stopped();
  return out;
}

TEST(StopStrings, SameWhereverTheTextIsCut) {
  struct Case {
    std::vector<std::string> stops;
    std::string text, expected;
    bool stopped;
  };
  const Case cases[] = {
      {{"STOP"}, "one STOP two", "one ", true},
      {{"STOP"}, "one STO two", "one STO two", false},
      {{"STOP"}, "STSTOP", "ST", true},
      {{"STOP"}, "ends with STO", "ends with STO", false},
      {{"aab"}, "aaaaab", "aaa", true},
      {{"\n\n", "User:"}, "hi\nUser: x", "hi\n", true},
      {{"\n\n", "User:"}, "hi\n\nUser: x", "hi", true},
      {{"abcd", "bc"}, "xabcd", "xa", true},  // complete first
      {{"abc", "bc"}, "xabcd", "x", true},    // complete at the same place: the longer
      {{"", "x"}, "ab", "ab", false},
      {{}, "ab", "ab", false},
      {{"\xE2\x82\xAC"}, "1\xE2\x82\xAC", "1", true},
  };
  for (const Case& c : cases) {
    for (size_t step = 1; step <= c.text.size(); ++step) {
      bool stopped = false;
      EXPECT_EQ(shown(c.stops, c.text, step, &stopped), c.expected) << c.text << " in steps of " << step;
      EXPECT_EQ(stopped, c.stopped) << c.text << " in steps of " << step;
    }
  }
}

TEST(StopStrings, HoldsBackOnlyWhatMayBeAStop) {
  StopStrings watch({"<end>", "###"});
  EXPECT_EQ(watch.push("hello <"), "hello ");
  EXPECT_EQ(watch.push("b> #"), "<b> ");
  EXPECT_EQ(watch.push("#"), "");
  EXPECT_EQ(watch.push("x<en"), "##x");
  EXPECT_EQ(watch.push("d"), "");
  EXPECT_FALSE(watch.stopped());
  EXPECT_EQ(watch.push("> more"), "");
  EXPECT_TRUE(watch.stopped());
  EXPECT_EQ(watch.push("more"), "");
  EXPECT_EQ(watch.finish(), "");
}

}  // namespace
}  // namespace gale::text
