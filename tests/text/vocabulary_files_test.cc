// Vocabularies from tiktoken ranks, tekken.json, SentencePiece models and directories; Unigram and Gemma 4.
#include "text/vocabulary_files.h"

#include <gtest/gtest.h>

#include <random>

#include "base/scratch_folder.h"
#include "text/json_document.h"
#include "text/tokenizer_files.h"

namespace gale::text {
namespace {

std::string error_of(const Result<Vocabulary>& vocabulary) {
  return vocabulary ? std::string() : vocabulary.error().message;
}

TEST(Tiktoken, JoinsWhateverIsATokenLowestRankFirst) {
  const Made made = make(read_tiktoken(tiktoken_ranks({"bc", "ab", "abc", "cd"}), {}, WordRule::gpt2));
  EXPECT_EQ(made.encode("abcd"), (Tokens{258, 'd'}));  // "bc" first, then "a" and "bc"
  EXPECT_EQ(made.encode("xbcd"), (Tokens{'x', 256, 'd'}));
  EXPECT_EQ(made.tokenizer->decode(made.encode("abcd\xC3\xA9")), "abcd\xC3\xA9");
}

TEST(Tiktoken, AWordThatIsATokenIsThatToken) {
  // No way leads to "xyz" by joining: neither "xy" nor "yz" is a token.
  EXPECT_EQ(make(read_tiktoken(tiktoken_ranks({"xyz"}), {}, WordRule::gpt2)).encode("xyz"), Tokens{256});
}

TEST(Tiktoken, TokensAreAddedByTheFilesBesideIt) {
  SideFiles beside;
  beside.tokenizer_config = R"({"added_tokens_decoder": {"256": {"content": "<|end|>", "special": true},
      "260": {"content": "<think>", "special": false}}, "eos_token": "<|end|>", "add_bos_token": false})";
  const Made made = make(read_tiktoken(tiktoken_ranks({}), beside, WordRule::llama3));
  EXPECT_EQ(made.tokenizer->size(), 261u);
  EXPECT_EQ(made.special("<|end|>"), Tokens{256});
  EXPECT_EQ(made.encode("<think>"), Tokens{260});
  EXPECT_TRUE(made.tokenizer->ends_turn(256));
  EXPECT_EQ(made.tokenizer->kind(258), TokenKind::unused);
}

TEST(Tiktoken, ErrorsNameTheLine) {
  EXPECT_EQ(error_of(read_tiktoken("YQ== 0\nYg==\n", {}, WordRule::gpt2)),
            "tiktoken ranks, line 2: 'Yg==' is no base64 text, a space and a rank behind it");
  EXPECT_EQ(error_of(read_tiktoken("YQ== 0\nYg== 99999999\n", {}, WordRule::gpt2)),
            "tiktoken ranks, line 2: the rank 99999999 is outside of 0 .. 20006");
  EXPECT_NE(error_of(read_tiktoken("Y 0\n", {}, WordRule::gpt2)).find("line 1"), std::string::npos);
  EXPECT_NE(error_of(read_tiktoken("", {}, WordRule::gpt2)).find("there are none"), std::string::npos);
  EXPECT_NE(error_of(read_tiktoken(tiktoken_ranks({}))).find("are of no vocabulary that is known here"),
            std::string::npos);
}

Json tekken_json() {
  Json vocab = Json::array();
  for (int b = 0; b < 256; ++b) {
    vocab.push_back(
        {{"rank", b}, {"token_bytes", base64(std::string(1, static_cast<char>(b)))}, {"token_str", nullptr}});
  }
  vocab.push_back({{"rank", 256}, {"token_bytes", base64("ab")}, {"token_str", "ab"}});
  vocab.push_back({{"rank", 257}, {"token_bytes", base64("zz")}, {"token_str", "zz"}});  // beyond the vocabulary
  return {{"config",
           {{"pattern", R"(\p{L}+|[^\p{L}]+)"},
            {"num_vocab_tokens", 258},
            {"default_vocab_size", 261},
            {"default_num_special_tokens", 4},
            {"version", "v3"}}},
          {"vocab", vocab}};
}

