// Small vocabularies made in the test: byte-level ones from a list of merges, SentencePiece-style ones from scored
// pieces.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace gale::text {

// GPT-2's printable stand-in for a byte, built here from its definition.
inline std::string byte_character(int byte) {
  const auto itself = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255); };
  int shifted = 256;
  for (int b = 0; b < byte; ++b) shifted += !itself(b);
  std::string out;
  append_utf8(out, static_cast<uint32_t>(itself(byte) ? byte : shifted));
  return out;
}

inline std::string byte_characters(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += byte_character(static_cast<uint8_t>(c));
  return out;
}

// Owns the strings that a VocabularySource points to. Fill, then call source().
struct TestVocabulary {
  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  std::vector<float> scores;
  std::vector<int64_t> kinds;
  VocabularySource extra;  // ids and flags

  Token add(std::string text, TokenKind kind = TokenKind::normal, float score = 0) {
    tokens.push_back(std::move(text));
    kinds.push_back(static_cast<int64_t>(kind));
    scores.push_back(score);
    return static_cast<Token>(tokens.size() - 1);
  }
  VocabularySource source() {
    token_views.assign(tokens.begin(), tokens.end());
    merge_views.assign(merges.begin(), merges.end());
    VocabularySource s = extra;
    s.model = model;
    s.pre_tokenizer = pre;
    s.tokens = token_views;
    s.merges = merge_views;
    if (model == "llama") s.scores = scores;
    s.kinds = kinds;
    return s;
  }
  std::vector<std::string_view> token_views, merge_views;
};

// Tokens 0..255 are the bytes except `missing`, then the results of the merges (given as bytes).
inline TestVocabulary byte_vocabulary(const std::vector<std::pair<std::string, std::string>>& merges = {},
                                      std::string_view missing = {}) {
  TestVocabulary v;
  for (int b = 0; b < 256; ++b) {
    const bool absent = missing.find(static_cast<char>(b)) != std::string_view::npos;
    v.add(absent ? "[absent " + std::to_string(b) + "]" : byte_character(b),
          absent ? TokenKind::unused : TokenKind::normal);
  }
  for (const auto& [left, right] : merges) {
    v.merges.push_back(byte_characters(left) + " " + byte_characters(right));
    v.add(byte_characters(left + right));
  }
  return v;
}

// <unk> 0, <s> 1, </s> 2, the 256 byte tokens from 3 on, then the pieces (with spaces written as U+2581).
inline TestVocabulary piece_vocabulary(const std::vector<std::pair<std::string, float>>& pieces) {
  TestVocabulary v;
  v.model = "llama";
  v.pre.clear();
  v.add("<unk>", TokenKind::unknown);
  v.add("<s>", TokenKind::control);
  v.add("</s>", TokenKind::control);
  for (int b = 0; b < 256; ++b) v.add(fmt::format("<0x{:02X}>", b), TokenKind::byte);
  for (const auto& [text, score] : pieces) v.add(text, TokenKind::normal, score);
  return v;
}

}  // namespace gale::text
