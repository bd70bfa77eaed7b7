// tokenizer.json: what its parts do to tokens, and what is said about parts that aren't supported.
#include <gtest/gtest.h>

#include "text/tokenizer_files.h"
#include "text/vocabulary_files.h"

namespace gale::text {
namespace {

Made make(const Json& json, const SideFiles& beside = {}) {
  return make(read_tokenizer_json(json.dump(), beside));
}

std::string error_of(const Json& json) {
  const auto vocabulary = read_tokenizer_json(json.dump());
  if (!vocabulary) return vocabulary.error().message;
  const auto tokenizer = Tokenizer::create(vocabulary->source());
  return tokenizer ? std::string() : tokenizer.error().message;
}

TEST(TokenizerJson, IsTheVocabularyThatGgufFilesHold) {
  const std::vector<std::pair<std::string, std::string>> merges = {{"h", "e"}, {"l", "l"}, {"he", "ll"}, {" ", "w"}};
  TestVocabulary gguf = byte_vocabulary(merges);
  const auto expected = Tokenizer::create(gguf.source());
  ASSERT_TRUE(expected);
  const Made made = make(byte_level_json(merges));
  for (const std::string text : {"hello world", "it's  hell", "\xC3\xA9\n\n 123", ""}) {
    EXPECT_EQ(made.encode(text), expected->encode(text)) << text;
    EXPECT_EQ(made.tokenizer->decode(made.encode(text)), text);
  }
  Json pairs = byte_level_json(merges);  // merges as pairs, and no type: both forms are published
  pairs["model"].erase("type");
  for (Json& merge : pairs["model"]["merges"]) {
    const std::string text = merge;
    const size_t space = text.find(' ', 1);
    merge = {text.substr(0, space), text.substr(space + 1)};
  }
  EXPECT_EQ(make(pairs).encode("hello world"), expected->encode("hello world"));
}

TEST(TokenizerJson, KnowsPublishedExpressions) {
  Json json = byte_level_json();
  const auto split = [](std::string regex) {
    return Json{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  const auto rule = [&](std::vector<std::string> steps) {
    Json list = Json::array();
    for (const std::string& step : steps) list.push_back(split(step));
    list.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
    json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", list}};
    return *make(json).vocabulary.facts.words;
  };
  const std::string rest = R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string start = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  EXPECT_EQ(rule({start + R"(\p{N}{1,3}|)" + rest}), WordRule::llama3);
  EXPECT_EQ(rule({start + R"(\p{N}|)" + rest}), WordRule::qwen2);
  EXPECT_EQ(rule({start + R"(\p{N}{1,2}|)" + rest}), WordRule::patterns);
  EXPECT_EQ(rule({}), WordRule::whole);
  EXPECT_EQ(*make(byte_level_json()).vocabulary.facts.words, WordRule::gpt2);
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Digits"}, {"individual_digits", true}},
                             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}}};
  EXPECT_EQ(*make(json).vocabulary.facts.words, WordRule::digits_gpt2);
}

TEST(TokenizerJson, OtherExpressionsAreRunAsTheyAre) {
  Json json = byte_level_json({{"a", "b"}, {"b", "a"}, {"ab", "ab"}, {"-", "-"}});
  const auto tokens = [&](std::string regex, std::string behavior, bool invert, std::string_view text) {
    json["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", invert}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    const Made made = make(json);
    std::string out;
    for (const Token t : made.encode(text)) out += (out.empty() ? "" : "|") + made.tokenizer->piece(t);
    return out;
  };
  // "ab" 256, "ba" 257, "abab" 258, "--" 259
  EXPECT_EQ(tokens("ab", "Isolated", false, "abab--"), "ab|ab|--");
  EXPECT_EQ(tokens("-", "Isolated", false, "abab--"), "abab|-|-");
  EXPECT_EQ(tokens("-", "Removed", false, "ab-ab"), "ab|ab");
  EXPECT_EQ(tokens("-", "Removed", true, "ab--ab"), "-|-");
  EXPECT_EQ(tokens("b", "MergedWithPrevious", false, "abab"), "ab|ab");
  EXPECT_EQ(tokens("b", "MergedWithNext", false, "abab"), "a|ba|b");
  EXPECT_EQ(tokens("-", "Contiguous", false, "ab--ab"), "ab|--|ab");
  EXPECT_EQ(tokens("(?=b)", "Isolated", false, "abab"), "abab");  // empty matches cut nothing
}

TEST(TokenizerJson, ExpressionsThatMeanSomethingElseElsewhereAreRefused) {
  Json json = byte_level_json();
  const auto error = [&](std::string regex) {
    json["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers",
                              {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}},
                               {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    return error_of(json);
  };
  EXPECT_NE(error(R"([\p{L}&&[^\p{Han}]]+)").find("intersection"), std::string::npos);
  EXPECT_NE(error(R"([a[bc]]+)").find("a set inside a set"), std::string::npos);
  EXPECT_NE(error(R"(\h+)").find("a rare escape at byte 1"), std::string::npos);
  EXPECT_NE(error("(ab").find("is wrong at byte"), std::string::npos);
  EXPECT_EQ(error(R"([^\s\p{L}]+|\p{L}+)"), "");
}

TEST(TokenizerJson, NormalFormsComeBeforeWords) {
  Json json = byte_level_json({{"\xC3", "\xA9"}});
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(make(json).encode("e\xCC\x81"), Tokens{256});   // e and U+0301 become U+00E9
  EXPECT_EQ(make(json).encode("\xEF\xAC\x81").size(), 3u);  // U+FB01 stays
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}}}};
  EXPECT_EQ(make(json).encode("\xEF\xAC\x81"), (Tokens{'f', 'i'}));
  json["normalizer"] = {{"type", "NFD"}};
  EXPECT_EQ(make(json).encode("\xC3\xA9"), (Tokens{'e', 0xCC, 0x81}));
  json["normalizer"] = nullptr;
  EXPECT_EQ(make(json).encode("e\xCC\x81"), (Tokens{'e', 0xCC, 0x81}));
}