TEST(Tekken, SpecialTokensComeFirst) {
  const Made made = make(read_tekken(tekken_json().dump()));
  EXPECT_EQ(made.tokenizer->size(), 261u);
  EXPECT_EQ(made.encode("ab1zz"), (Tokens{260, 4 + '1', 4 + 'z', 4 + 'z'}));
  EXPECT_EQ(made.special("<s>[INST]"), (Tokens{1, 3}));
  EXPECT_EQ(made.tokenizer->bos(), 1);
  EXPECT_TRUE(made.tokenizer->adds_bos());
  Json named = tekken_json();
  named["special_tokens"] = Json::array({Json{{"rank", 2}, {"token_str", "[X]"}, {"is_control", true}}});
  EXPECT_EQ(make(read_tekken(named.dump())).special("[X]"), Tokens{2});
  EXPECT_EQ(make(read_tekken(named.dump())).special("<SPECIAL_3>"), Tokens{3});
  named["config"]["default_num_special_tokens"] = 3000000;
  EXPECT_NE(error_of(read_tekken(named.dump())).find("doesn't fit the 258 tokens"), std::string::npos);
  EXPECT_EQ(error_of(read_tekken("{}")), "tekken.json: the key 'config' is missing");
}

const std::string mark = "\u2581";

TEST(SentencePiece, BpeJoinsByScore) {
  const std::string model = sentencepiece_model(
      {{mark, -9}, {"a", -8}, {"b", -7}, {mark + "a", -2}, {"ab", -1}, {mark + "ab", -3}}, 2, Message().number(4, 0));
  const Made made = make(read_sentencepiece(model));
  EXPECT_EQ(made.encode("ab ab"), (Tokens{8, 8}));
  EXPECT_EQ(made.encode("a", {.add_bos_eos = true}), (Tokens{1, 6}));
  EXPECT_EQ(made.tokenizer->decode(made.encode("ab ab")), "ab ab");
  EXPECT_EQ(made.encode("abcc"), (Tokens{8, 0}));  // unknown characters are one token
}

TEST(SentencePiece, OneSpaceBeforeTheTextWhateverStandsFirst) {
  const std::string model = sentencepiece_model(
      {{mark, -9}, {"a", -8}, {mark + "a", -2}, {"[X]", 0, TokenKind::user_defined}}, 2, Message().number(4, 0));
  const Made made = make(read_sentencepiece(model));
  EXPECT_EQ(made.encode("a[X]a"), (Tokens{5, 6, 4}));
  EXPECT_EQ(made.encode("[X]a"), (Tokens{3, 6, 4}));
  EXPECT_EQ(made.special("</s>a"), (Tokens{2, 5}));  // a control token begins a text of its own
}

TEST(SentencePiece, SpacesAndReplacements) {
  const std::vector<Piece> pieces = {{mark, -9}, {"a", -8}, {"b", -8}};
  const Message one = Message().text(2, byte_charsmap({{'A', "a"}, {'\t', " "}, {'X', ""}}));
  const Made made = make(read_sentencepiece(sentencepiece_model(pieces, 2, one)));
  EXPECT_EQ(made.encode("A\tX b"), (Tokens{3, 4, 3, 5}));
  EXPECT_EQ(made.encode("  a   b  "), (Tokens{3, 4, 3, 5}));
  EXPECT_EQ(made.encode("   "), Tokens{});
  const Made kept = make(read_sentencepiece(sentencepiece_model(pieces, 2, Message().number(3, 0).number(4, 0))));
  EXPECT_EQ(kept.encode(" a  b"), (Tokens{3, 4, 3, 3, 5}));
  Message broken = Message().text(2, byte_charsmap({}).substr(0, 100));
  const auto vocabulary = read_sentencepiece(sentencepiece_model(pieces, 2, broken));
  ASSERT_TRUE(vocabulary);
  const auto tokenizer = Tokenizer::create(vocabulary->source());
  ASSERT_FALSE(tokenizer);
  EXPECT_NE(tokenizer.error().message.find("precompiled_charsmap"), std::string::npos);
}

