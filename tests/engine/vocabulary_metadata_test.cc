// Vocabularies to GGUF's keys and back: the same tokens.
#include "engine/vocabulary_metadata.h"

#include <gtest/gtest.h>

#include "text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace gale::engine {
namespace {

using text::Vocabulary;
using Tokens = std::vector<text::Token>;

// A vocabulary as it is, and as it comes back from the metadata that it was written to.
struct Both {
  explicit Both(Result<Vocabulary> read) : first(std::move(*read)) {
    before.emplace(std::move(*text::Tokenizer::create(first.source())));
    const Status status = write_vocabulary(first, metadata);
    if (!status) throw std::runtime_error(status.error().message);
    auto again = read_vocabulary(metadata);
    if (!again) throw std::runtime_error(again.error().message);
    second = std::move(**again);
    auto made = text::Tokenizer::create(second.source());
    if (!made) throw std::runtime_error(made.error().message);
    after.emplace(std::move(*made));
  }
  void expect_same(std::string_view text) {
    for (const bool special : {false, true}) {
      EXPECT_EQ(before->encode(text, {special, true}), after->encode(text, {special, true})) << text;
    }
  }
  std::string_view text(std::string_view key) const { return metadata.text(key)->value_or("?"); }

  Vocabulary first, second;
  format::Metadata metadata;
  std::optional<text::Tokenizer> before, after;
};

TEST(VocabularyMetadata, RanksBecomeMerges) {
  text::SideFiles beside;
  beside.tokenizer_config = R"({"added_tokens_decoder": {"262": {"content": "<s>", "special": true},
      "263": {"content": "<x>", "special": false}}, "bos_token": "<s>", "add_bos_token": true,
      "chat_template": [{"name": "default", "template": "T"}, {"name": "tools", "template": "U"}]})";
  beside.generation_config = R"({"eos_token_id": [262, 263]})";
  Both both(
      read_tiktoken(text::tiktoken_ranks({"bc", "ab", "abc", "cd", "abcd", "  "}), beside, text::WordRule::llama3));
  for (const char* t : {"abcd", "xbcdab cab", "a  b   c", "<s>ab<x>", "", "bcbcabab"}) both.expect_same(t);
  EXPECT_EQ(both.text("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(both.text("tokenizer.ggml.pre"), "llama-bpe");
  EXPECT_EQ(both.text("tokenizer.chat_template"), "T");
  EXPECT_EQ(both.text("tokenizer.chat_template.tools"), "U");
  EXPECT_EQ(both.after->end_tokens(), (Tokens{262, 263}));
  EXPECT_EQ(both.after->bos(), 262);
  using format::ValueType;
  EXPECT_EQ(both.metadata.stored_type("tokenizer.ggml.token_type"), ValueType::i32);
  EXPECT_EQ(both.metadata.stored_type("tokenizer.ggml.bos_token_id"), ValueType::u32);
  EXPECT_EQ(both.metadata.stored_type("tokenizer.ggml.add_bos_token"), ValueType::boolean);
  EXPECT_EQ(both.metadata.stored_type("tokenizer.ggml.tokens"), ValueType::string);
}

TEST(VocabularyMetadata, MergesOfMarkedPiecesBecomeScores) {
  const std::string mark = "\u2581";
  Both both(text::read_tokenizer_json(
      text::pieces_json({mark, "a", "b", mark + "a", "ab", mark + "ab"}, {{mark, "a"}, {"a", "b"}, {mark + "a", "b"}})
          .dump()));
  for (const char* t : {"ab ab", "a b  ab", "abab \xC3\xA9"}) both.expect_same(t);
  EXPECT_EQ(both.text("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(both.metadata.stored_type("tokenizer.ggml.scores"), format::ValueType::f32);
}

TEST(VocabularyMetadata, SentencePieceModelsKeepScoresAndReplacements) {
  const std::string mark = "\u2581";
  const std::vector<text::Piece> pieces = {{mark, -2}, {"a", -3}, {mark + "a", -4}, {"aa", -3.5}};
  Both bpe(text::read_sentencepiece(text::sentencepiece_model(pieces, 2, text::Message().number(4, 0))));
  bpe.expect_same("a aa  a");
  EXPECT_EQ(bpe.text("tokenizer.ggml.model"), "llama");
  Both unigram(text::read_sentencepiece(
      text::sentencepiece_model(pieces, 1, text::Message().text(2, text::byte_charsmap({{'A', "a"}})))));
  unigram.expect_same(" aA  aaa A");
  EXPECT_EQ(unigram.text("tokenizer.ggml.model"), "t5");
  EXPECT_EQ(unigram.metadata.stored_type("tokenizer.ggml.precompiled_charsmap"), format::ValueType::u8);
}

TEST(VocabularyMetadata, WhatGgufHasNoNameForIsAnError) {
  text::Json json = text::byte_level_json();
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"}, {"pattern", {{"Regex", "a+|[^a]+"}}}, {"behavior", "Isolated"}},
                             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  auto vocabulary = text::read_tokenizer_json(json.dump());
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  format::Metadata metadata;
  const Status status = write_vocabulary(*vocabulary, metadata);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("GGUF has no name"), std::string::npos);
}

}  // namespace
}  // namespace gale::engine