TEST(TokenizerJson, AddedTokensTakeSpacesAlongAndStandAlone) {
  Json json = byte_level_json();
  Json mask = added_token(256, "<mask>", false);
  mask["lstrip"] = true;
  mask["rstrip"] = true;
  Json word = added_token(257, "cat", false);
  word["single_word"] = true;
  json["added_tokens"] = {mask, word, added_token(258, "<end>", true)};
  const Made made = make(json);
  EXPECT_EQ(made.encode("a \n <mask> \xE3\x80\x80 b"), (Tokens{'a', 256, 'b'}));
  EXPECT_EQ(made.encode("<mask><mask>"), (Tokens{256, 256}));
  EXPECT_EQ(made.encode("a cat."), (Tokens{'a', ' ', 257, '.'}));
  EXPECT_EQ(made.encode("cats"), (Tokens{'c', 'a', 't', 's'}));
  EXPECT_EQ(made.encode("_cat"), (Tokens{'_', 'c', 'a', 't'}));
  EXPECT_EQ(made.encode("<end>").size(), 5u);
  EXPECT_EQ(made.special("<end>"), Tokens{258});
}

TEST(TokenizerJson, NormalizedTokensAreFoundInNormalisedText) {
  Json json = byte_level_json();
  json["normalizer"] = {{"type", "NFC"}};
  Json token = added_token(256, "caf\u00E9", false);
  json["added_tokens"] = Json::array({token});
  EXPECT_EQ(make(json).encode("cafe\xCC\x81").size(), 5u);
  token["normalized"] = true;
  json["added_tokens"] = Json::array({token});
  EXPECT_EQ(make(json).encode("a cafe\xCC\x81"), (Tokens{'a', ' ', 256}));
}

