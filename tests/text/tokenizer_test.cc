// Encoding and decoding with small vocabularies made here: merges, special tokens, lost bytes, defaults, errors.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/log.h"
#include "text/byte_vocabulary.h"

namespace gale::text {
namespace {

using Tokens = std::vector<Token>;

Tokenizer make(TestVocabulary& vocabulary) {
  auto made = Tokenizer::create(vocabulary.source());
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

// What create says about a bad vocabulary; empty if it is taken.
std::string error_of(TestVocabulary vocabulary) {
  auto made = Tokenizer::create(vocabulary.source());
  return made ? std::string() : made.error().message;
}

// Byte-pair encoding as its definition says: again and again the pair of lowest rank, leftmost first.
Tokens merge_slowly(const TestVocabulary& vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
                    std::string_view word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t m = 0; m < best; ++m) {
        if (merges[m].first == parts[i] && merges[m].second == parts[i + 1]) {
          best = m;
          at = i;
        }
      }
    }
    if (best == merges.size()) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  Tokens out;
  for (const std::string& p : parts) {
    const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), byte_characters(p));
    out.push_back(static_cast<Token>(found - vocabulary.tokens.begin()));
  }
  return out;
}

TEST(Tokenizer, MergesAsTheDefinitionSays) {
  // Overlapping merges over two letters; "b ab" makes a token that "ba b" would make too.
  const std::vector<std::pair<std::string, std::string>> merges = {{"a", "b"},   {"a", "a"},    {"b", "b"},
                                                                   {"aa", "a"},  {"ab", "ab"},  {"b", "ab"},
                                                                   {"aa", "aa"}, {"abab", "a"}, {"bb", "a"}};
  TestVocabulary v = byte_vocabulary(merges);
  const Tokenizer t = make(v);
  std::mt19937 random(1);
  for (size_t length = 1; length <= 70; ++length) {  // short words and long ones take different ways
    for (int n = 0; n < 20; ++n) {
      std::string word;
      for (size_t i = 0; i < length; ++i) word += random() % 2 == 0 ? 'a' : 'b';
      EXPECT_EQ(t.encode(word), merge_slowly(v, merges, word)) << word;
      EXPECT_EQ(t.decode(t.encode(word)), word);
    }
  }
}

TEST(Tokenizer, WordThatMergesDontReachIsNotLookedUp) {
  TestVocabulary v = byte_vocabulary({{"a", "b"}, {"b", "c"}, {"x", "y"}});
  const Token abc = v.add("abc");
  EXPECT_EQ(make(v).encode("abc"), (Tokens{256, 'c'}));
  EXPECT_EQ(make(v).encode("abc abc"), (Tokens{256, 'c', ' ', 256, 'c'}));
  v.pre = "llama-bpe";
  EXPECT_EQ(make(v).encode("abc"), Tokens{abc});
  v.pre = "dbrx";  // the same words, but merges are asked
  EXPECT_EQ(make(v).encode("abc"), (Tokens{256, 'c'}));
}

TEST(Tokenizer, LongRunsEndSoonAndRight) {
  TestVocabulary v = byte_vocabulary({{"x", "x"}, {"xx", "xx"}, {"_", "_"}, {" ", " "}});
  const Tokenizer t = make(v);
  EXPECT_EQ(t.encode(std::string(1000000, 'x')).size(), 250000u);
  EXPECT_EQ(t.encode(std::string(524289, 'x')).size(), 131073u);
  EXPECT_EQ(t.encode(std::string(50000, '_')).size(), 25000u);
  EXPECT_EQ(t.encode(std::string(100000, ' ')).size(), 50000u);
  std::string han;
  for (int i = 0; i < 14000; ++i) append_utf8(han, static_cast<uint32_t>(0x4E00 + i));
  EXPECT_EQ(t.decode(t.encode(han)), han);
}