TEST(SentencePiece, ErrorsNameThePlace) {
  const std::string model = sentencepiece_model({{"a", -1}}, 2, {});
  EXPECT_NE(error_of(read_sentencepiece(model.substr(0, model.size() - 1))).find("is the file whole?"),
            std::string::npos);
  EXPECT_EQ(error_of(read_sentencepiece("")), "SentencePiece model: it has no pieces");
  EXPECT_NE(error_of(read_sentencepiece(sentencepiece_model({}, 3, {}))).find("model_type 3"), std::string::npos);
  EXPECT_NE(error_of(read_sentencepiece(sentencepiece_model({}, 2, Message().number(5, 0)))).find("escape_whitespaces"),
            std::string::npos);
  EXPECT_NE(error_of(read_sentencepiece(sentencepiece_model({}, 2, {}, Message().number(41, 77)))).find("is 77"),
            std::string::npos);
}

// All ways to cut `text`, best sum first found.
double best_sum(const std::vector<Piece>& pieces, std::string_view text, double worst) {
  if (text.empty()) return 0;
  double best = worst - 10 + best_sum(pieces, text.substr(1), worst);
  for (const Piece& p : pieces) {
    if (text.starts_with(p.text)) best = std::max(best, p.score + best_sum(pieces, text.substr(p.text.size()), worst));
  }
  return best;
}

TEST(Unigram, FindsTheBestOfAllWays) {
  const std::vector<Piece> pieces = {{"a", -3}, {"b", -4}, {"ab", -5.5}, {"ba", -6}, {"aba", -7}, {"bb", -7.5}};
  const std::string model = sentencepiece_model(pieces, 1, Message().number(3, 0).number(4, 0));
  const Made made = make(read_sentencepiece(model));
  std::mt19937 random(3);
  for (int n = 0; n < 200; ++n) {
    std::string text;
    for (size_t i = random() % 11 + 1; i > 0; --i) text += "abz"[random() % 10 == 0 ? 2 : random() % 2];
    double sum = 0;
    size_t unknown = 0;  // characters
    for (const Token t : made.encode(text)) sum += t == 0 ? 0 : pieces[static_cast<size_t>(t) - 3].score;
    for (const char c : text) unknown += c == 'z';
    EXPECT_DOUBLE_EQ(sum + static_cast<double>(unknown) * (-7.5 - 10), best_sum(pieces, text, -7.5)) << text;
  }
}

TEST(Unigram, UnknownCharactersAreSpelledOrJoined) {
  std::vector<Piece> pieces = {{mark, -2}, {"a", -3}};
  const Message plain = Message().number(4, 0);
  EXPECT_EQ(make(read_sentencepiece(sentencepiece_model(pieces, 1, plain))).encode("a\xC3\xA9\xC3\xA9"),
            (Tokens{3, 4, 0}));
  for (int b = 0; b < 256; ++b) pieces.push_back({fmt::format("<0x{:02X}>", b), 0, TokenKind::byte});
  const std::string model = sentencepiece_model(pieces, 1, plain, Message().number(35, 1));
  EXPECT_EQ(make(read_sentencepiece(model)).encode("\xC3\xA9"), (Tokens{3, 5 + 0xC3, 5 + 0xA9}));
}

TEST(Unigram, LongRunsEndSoon) {
  const Made made = make(read_sentencepiece(sentencepiece_model({{"a", -3}, {"aa", -4}}, 1, Message().number(3, 0))));
  EXPECT_EQ(made.encode(std::string(1000000, 'a')).size(), 500000u);
}

