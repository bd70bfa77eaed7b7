// Vocabularies from a tokenizer's own files: tokenizer.json, tiktoken ranks, SentencePiece models, tekken.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace gale::text {

// Texts that stay at their address.
class TextArena {
 public:
  std::string_view keep(std::string_view text);

 private:
  static constexpr size_t block_bytes = size_t{1} << 20;
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t used_ = block_bytes;  // of the last block
};

// Owns what its source() views. Movable; views stay valid.
struct Vocabulary {
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  VocabularySource source() const;
  // Copies the text.
  void add(std::string_view text, TokenKind kind, float score = 0);
  // Grows the vocabulary with unused tokens if `token` is beyond its end. The text is copied.
  void set(Token token, std::string_view text, TokenKind kind);
  // Token of exactly this text; -1: none. Slow: goes through all.
  Token find(std::string_view text) const;

  TextArena texts;
  std::vector<std::string_view> tokens;
  std::vector<std::string_view> merges;
  std::vector<float> scores;  // empty, or one per token
  std::vector<int64_t> kinds;
  std::vector<int64_t> more_eos;
  std::vector<WordPattern> patterns;
  std::vector<AddedTokenRule> added;
  VocabularySource facts;     // all that is not a list; texts in it are views of `texts`
  std::string chat_template;  // empty: none
  std::vector<std::pair<std::string, std::string>> named_chat_templates;
};

// Contents of the files that lie beside a tokenizer's; empty: not there. Only read while the call lasts.
struct SideFiles {
  std::string_view tokenizer_config;    // tokenizer_config.json: added tokens, special tokens, chat template
  std::string_view special_tokens_map;  // special_tokens_map.json
  std::string_view added_tokens;        // added_tokens.json
  std::string_view generation_config;   // generation_config.json: ids that end a turn
  std::string_view config;              // config.json: the same
  std::string_view chat_template;       // chat_template.jinja, or the text in chat_template.json
};

// Errors name file and key. Nothing of the arguments is needed after the call.
Result<Vocabulary> read_tokenizer_json(std::string_view json, const SideFiles& beside = {});
// Lines of base64 and rank. Files of published models are known by their ranks: those have their special tokens and
// rule for words. Others get them from tokenizer_config.json, and `words` if that is not enough.
Result<Vocabulary> read_tiktoken(std::string_view text, const SideFiles& beside = {},
                                 std::optional<WordRule> words = std::nullopt);
Result<Vocabulary> read_sentencepiece(std::string_view bytes, const SideFiles& beside = {});
Result<Vocabulary> read_tekken(std::string_view json, const SideFiles& beside = {});

// The best that a directory has: tokenizer.json, else tekken.json, tokenizer.model (SentencePiece or tiktoken), or a
// file whose name ends in .tiktoken. Errors name the path.
Result<Vocabulary> read_vocabulary_directory(const std::string& path);

}  // namespace gale::text