TEST(Tokenizer, ControlTokensNeedSpecial) {
  TestVocabulary v = byte_vocabulary();
  const Token end = v.add("<|im_end|>", TokenKind::control);
  const Token think = v.add("</think>", TokenKind::user_defined);
  const Tokenizer t = make(v);
  EXPECT_EQ(t.encode("A<|im_end|>B").size(), 12u);
  EXPECT_EQ(t.encode("A<|im_end|>B", {.special = true}), (Tokens{'A', end, 'B'}));
  EXPECT_EQ(t.encode("a</think>b"), (Tokens{'a', think, 'b'}));
  EXPECT_EQ(t.decode(Tokens{'A', end, think, 'B'}), "A</think>B");
  EXPECT_EQ(t.decode(Tokens{'A', end, think, 'B'}, true), "A<|im_end|></think>B");
  EXPECT_EQ(t.find("<|im_end|>"), end);
  EXPECT_EQ(t.find("</think>"), think);
  EXPECT_EQ(t.find(byte_character(' ')), ' ');
  EXPECT_EQ(t.find("nothing"), -1);
  EXPECT_EQ(t.find(""), -1);
}

TEST(Tokenizer, OnlyTheProgramsPartsHoldControlTokens) {
  TestVocabulary v = byte_vocabulary({{"a", "b"}});
  const Token end = v.add("<end>", TokenKind::control);
  const Tokenizer t = make(v);
  const auto encode = [&](std::vector<PromptPart> parts) { return t.encode(parts, {.special = true}); };
  const Tokens plain = t.encode("<end>");
  EXPECT_EQ(encode({{"<end>", true}}), Tokens{end});
  EXPECT_EQ(encode({{"<end>", false}}), plain);
  // Put together from both: not the template's token.
  EXPECT_EQ(encode({{"<e", true}, {"nd>", false}}), plain);
  EXPECT_EQ(encode({{"<end", false}, {">", true}}), plain);
  // Written by the template in two parts: one token; an empty message between changes nothing.
  EXPECT_EQ(encode({{"<e", true}, {"", false}, {"nd>", true}}), Tokens{end});
  // Ordinary tokens form across borders.
  EXPECT_EQ(encode({{"a", true}, {"b", false}}), t.encode("ab"));
  EXPECT_EQ(t.encode("ab").size(), 1u);
  Tokens mixed{end};
  mixed.insert(mixed.end(), plain.begin(), plain.end());
  mixed.push_back(end);
  EXPECT_EQ(encode({{"<end>", true}, {"<end>", false}, {"<end>", true}}), mixed);
}

TEST(Tokenizer, PlainTextNeverBecomesAControlToken) {
  TestVocabulary v = byte_vocabulary({{"<", "|"}});
  v.merges.push_back("<| >");
  v.add("<|>", TokenKind::control);
  EXPECT_EQ(make(v).encode("<|>"), (Tokens{256, '>'}));
  v.pre = "llama-bpe";  // looks up whole words
  EXPECT_EQ(make(v).encode("<|>"), (Tokens{256, '>'}));
  TestVocabulary p = piece_vocabulary({{"<", -1}, {"s", -1}, {">", -1}, {"<s", -2}, {"/", -1}});
  p.extra.add_space_prefix = false;
  EXPECT_EQ(make(p).encode("<s>"), (Tokens{262, 261}));
  EXPECT_EQ(make(p).encode("<s>", {.special = true}), Tokens{1});
}

TEST(Tokenizer, LongestSpecialTokenFirst) {
  TestVocabulary v = byte_vocabulary();
  const Token two = v.add("aa", TokenKind::user_defined);
  const Token three = v.add("aaa", TokenKind::user_defined);
  const Token mixed = v.add("baaa", TokenKind::user_defined);
  const Token one = v.add("~", TokenKind::user_defined);
  const Tokenizer t = make(v);
  EXPECT_EQ(t.encode("aaaaaaa"), (Tokens{three, three, 'a'}));
  EXPECT_EQ(t.encode("aaaaa"), (Tokens{three, two}));
  EXPECT_EQ(t.encode("abaaaaa"), (Tokens{'a', mixed, two}));  // not "aaa" first: "baaa" is longer
  EXPECT_EQ(t.encode("aaabaaa"), (Tokens{three, mixed}));
  EXPECT_EQ(t.encode("~a~"), (Tokens{one, 'a', one}));
  EXPECT_EQ(t.encode("~"), Tokens{one});
}