// Over raw UTF-8: merges, spaces as U+2581, runs of newlines looked up whole, BOS always.
TEST(Gemma4, ItsOwnRules) {
  TestVocabulary v;
  v.model = "gemma4";
  v.pre = "gemma4";
  v.add("<pad>", TokenKind::control);
  v.add("<eos>", TokenKind::control);
  v.add("<bos>", TokenKind::control);
  v.add("<unk>", TokenKind::unknown);
  for (int b = 0; b < 256; ++b) v.add(fmt::format("<0x{:02X}>", b), TokenKind::byte);
  const Token space = v.add(mark);
  const Token a = v.add("a");
  const Token b = v.add("b");
  const Token space_a = v.add(mark + "a");
  const Token newline = v.add("\n");
  const Token three = v.add("\n\n\n");
  v.merges = {mark + " a"};
  const auto t = Tokenizer::create(v.source());
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->encode("a a b"), (Tokens{a, space_a, space, b}));
  EXPECT_EQ(t->encode("a\n\n\nb"), (Tokens{a, three, b}));  // no merge makes it
  EXPECT_EQ(t->encode("\n\n"), (Tokens{newline, newline}));
  EXPECT_EQ(t->encode("\xC3\xA9"), (Tokens{4 + 0xC3, 4 + 0xA9}));
  EXPECT_EQ(t->encode("a", {.add_bos_eos = true}), (Tokens{2, a}));
  EXPECT_EQ(t->decode(t->encode("a a\n\n\n\xC3\xA9")), "a a\n\n\n\xC3\xA9");
  EXPECT_EQ(t->eos(), 1);
}

TEST(SpecialTokens, TheLeftmostComesFirstThenTheLongest) {
  TestVocabulary v = byte_vocabulary();
  const Token ab = v.add("<ab", TokenKind::user_defined);
  const Token abc = v.add("<abc", TokenKind::user_defined);
  const Token bcde = v.add("bcdef", TokenKind::user_defined);
  const auto t = Tokenizer::create(v.source());
  ASSERT_TRUE(t);
  EXPECT_EQ(t->encode("<abcdef"), (Tokens{abc, 'd', 'e', 'f'}));
  EXPECT_EQ(t->encode("<abd"), (Tokens{ab, 'd'}));
  EXPECT_EQ(t->encode("abcdef"), (Tokens{'a', bcde}));
}

TEST(VocabularyDirectory, TakesTheBestThatIsThere) {
  const ScratchFolder folder;
  EXPECT_NE(error_of(read_vocabulary_directory(folder.path())).find("has no tokenizer"), std::string::npos);
  EXPECT_NE(error_of(read_vocabulary_directory(folder.path() + "/x")).find("is not a directory"), std::string::npos);
  folder.write("tokenizer.model", sentencepiece_model({{"a", -1}}, 2, {}));
  EXPECT_EQ(make(read_vocabulary_directory(folder.path())).tokenizer->size(), 4u);
  folder.write("tekken.json", tekken_json().dump());
  EXPECT_EQ(make(read_vocabulary_directory(folder.path())).tokenizer->size(), 261u);
  folder.write("tokenizer.json", byte_level_json().dump());
  folder.write("tokenizer_config.json", R"({"chat_template": "old"})");
  EXPECT_EQ(make(read_vocabulary_directory(folder.path())).vocabulary.chat_template, "old");
  folder.write("chat_template.json", R"({"chat_template": "newer"})");
  EXPECT_EQ(make(read_vocabulary_directory(folder.path())).vocabulary.chat_template, "newer");
  folder.write("chat_template.jinja", "newest");
  const Made made = make(read_vocabulary_directory(folder.path()));
  EXPECT_EQ(made.vocabulary.chat_template, "newest");
  EXPECT_EQ(made.tokenizer->size(), 256u);
  folder.write("tokenizer.json", "{]");
  const std::string error = error_of(read_vocabulary_directory(folder.path()));
  EXPECT_NE(error.find(folder.path()), std::string::npos) << error;
  EXPECT_NE(error.find("tokenizer.json: no valid JSON: parse error at line 1"), std::string::npos) << error;
}

TEST(VocabularyDirectory, TellsRanksFromSentencePieceByTheContent) {
  const ScratchFolder folder;
  folder.write("tokenizer.model", tiktoken_ranks({}));
  const std::string error = error_of(read_vocabulary_directory(folder.path()));
  EXPECT_NE(error.find("256 tiktoken ranks are of no vocabulary"), std::string::npos) << error;
  EXPECT_NE(error.find("tokenizer.model"), std::string::npos) << error;
}

