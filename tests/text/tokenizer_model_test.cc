// Token ids on the vocabularies of real model files, as given by the models' own tokenizers. Skipped without the files.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "text/byte_vocabulary.h"
#include "text/model_vocabulary.h"

namespace gale::text {
namespace {

using Tokens = std::vector<Token>;

class TokenizerModel : public testing::Test {
 protected:
  // False (and the test is skipped): the file isn't there.
  bool open(const std::string& name) {
    const std::string path = find_model(name);
    if (path.empty()) return false;
    auto vocabulary = read_vocabulary(path);
    EXPECT_TRUE(vocabulary) << vocabulary.error().message;
    if (!vocabulary) return false;
    vocabulary_ = std::move(*vocabulary);
    auto made = Tokenizer::create(vocabulary_->source);
    EXPECT_TRUE(made) << made.error().message;
    if (!made) return false;
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*made));
    return true;
  }
  Tokens encode(std::string_view text, EncodeOptions options = {}) const { return tokenizer_->encode(text, options); }

  // Texts and ids of tests/text/golden/NAME.json (made by tests/peers/tokenizer_peer.py --golden).
  void check_golden(const std::string& name) const {
    std::ifstream in(std::string(GALE_TEST_DIR) + "/text/golden/" + name + ".json");
    const auto cases = nlohmann::json::parse(in, nullptr, false);
    ASSERT_TRUE(cases.is_array());
    ASSERT_GT(cases.size(), 20u);
    for (const auto& c : cases) {
      const std::string text = c.at("text");
      size_t lost = 0;
      const Tokens got = tokenizer_->encode(text, {.special = c.at("special")}, &lost);
      EXPECT_EQ(got, c.at("ids").get<Tokens>()) << text;
      EXPECT_EQ(lost, 0u) << text;
      EXPECT_EQ(tokenizer_->decode(got, true), text);
    }
  }

  std::unique_ptr<ModelVocabulary> vocabulary_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

constexpr const char* smollm2_file = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* gemma3_file = "gemma-3-270m-q4_k_m.gguf";
constexpr const char* absent = "the model file is neither in GALE_MODELS nor in models/ of the repository";

TEST_F(TokenizerModel, SmolLm2) {
  if (!open(smollm2_file)) GTEST_SKIP() << smollm2_file << ": " << absent;
  EXPECT_EQ(tokenizer_->size(), 49152u);
  EXPECT_EQ(tokenizer_->bos(), 1);
  EXPECT_EQ(tokenizer_->eos(), 2);
  EXPECT_FALSE(tokenizer_->adds_bos());
  EXPECT_EQ(tokenizer_->end_tokens(), (Tokens{0, 2, 4}));
  EXPECT_EQ(encode("A<|im_end|>B"), (Tokens{49, 44, 108, 306, 79, 486, 108, 46, 50}));
  EXPECT_EQ(encode("A<|im_end|>B", {.special = true}), (Tokens{49, 2, 50}));
  EXPECT_EQ(encode("\xE6\xAD"), (Tokens{24211, 24211}));
  EXPECT_EQ(encode(std::string(9400, 'A')).size(), 1175u);
  EXPECT_EQ(encode(std::string(50000, '_')).size(), 1563u);
  EXPECT_EQ(encode(std::string(100000, ' ')).size(), 1563u);
  size_t lost = 0;
  EXPECT_EQ(tokenizer_->encode("a\x04z\x16", {}, &lost), (Tokens{81, 24211, 106, 24211}));
  EXPECT_EQ(lost, 2u);
  check_golden("smollm2");
}

TEST_F(TokenizerModel, SmolLm2LacksTwentyOneBytes) {
  if (!open(smollm2_file)) GTEST_SKIP() << smollm2_file << ": " << absent;
  int missing = 0;
  for (int b = 0; b < 256; ++b) missing += tokenizer_->find(byte_character(b)) < 0;
  EXPECT_EQ(missing, 21);
  EXPECT_EQ(tokenizer_->find(byte_character(0x04)), -1);
  EXPECT_EQ(tokenizer_->find(byte_character(0x16)), -1);
  int lossy = 0;  // the others of the 21 are bytes that no well-formed UTF-8 has
  for (char c = 0; c >= 0 && c < 127; ++c) {
    size_t lost = 0;
    tokenizer_->encode({&c, 1}, {}, &lost);
    lossy += lost > 0;
  }
  EXPECT_EQ(lossy, 6);
}

TEST_F(TokenizerModel, Gemma3) {
  if (!open(gemma3_file)) GTEST_SKIP() << gemma3_file << ": " << absent;
  EXPECT_EQ(tokenizer_->size(), 262144u);
  EXPECT_EQ(tokenizer_->bos(), 2);
  EXPECT_TRUE(tokenizer_->adds_bos());
  EXPECT_EQ(tokenizer_->end_tokens(), (Tokens{1, 106}));
  EXPECT_EQ(encode("a  b and    c"), (Tokens{236746, 138, 236763, 532, 140, 236755}));
  EXPECT_EQ(encode("<code>x</code>"), (Tokens{206, 236781, 215}));
  EXPECT_EQ(encode("</s>"), Tokens{212});
  EXPECT_EQ(encode(std::string(9400, 'A')).size(), 588u);
  EXPECT_EQ(encode(std::string(50000, '_')).size(), 3125u);
  EXPECT_EQ(encode(std::string(100000, ' ')).size(), 3226u);
  EXPECT_EQ(encode("<end_of_turn>", {.special = true}), Tokens{106});
  EXPECT_GT(encode("<end_of_turn>").size(), 1u);
  EXPECT_EQ(encode("<bos>a", {.special = true, .add_bos_eos = true}).front(), 2);
  EXPECT_EQ(encode("<bos>a", {.special = true, .add_bos_eos = true}).size(), 2u);
  EXPECT_EQ(tokenizer_->decode(encode("\xE6\xAD")), "\xE6\xAD");
  check_golden("gemma3");
}

}  // namespace
}  // namespace gale::text