TEST(TokenizerJson, TheTemplateSaysWhatStandsAroundAText) {
  Json json = byte_level_json();
  json["added_tokens"] = {added_token(256, "<s>", true), added_token(257, "</s>", true)};
  const auto special = [](std::string id) { return Json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}}; };
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  json["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {special("<s>"), text, special("</s>")}}};
  EXPECT_EQ(make(json).encode("x", {.add_bos_eos = true}), (Tokens{256, 'x', 257}));
  json["post_processor"] = {
      {"type", "Sequence"},
      {"processors", {{{"type", "ByteLevel"}}, {{"type", "TemplateProcessing"}, {"single", {special("<s>"), text}}}}}};
  EXPECT_EQ(make(json).encode("x", {.add_bos_eos = true}), (Tokens{256, 'x'}));
  json["post_processor"] = nullptr;
  EXPECT_EQ(make(json).encode("x", {.add_bos_eos = true}), Tokens{'x'});
  json["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {special("<none>"), text}}};
  EXPECT_NE(error_of(json).find("'<none>', which is no token"), std::string::npos);
}

TEST(TokenizerJson, FilesBesideItNameTokens) {
  Json json = byte_level_json();
  json["added_tokens"] = {added_token(256, "<s>", true), added_token(257, "</s>", true), added_token(258, "<t>", true)};
  SideFiles beside;
  beside.tokenizer_config = R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": [
    {"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]})";
  beside.generation_config = R"({"eos_token_id": [257, 258, 9999]})";
  const Made made = make(json, beside);
  EXPECT_EQ(made.tokenizer->bos(), 256);
  EXPECT_EQ(made.tokenizer->eos(), 257);
  EXPECT_EQ(made.tokenizer->end_tokens(), (Tokens{257, 258}));
  EXPECT_EQ(made.vocabulary.chat_template, "A");
  ASSERT_EQ(made.vocabulary.named_chat_templates.size(), 1u);
  EXPECT_EQ(made.vocabulary.named_chat_templates[0], (std::pair<std::string, std::string>("tool_use", "B")));
  EXPECT_EQ(make(json).tokenizer->bos(), -1);  // nothing names one: there is none
  SideFiles flags;                             // they go before the template
  flags.tokenizer_config = R"({"bos_token": "<s>", "add_bos_token": true})";
  flags.config = R"({"text_config": {"eos_token_id": 258}})";
  EXPECT_EQ(make(json, flags).encode("x", {.add_bos_eos = true}), (Tokens{256, 'x'}));
  EXPECT_EQ(make(json, flags).tokenizer->eos(), 258);
  SideFiles broken;
  broken.generation_config = R"({"eos_token_id": "x"})";
  const auto error = read_tokenizer_json(json.dump(), broken);
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().message, "generation_config.json: eos_token_id is a string; a whole number is needed");
}

TEST(TokenizerJson, OrdinaryTokenThatReadsLikeAnEndIsOrdinary) {
  Json json = byte_level_json({{"<", "/"}, {"s", ">"}, {"</", "s>"}});
  json["pre_tokenizer"]["use_regex"] = false;
  EXPECT_EQ(make(json).encode("</s>"), Tokens{258});
  EXPECT_TRUE(make(json).tokenizer->end_tokens().empty());
}

TEST(TokenizerJson, PiecesWithMarkedSpaces) {
  const Json json =
      pieces_json({"\u2581", "a", "b", "\u2581a", "ab", "\u2581ab"}, {{"\u2581", "a"}, {"a", "b"}, {"\u2581a", "b"}});
  const Made made = make(json);
  const Token first = 257;
  EXPECT_EQ(made.encode("ab ab"), (Tokens{first + 5, first + 5}));
  EXPECT_EQ(made.tokenizer->decode(made.encode("ab ab")), "ab ab");
  EXPECT_EQ(made.encode(" ab"), (Tokens{first, first + 5}));  // Prepend puts a space before a space too
  EXPECT_EQ(made.encode("\xC3\xA9"), (Tokens{first, 1 + 0xC3, 1 + 0xA9}));
  Json first_only = json;
  first_only["normalizer"] = nullptr;
  first_only["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}};
  EXPECT_EQ(make(first_only).encode(" ab"), Tokens{first + 5});
  EXPECT_EQ(make(first_only).special("ab<unk>ab"), (Tokens{first + 5, 0, first + 4}));
  EXPECT_EQ(made.special("ab<unk>ab"), (Tokens{first + 5, 0, first + 5}));
  first_only["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_EQ(make(first_only).encode("ab"), Tokens{first + 4});
}

TEST(TokenizerJson, UnknownCharactersBecomeOneTokenIfTheFileSaysSo) {
  Json json = pieces_json({"\u2581", "a"}, {});
  json["model"]["byte_fallback"] = false;
  EXPECT_EQ(make(json).encode("\xC3\xA9\xC3\xA9"), (Tokens{257, 0}));
  json["model"]["fuse_unk"] = false;
  EXPECT_EQ(make(json).encode("\xC3\xA9\xC3\xA9"), (Tokens{257, 0, 0}));
}

TEST(TokenizerJson, WordsEndAtMarkedSpacesWhereTheFileSaysSo) {
  Json json = pieces_json({"\u2581", "a", "\u2581a", "a\u2581a"}, {{"\u2581", "a"}, {"a", "\u2581a"}});
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "never"}, {"split", false}};
  EXPECT_EQ(make(json).encode("a a"), Tokens{260});
  json["pre_tokenizer"]["split"] = true;
  EXPECT_EQ(make(json).encode("a a"), (Tokens{258, 259}));
}

TEST(TokenizerJson, ErrorsNameThePlace) {
  const auto changed = [](auto change) {
    Json json = byte_level_json({{"a", "b"}});
    change(json);
    return error_of(json);
  };
  EXPECT_EQ(changed([](Json& j) { j.erase("model"); }), "tokenizer.json: the key 'model' is missing");
  EXPECT_EQ(changed([](Json& j) { j["model"]["type"] = "WordPiece"; }),
            "tokenizer.json: model is of type 'WordPiece': BPE and Unigram are supported");
  EXPECT_EQ(changed([](Json& j) { j["model"]["vocab"]["zz"] = -1; }),
            "tokenizer.json: model.vocab.zz is -1: ids of this vocabulary are 0 .. 20516");
  EXPECT_EQ(changed([](Json& j) { j["model"]["vocab"]["zz"] = 97; }),
            "tokenizer.json: model.vocab.zz is 97: the token 'a' has this id too");
  EXPECT_EQ(changed([](Json& j) { j["model"]["vocab"]["zz"] = 1.5; }),
            "tokenizer.json: model.vocab.zz is 1.5: a whole number is needed");
  EXPECT_EQ(changed([](Json& j) { j["model"]["merges"][0] = Json::array({"a"}); }),
            "tokenizer.json: model.merges[0]: two texts are needed");
  EXPECT_EQ(changed([](Json& j) {
              j["normalizer"] = {{"type", "BertNormalizer"}};
            }),
            "tokenizer.json: normalizer: the normalizer 'BertNormalizer' is not supported");
  EXPECT_EQ(changed([](Json& j) { j["pre_tokenizer"]["add_prefix_space"] = true; }),
            "tokenizer.json: pre_tokenizer: add_prefix_space of a byte-level pre-tokenizer is not supported");
  EXPECT_EQ(changed([](Json& j) {
              j["added_tokens"] = Json::array({Json{{"id", 1}}});
            }),
            "tokenizer.json: added_tokens[0]: the key 'content' is missing");
  EXPECT_EQ(changed([](Json& j) { j["added_tokens"] = Json::array({added_token(1 << 30, "x", true)}); }),
            "tokenizer.json: added_tokens[0].id is 1073741824: ids of this vocabulary are 0 .. 20516");
  EXPECT_NE(
      changed([](Json& j) { j["model"]["merges"] = Json::array({"a c"}); }).find("its result is not in the vocabulary"),
      std::string::npos);
}

TEST(TokenizerJson, BrokenTextHasLineAndColumn) {
  const auto error = read_tokenizer_json("{\n  \"model\": {,}\n}");
  ASSERT_FALSE(error);
  EXPECT_TRUE(error.error().message.starts_with("tokenizer.json: no valid JSON: parse error at line 2, column 1"))
      << error.error().message;
}

}  // namespace
}  // namespace gale::text