// 2,000 changes of each kind of file: an error that names the file, or a tokenizer that works.
TEST(VocabularyFiles, DamageIsAnErrorThatNamesTheFile) {
  Json json = byte_level_json({{"a", "b"}, {"ab", "c"}});
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"] = {added_token(258, "<s>", true), added_token(259, "<x>", false)};
  Message normalizer = Message().text(2, byte_charsmap({{'A', "a"}}));
  struct File {
    std::string name, bytes;
    Result<Vocabulary> (*read)(std::string_view);
  };
  const File files[] = {
      {"tokenizer.json", json.dump(), [](std::string_view b) { return read_tokenizer_json(b); }},
      {"tokenizer.json", pieces_json({mark, "a", mark + "a"}, {{mark, "a"}}).dump(),
       [](std::string_view b) { return read_tokenizer_json(b); }},
      {"tekken.json", tekken_json().dump(), [](std::string_view b) { return read_tekken(b); }},
      {"tiktoken", tiktoken_ranks({"ab", "abc"}),
       [](std::string_view b) { return read_tiktoken(b, {}, WordRule::gpt2); }},
      {"SentencePiece", sentencepiece_model({{mark, -2}, {"a", -1}}, 1, normalizer),
       [](std::string_view b) { return read_sentencepiece(b); }},
  };
  std::mt19937 random(11);
  for (const File& file : files) {
    size_t errors = 0;
    for (int n = 0; n < 2000; ++n) {
      std::string bytes = file.bytes;
      for (size_t i = random() % 3; i < 3; ++i) {
        const size_t at = random() % bytes.size();
        if (random() % 4 == 0) {
          bytes.erase(at, random() % 20);
        } else {
          bytes[at] = static_cast<char>(random() % 2 == 0 ? random() % 256 : "{}[]\",:0123456789-"[random() % 18]);
        }
        if (bytes.empty()) break;
      }
      const auto vocabulary = file.read(bytes);
      if (!vocabulary) {
        ++errors;
        EXPECT_NE(vocabulary.error().message.find(file.name), std::string::npos) << vocabulary.error().message;
        continue;
      }
      const auto tokenizer = Tokenizer::create(vocabulary->source());
      if (!tokenizer) {
        ++errors;
        EXPECT_FALSE(tokenizer.error().message.empty());
        continue;
      }
      for (const Token t : tokenizer->encode("abc <s> A \xC3\xA9", {.special = true})) {
        EXPECT_LT(static_cast<size_t>(t), tokenizer->size());
      }
    }
    EXPECT_GT(errors, 200u) << file.name;
  }
}

TEST(JsonDocument, ReadsWhatJsonIs) {
  const auto read = [](std::string_view text) {
    const auto document = JsonDocument::parse(text, "f");
    return document ? std::string(document->root().text_or_empty()) : "error: " + document.error().message;
  };
  EXPECT_EQ(read(R"("a\n\u00e9\ud83d\ude00\/")"), "a\n\u00E9\U0001F600/");
  EXPECT_EQ(read("\xEF\xBB\xBF \"a\" "), "a");
  for (const char* bad : {"", "\"a", "\"\\x\"", "\"\\u12g4\"", "[1,]", "{\"a\"}", "{a:1}", "01", "1.", "-", "tru",
                          "\"a\" 1", "\"\n\"", "[", "\"\\ud83d\"", "\"\xff\"", "{\"a\":1,}"}) {
    EXPECT_TRUE(read(bad).starts_with("error: f: no valid JSON: parse error at line ")) << bad;
  }
  const auto document =
      JsonDocument::parse(R"({"a": [1, {"b": -2.5e1}], "c": null, "d": true, "a2": 12345678901234567890})", "f");
  ASSERT_TRUE(document);
  const JsonValue root = document->root();
  EXPECT_FALSE(root.find("c"));
  EXPECT_TRUE(*root.find("d")->boolean());
  const JsonValue inner = *root.find("a")->items()[1].find("b");
  EXPECT_EQ(*inner.number(), -25.0);
  EXPECT_EQ(inner.place(), "f: a[1].b");
  EXPECT_FALSE(root.find("a2")->integer());
  EXPECT_EQ(*root.find("a")->items()[0].integer(), 1);
  EXPECT_FALSE(JsonDocument::parse(std::string(100000, '['), "f"));
}

}  // namespace
}  // namespace gale::text