TEST(Tokenizer, ManyLengthsOfSpecialTokens) {
  // More distinct lengths than bits in a mask.
  TestVocabulary v = byte_vocabulary();
  for (size_t n = 1; n <= 100; ++n) v.add(std::string(n, '#'), TokenKind::user_defined);
  const Tokenizer t = make(v);
  for (const size_t n : {1, 2, 36, 37, 38, 63, 64, 65, 99, 100}) {
    EXPECT_EQ(t.encode(std::string(n, '#')), Tokens{static_cast<Token>(255 + n)});
    EXPECT_EQ(t.encode(std::string(100 + n, '#')), (Tokens{355, static_cast<Token>(255 + n)}));
  }
}

TEST(Tokenizer, BytesWithoutTokenAreCountedAndReplaced) {
  TestVocabulary v = byte_vocabulary({{"\xEF", "\xBF"}, {"\xEF\xBF", "\xBD"}}, std::string_view("\x04\x16", 2));
  const Tokenizer t = make(v);
  size_t lost = 7;
  EXPECT_EQ(t.encode("a\x04z", {}, &lost), (Tokens{'a', 257, 'z'}));
  EXPECT_EQ(lost, 1u);
  EXPECT_EQ(t.encode("\x16\x04", {}, &lost), (Tokens{257, 257}));
  EXPECT_EQ(lost, 2u);
  EXPECT_EQ(t.encode("ok", {}, &lost).size(), 2u);
  EXPECT_EQ(lost, 0u);
  // A vocabulary that can't spell U+FFFD either: dropped, but counted.
  TestVocabulary poor = byte_vocabulary({}, std::string_view("\x04\xEF", 2));
  EXPECT_EQ(make(poor).encode("a\x04z", {}, &lost), (Tokens{'a', 'z'}));
  EXPECT_EQ(lost, 1u);
}

