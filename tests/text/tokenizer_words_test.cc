// The words that each family of pre-tokenizers makes, against the published regular expressions worked out by hand.
#include <gtest/gtest.h>

#include "text/unicode.h"
#include "text/words.h"

namespace gale::text {
namespace {

// Words joined by '|'.
std::string words(WordRule rule, std::string_view text) {
  const WordScanner scanner(rule, text);
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = scanner.next(begin);
    if (end <= begin || end > text.size()) return "bad end";
    out += (begin > 0 ? "|" : "") + std::string(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

TEST(TokenizerWords, Gpt2) {
  const auto w = [](std::string_view t) { return words(WordRule::gpt2, t); };
  EXPECT_EQ(w("Hello world, it's 12345!"), "Hello| world|,| it|'s| 12345|!");
  EXPECT_EQ(w("IT'S they'll"), "IT|'|S| they|'ll");
  EXPECT_EQ(w("a   b  "), "a|  | b|  ");
  EXPECT_EQ(w("a\n\n b"), "a|\n\n| b");
  EXPECT_EQ(w("->x"), "->|x");
  EXPECT_EQ(w("\xC2\xA0\xC2\xA0x"), "\xC2\xA0|\xC2\xA0|x");
}

TEST(TokenizerWords, DigitsAlone) {
  const auto w = [](std::string_view t) { return words(WordRule::digits_gpt2, t); };
  EXPECT_EQ(w("a 123b"), "a| |1|2|3|b");
  EXPECT_EQ(w("a  1"), "a|  |1");  // the digit ends the piece: nothing follows the spaces
  EXPECT_EQ(w("a  b"), "a| | b");
  EXPECT_EQ(w("\xD9\xA1\xC2\xBD"), "\xD9\xA1|\xC2\xBD");
}

TEST(TokenizerWords, Llama3AndQwen) {
  const auto llama = [](std::string_view t) { return words(WordRule::llama3, t); };
  const auto qwen = [](std::string_view t) { return words(WordRule::qwen2, t); };
  EXPECT_EQ(llama("1234567"), "123|456|7");
  EXPECT_EQ(qwen("1234567"), "1|2|3|4|5|6|7");
  EXPECT_EQ(qwen("->"), "->");
  EXPECT_EQ(qwen("(x):\n"), "(x|):\n");
  EXPECT_EQ(llama("It'S  a\r\n\r\n  b"), "It|'S| | a|\r\n\r\n| | b");
  EXPECT_EQ(llama("a \n \n  b"), "a| \n \n| | b");
  EXPECT_EQ(llama("x  "), "x|  ");
  EXPECT_EQ(llama(" !\n\nx"), " !\n\n|x");
  EXPECT_EQ(llama("\nabc"), "\n|abc");
  EXPECT_EQ(llama("\tabc"), "\tabc");
}

TEST(TokenizerWords, MarksBelongToLettersInQwen35) {
  const std::string accent = "\xCC\x81";  // U+0301
  EXPECT_EQ(words(WordRule::qwen2, "e" + accent + "x"), "e|" + accent + "x");
  EXPECT_EQ(words(WordRule::qwen35, "e" + accent + "x"), "e" + accent + "x");
  EXPECT_EQ(words(WordRule::qwen35, "!" + accent), "!" + accent);
  EXPECT_EQ(words(WordRule::qwen35, "!!" + accent), "!!|" + accent);
}

TEST(TokenizerWords, Gpt4oCutsAtCase) {
  const auto w = [](std::string_view t) { return words(WordRule::gpt4o, t); };
  EXPECT_EQ(w("helloWorld HTMLParser's"), "hello|World| HTMLParser's");
  EXPECT_EQ(w("ABCdef"), "ABCdef");
  EXPECT_EQ(w("ABC def"), "ABC| def");
  EXPECT_EQ(w("\xE6\x97\xA5\xE6\x9C\xAC"
              "ABC"),
            "\xE6\x97\xA5\xE6\x9C\xAC|ABC");
  EXPECT_EQ(w("\xC3\x89t\xC3\xA9\xC3\x89"), "\xC3\x89t\xC3\xA9|\xC3\x89");  // case of letters beyond ASCII too
  EXPECT_EQ(w("1234"), "123|4");
  EXPECT_EQ(w("a/b//\n/"), "a|/b|//\n/");
  EXPECT_EQ(words(WordRule::tekken, "it's 12"), "it|'s| |1|2");
  EXPECT_EQ(w("it's"), "it's");
}

TEST(TokenizerWords, DeepSeek) {
  const auto w = [](std::string_view t) { return words(WordRule::deepseek3, t); };
  EXPECT_EQ(w("a12345b"), "a|123|45|b");
  EXPECT_EQ(w("x 1"), "x| |1");
  EXPECT_EQ(w("\xE6\x97\xA5\xE3\x81\x82"
              "ab"),
            "\xE6\x97\xA5\xE3\x81\x82|ab");
  EXPECT_EQ(w(".abc1"), ".abc|1");
  EXPECT_EQ(w("..abc"), "..|abc");
  EXPECT_EQ(w("a\x01\x02 b"), "a|\x01\x02| b");
}

TEST(TokenizerWords, Default) {
  const auto w = [](std::string_view t) { return words(WordRule::fallback, t); };
  EXPECT_EQ(w("a 1234567"), "a| |123|456|7");
  EXPECT_EQ(w("1\xC2\xB2"
              "345"),
            "1\xC2\xB2|345");
  EXPECT_EQ(w("it's a+b"), "it|'|s| a|+|b");
  EXPECT_EQ(w("x  ,"), "x|  |,");
}

TEST(TokenizerWords, AllRulesEndOnAllText) {
  std::string text;
  for (uint32_t p = 0; p < 0x110000; p += p < 0x3000 ? 1 : 97) append_utf8(text, p);
  for (int rule = 0; rule <= static_cast<int>(WordRule::fallback); ++rule) {
    const WordScanner scanner(static_cast<WordRule>(rule), text);
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t end = scanner.next(begin);
      ASSERT_GT(end, begin);
      ASSERT_LE(end, text.size());
      const uint8_t next = end < text.size() ? static_cast<uint8_t>(text[end]) : uint8_t{0};
      ASSERT_NE(next & 0xC0, 0x80) << "inside a character";
      begin = end;
    }
    // One huge word of each kind: no recursion, no rescanning.
    for (const char c : {'A', ' ', '\n', '!', '7', '\x01'}) {
      const std::string run(1000000, c);
      EXPECT_GT(WordScanner(static_cast<WordRule>(rule), run).next(0), 0u);
    }
  }
}

TEST(TokenizerWords, Names) {
  EXPECT_EQ(find_pre_tokenizer("nonsense"), nullptr);
  EXPECT_EQ(find_pre_tokenizer(""), nullptr);
  for (const char* name :
       {"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-v3", "default", "starcoder",
        "dbrx", "glm4", "llama4", "stablelm2", "hunyuan-dense", "minerva-7b"}) {
    EXPECT_NE(find_pre_tokenizer(name), nullptr) << name;
  }
  EXPECT_TRUE(find_pre_tokenizer("tekken")->whole_words);
  EXPECT_TRUE(find_pre_tokenizer("lfm2")->adds_bos);
  EXPECT_FALSE(find_pre_tokenizer("dbrx")->whole_words);
  EXPECT_FALSE(find_pre_tokenizer("glm4")->has_bos);
}

TEST(TokenizerWords, CharacterClasses) {
  const CharTable& t = CharTable::instance();
  EXPECT_EQ(t.mask('a'), mask_of(CharClass::lower));
  EXPECT_EQ(t.mask('Z'), mask_of(CharClass::upper));
  EXPECT_EQ(t.mask(0x01C5), mask_of(CharClass::title));
  EXPECT_EQ(t.mask(0x02B0), mask_of(CharClass::modifier));
  EXPECT_EQ(t.mask(0x4E00), mask_of(CharClass::other_letter));
  EXPECT_EQ(t.mask(0x0301), mask_mark);
  EXPECT_EQ(t.mask(0x00BD), mask_number);
  EXPECT_EQ(t.mask('_'), mask_punctuation);
  EXPECT_EQ(t.mask('$'), mask_symbol);
  EXPECT_EQ(t.mask(0x85), mask_space);
  EXPECT_EQ(t.mask(0x3000), mask_space);
  EXPECT_EQ(t.mask(0x200B), mask_other);
  EXPECT_EQ(t.mask(0x20000), mask_of(CharClass::other_letter));  // searched, not unpacked
  EXPECT_EQ(t.mask(0xE0100), mask_mark);
  EXPECT_EQ(t.mask(0x10FFFF), mask_other);
  EXPECT_EQ(t.mask(0xFFFFFFFF), mask_other);
}

}  // namespace
}  // namespace gale::text