TEST(Tokenizer, BrokenUtf8) {
  TestVocabulary v = byte_vocabulary();
  const Tokenizer t = make(v);
  const std::string fffd = "\xEF\xBF\xBD";
  const auto through = [&](std::string_view text, size_t expected_lost) {
    size_t lost = 0;
    std::string out = t.decode(t.encode(text, {}, &lost));
    EXPECT_EQ(lost, expected_lost) << out;
    return out;
  };
  EXPECT_EQ(through("\xE6\xAD", 2), fffd + fffd);
  EXPECT_EQ(through("\xFF\xFE", 2), fffd + fffd);
  EXPECT_EQ(through("\xF5\xF8", 2), fffd + fffd);
  EXPECT_EQ(through("abcdefgh\x80z", 1), "abcdefgh" + fffd + "z");
  EXPECT_EQ(through("\xF0\x9F\x98", 3), fffd + fffd + fffd);
  EXPECT_EQ(through("\xF4\x90\x80\x80", 4), fffd + fffd + fffd + fffd);  // above U+10FFFF
  EXPECT_EQ(through("\xED\xA0\x80", 0), "\xED\xA0\x80");                 // surrogates pass
  EXPECT_EQ(through("\xC1\xA1", 2), "a");                                // over-long forms become the shortest
  EXPECT_EQ(through("\xE2\x82\xAC\xF0\x9F\x98\x80", 0), "\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(through(std::string_view("\0a\0", 3), 0), std::string("\0a\0", 3));
}

TEST(Tokenizer, BosAndEos) {
  TestVocabulary v = byte_vocabulary();
  const Token bos = v.add("<bos>", TokenKind::control);
  const Token eos = v.add("<|endoftext|>", TokenKind::control);
  v.extra.bos = bos;
  v.extra.eos = eos;
  EXPECT_FALSE(make(v).adds_bos());
  EXPECT_EQ(make(v).encode("a", {.add_bos_eos = true}), Tokens{'a'});
  v.pre = "llama-bpe";
  EXPECT_TRUE(make(v).adds_bos());
  EXPECT_EQ(make(v).encode("a", {.add_bos_eos = true}), (Tokens{bos, 'a'}));
  EXPECT_EQ(make(v).encode("", {.add_bos_eos = true}), Tokens{bos});
  v.extra.add_eos = true;
  EXPECT_EQ(make(v).encode("a", {.add_bos_eos = true}), (Tokens{bos, 'a', eos}));
  EXPECT_EQ(make(v).encode("<bos>a<|endoftext|>", {.special = true, .add_bos_eos = true}), (Tokens{bos, 'a', eos}));
  EXPECT_EQ(make(v).encode("<bos>", {.add_bos_eos = true}).size(), 7u);  // plain text, and both tokens
  v.extra.add_bos = false;
  EXPECT_EQ(make(v).encode("a", {.add_bos_eos = true}), (Tokens{'a', eos}));
  v.pre = "glm4";
  v.extra.add_bos = true;
  EXPECT_EQ(make(v).bos(), -1);
  EXPECT_FALSE(make(v).adds_bos());
}

TEST(Tokenizer, SpecialIdsOutOfRangeAreIgnored) {
  TestVocabulary v = byte_vocabulary();
  v.extra.bos = 256;
  v.extra.eos = -1;
  v.extra.eot = int64_t{1} << 40;
  v.extra.add_bos = true;
  const Tokenizer t = make(v);
  EXPECT_EQ(t.bos(), -1);  // the standard id, 11, is an ordinary token here
  EXPECT_EQ(t.eos(), -1);
  EXPECT_FALSE(t.adds_bos());
  EXPECT_TRUE(t.end_tokens().empty());
  EXPECT_EQ(t.piece(-1), "");
  EXPECT_EQ(t.piece(256), "");
  EXPECT_EQ(t.kind(256), TokenKind::unknown);
}

TEST(Tokenizer, EndTokensByIdAndByText) {
  TestVocabulary v = byte_vocabulary();
  const Token eos = v.add("stop", TokenKind::normal);
  const Token eot = v.add("turn", TokenKind::normal);
  const Token im_end = v.add("<|im_end|>", TokenKind::control);
  const Token marked_wrong = v.add("<end_of_turn>", TokenKind::normal);
  const Token start = v.add("<|im_start|>", TokenKind::control);
  v.extra.eos = eos;
  v.extra.eot = eot;
  const Token listed = v.add("also", TokenKind::normal);
  const std::vector<int64_t> list{eos, listed, -1, 1000000};  // what is no token is not counted
  v.extra.more_eos = list;
  const Tokenizer t = make(v);
  EXPECT_EQ(t.end_tokens(), (Tokens{eos, eot, im_end, marked_wrong, listed}));
  EXPECT_TRUE(t.ends_turn(im_end));
  EXPECT_FALSE(t.ends_turn(start));
  EXPECT_FALSE(t.ends_turn('a'));
  EXPECT_EQ(t.kind(marked_wrong), TokenKind::control);
  EXPECT_EQ(t.encode("<end_of_turn>").size(), 13u);
}

TEST(Tokenizer, HarmonyEndClosesAChannelOnly) {
  TestVocabulary v = byte_vocabulary();
  const Token end = v.add("<|end|>", TokenKind::control);
  const Token ret = v.add("<|return|>", TokenKind::control);
  EXPECT_EQ(make(v).end_tokens(), (Tokens{end, ret}));
  const Token call = v.add("<|call|>", TokenKind::control);
  const Token channel = v.add("<|channel|>", TokenKind::control);
  const Tokenizer t = make(v);
  EXPECT_EQ(t.end_tokens(), (Tokens{ret, call}));
  EXPECT_EQ(t.piece(end), "<|end|>");
  EXPECT_EQ(t.piece(channel), "<|channel|>");
  EXPECT_EQ(t.piece(ret), "");
  EXPECT_EQ(t.encode("<|channel|>").size(), 11u);  // shown, yet not made by plain text
}

TEST(Tokenizer, StrikeTagIsNoEnd) {
  TestVocabulary v = piece_vocabulary({});
  EXPECT_EQ(make(v).end_tokens(), Tokens{2});
  v.kinds[2] = static_cast<int64_t>(TokenKind::user_defined);
  v.extra.eos = 1;
  EXPECT_EQ(make(v).end_tokens(), Tokens{1});
  v.kinds[2] = static_cast<int64_t>(TokenKind::control);
  const Token response = v.add("<|tool_response>", TokenKind::control);
  EXPECT_EQ(make(v).end_tokens(), (Tokens{1, response}));
}

TEST(Tokenizer, BadVocabulariesAreNamed) {
  TestVocabulary v = byte_vocabulary({{"a", "b"}});
  v.pre = "made-up";
  EXPECT_NE(error_of(v).find("'made-up'"), std::string::npos);
  v.pre = "gpt-2";
  v.model = "rwkv";
  EXPECT_NE(error_of(v).find("'rwkv'"), std::string::npos);
  v.model = "gpt2";
  EXPECT_EQ(error_of(v), "");
  v.kinds.pop_back();
  EXPECT_NE(error_of(v).find("token_type"), std::string::npos);
  v.kinds.clear();
  EXPECT_EQ(error_of(v), "");
  for (const char* merge : {"nospace", "", "a \xC4\xA0\xC4\xA0", "zz a", "a c", " x", "\xE6\xAD\xA9 a"}) {
    v.merges[0] = merge;
    EXPECT_NE(error_of(v).find("merges[0]"), std::string::npos) << merge;
  }
  TestVocabulary p = piece_vocabulary({{"a", 0}});
  p.scores.pop_back();
  EXPECT_NE(error_of(p).find("scores"), std::string::npos);
  p.scores.push_back(std::nanf(""));
  EXPECT_NE(error_of(p).find("scores[259]"), std::string::npos);
  TestVocabulary none;
  EXPECT_NE(error_of(none).find("empty"), std::string::npos);
}

std::vector<std::string>& warnings() {
  static std::vector<std::string> list;
  return list;
}

TEST(Tokenizer, MissingPreTokenizerIsUsedWithAWarning) {
  set_log(LogLevel::warning, [](LogLevel, std::string_view message) { warnings().emplace_back(message); });
  TestVocabulary v = byte_vocabulary();
  for (const char* pre : {"", "default", "gpt-2"}) {
    warnings().clear();
    v.pre = pre;
    EXPECT_EQ(make(v).encode("ab"), (Tokens{'a', 'b'}));
    EXPECT_EQ(warnings().size(), std::string_view(pre) == "gpt-2" ? 0u : 1u) << pre;
  }
  set_log(LogLevel::off, nullptr);
}

TEST(Tokenizer, SentencePieceMergesByScore) {
  // "ab" is better than "bc", so "abc" is ab + c although "abc" could be made from a + bc.
  TestVocabulary v = piece_vocabulary({{"a", -9}, {"b", -9}, {"c", -9}, {"bc", -3}, {"ab", -2}, {"abc", -1}});
  v.extra.add_space_prefix = false;
  Tokenizer t = make(v);
  EXPECT_EQ(t.encode("abc"), Tokens{264});  // ab first, then abc
  v.tokens[264] = "zzz";
  EXPECT_EQ(make(v).encode("abc"), (Tokens{263, 261}));
  std::swap(v.scores[262], v.scores[263]);
  EXPECT_EQ(make(v).encode("abc"), (Tokens{259, 262}));
}

TEST(Tokenizer, SentencePieceTiesGoLeft) {
  TestVocabulary v = piece_vocabulary({{"a", 0}, {"aa", -1}});
  v.extra.add_space_prefix = false;
  const Tokenizer t = make(v);
  for (const size_t n : {1, 2, 3, 23, 24, 25, 26, 51, 101}) {
    Tokens expected(n / 2, 260);
    if (n % 2 == 1) expected.push_back(259);
    EXPECT_EQ(t.encode(std::string(n, 'a')), expected) << n;
  }
}

TEST(Tokenizer, SentencePieceSpacesAndBytes) {
  const std::string mark = "\xE2\x96\x81";
  TestVocabulary v = piece_vocabulary({{mark, -5}, {mark + "a", -1}, {"a", -5}, {"b", -5}, {mark + mark, -4}});
  const Tokenizer t = make(v);
  const auto newline = static_cast<Token>(3 + '\n');
  EXPECT_EQ(t.encode("a"), Tokens{260});
  EXPECT_EQ(t.encode(" a"), (Tokens{259, 260}));
  EXPECT_EQ(t.encode("a a"), (Tokens{260, 260}));
  EXPECT_EQ(t.encode("a\n"), (Tokens{260, newline}));
  EXPECT_EQ(t.encode(""), Tokens{});
  EXPECT_EQ(t.encode("", {.add_bos_eos = true}), Tokens{1});
  EXPECT_EQ(t.encode("a", {.add_bos_eos = true}), (Tokens{1, 260}));
  EXPECT_EQ(t.encode("\xE6\xAD"), (Tokens{259, 3 + 0xE6, 3 + 0xAD}));
  EXPECT_EQ(t.decode(t.encode("a\n")), "a\n");
  EXPECT_EQ(t.decode(t.encode("  a b ")), "  a b ");
  EXPECT_EQ(t.piece(260), " a");
  EXPECT_EQ(t.piece(newline), "\n");
  EXPECT_EQ(t.piece(1), "");
  EXPECT_EQ(t.piece(1, true), "<s>");
  EXPECT_EQ(t.decode(Tokens{1, 260}), "a");
  EXPECT_EQ(t.decode(Tokens{1, 260}, true), "<s>a");
  v.extra.add_space_prefix = false;
  EXPECT_EQ(make(v).encode("a"), Tokens{261});
  EXPECT_EQ(make(v).decode(Tokens{260}), " a");
}

TEST(Tokenizer, SentencePieceUserDefinedPiecesAreLiteral) {
  const std::string mark = "\xE2\x96\x81";
  TestVocabulary v = piece_vocabulary({{mark, -5}, {mark + "b", -1}, {"a", -5}, {"b", -5}});
  v.extra.add_space_prefix = false;
  const Token two = v.add("  ", TokenKind::user_defined);
  const Token four = v.add("    ", TokenKind::user_defined);
  const Token code = v.add("<code>", TokenKind::user_defined);
  const Tokenizer t = make(v);
  EXPECT_EQ(t.encode("a  b    a b"), (Tokens{261, two, 262, four, 261, 260}));
  EXPECT_EQ(t.encode("<code>a"), (Tokens{code, 261}));
  EXPECT_EQ(t.decode(Tokens{two, code}), "  <code>");
}

TEST(Tokenizer, SentencePieceLosses) {
  TestVocabulary v = piece_vocabulary({{"\xE2\x96\x81", 0}, {"a", 0}});
  v.extra.add_space_prefix = false;
  size_t lost = 0;
  EXPECT_EQ(make(v).encode("\xE2\x96\x81", {}, &lost), Tokens{259});  // can't be told from a space
  EXPECT_EQ(lost, 3u);
  EXPECT_EQ(make(v).encode("\xE3 a", {}, &lost).back(), 260);  // the broken character takes the space along
  EXPECT_EQ(lost, 1u);
  v.tokens[3 + 'z'] = "other";
  v.kinds[3 + 'z'] = static_cast<int64_t>(TokenKind::unused);
  EXPECT_EQ(make(v).encode("aza", {}, &lost), (Tokens{260, 0, 260}));
  EXPECT_EQ(lost, 1u);
}

// Pieces that go on behind a space forbid the shortcut of cutting before each space.
TEST(Tokenizer, SentencePiecesAcrossSpaces) {
  const std::string mark = "\xE2\x96\x81";
  TestVocabulary v = piece_vocabulary({{mark, -9}, {"a", -9}, {"b", -9}, {mark + "b", -2}, {"a" + mark, -1}});
  v.extra.add_space_prefix = false;
  EXPECT_EQ(make(v).encode("a b"), (Tokens{263, 261}));
  EXPECT_EQ(make(v).encode("b b"), (Tokens{261, 262}));
}

}  // namespace
}  // namespace gale::text
