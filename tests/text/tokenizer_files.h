// Small tokenizer files made in tests (tokenizer.json, tiktoken ranks, SentencePiece models), and tokenizers of them.
#pragma once

#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/byte_vocabulary.h"
#include "text/tokenizer.h"
#include "text/vocabulary_files.h"

namespace gale::text {

using Json = nlohmann::ordered_json;
using Tokens = std::vector<Token>;

// The vocabulary must outlive the tokenizer.
struct Made {
  Vocabulary vocabulary;
  std::optional<Tokenizer> tokenizer;
  Tokens encode(std::string_view text, EncodeOptions options = {}) const { return tokenizer->encode(text, options); }
  Tokens special(std::string_view text) const { return tokenizer->encode(text, {.special = true}); }
};

inline Made make(Result<Vocabulary> vocabulary) {
  if (!vocabulary) throw std::runtime_error(vocabulary.error().message);
  Made made{std::move(*vocabulary), {}};
  auto tokenizer = Tokenizer::create(made.vocabulary.source());
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  made.tokenizer = std::move(*tokenizer);
  return made;
}

// tokenizer.json of a byte-level BPE: the 256 bytes, then the results of the merges (given as bytes).
inline Json byte_level_json(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) vocab[byte_character(b)] = b;
  Json list = Json::array();
  for (const auto& [left, right] : merges) {
    const size_t id = vocab.size();
    vocab[byte_characters(left + right)] = id;
    list.push_back(byte_characters(left) + " " + byte_characters(right));
  }
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

inline Json added_token(int64_t id, std::string content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// tokenizer.json over characters: <unk> 0, the byte tokens, then the pieces; merges as pairs of texts.
inline Json pieces_json(const std::vector<std::string>& pieces,
                        const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = {{"<unk>", 0}};
  for (int b = 0; b < 256; ++b) vocab[fmt::format("<0x{:02X}>", b)] = 1 + b;
  for (const std::string& piece : pieces) vocab[piece] = vocab.size();
  Json list = Json::array();
  for (const auto& [left, right] : merges) list.push_back({left, right});
  return {{"added_tokens", Json::array({added_token(0, "<unk>", true)})},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "\u2581"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
          {"pre_tokenizer", nullptr},
          {"decoder", {{"type", "ByteFallback"}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"fuse_unk", true},
            {"vocab", vocab},
            {"merges", list}}}};
}

inline std::string base64(std::string_view bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) out += i + j > bytes.size() ? '=' : alphabet[group >> (18 - 6 * j) & 63];
  }
  return out;
}

// Ranks of the 256 bytes and of `more` behind them.
inline std::string tiktoken_ranks(const std::vector<std::string>& more) {
  std::string out;
  for (int b = 0; b < 256; ++b) out += base64(std::string(1, static_cast<char>(b))) + " " + std::to_string(b) + "\n";
  for (size_t i = 0; i < more.size(); ++i) out += base64(more[i]) + " " + std::to_string(256 + i) + "\n";
  return out;
}

// Fields of a protocol buffer message.
struct Message {
  std::string bytes;
  Message& number(uint32_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Message& text(uint32_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  Message& real(uint32_t field, float value) {
    varint(field << 3 | 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(bits >> (8 * i) & 0xFF);
    return *this;
  }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
  }
};

struct Piece {
  std::string text;
  float score = 0;
  TokenKind kind = TokenKind::normal;
};

// <unk> 0, <s> 1, </s> 2, then the pieces. `type`: 1 Unigram, 2 BPE.
inline std::string sentencepiece_model(const std::vector<Piece>& pieces, int type, const Message& normalizer,
                                       const Message& trainer = {}) {
  std::vector<Piece> all = {
      {"<unk>", 0, TokenKind::unknown}, {"<s>", 0, TokenKind::control}, {"</s>", 0, TokenKind::control}};
  all.insert(all.end(), pieces.begin(), pieces.end());
  Message model;
  for (const Piece& piece : all) {
    Message m;
    m.text(1, piece.text).real(2, piece.score);
    if (piece.kind != TokenKind::normal) m.number(3, static_cast<uint64_t>(piece.kind));
    model.text(1, m.bytes);
  }
  Message t;
  t.number(3, static_cast<uint64_t>(type));
  t.bytes += trainer.bytes;
  return model.text(2, t.bytes).text(3, normalizer.bytes).bytes;
}

// precompiled_charsmap that replaces single bytes: a double array whose root has its children at 256 + byte, each of
// which has its value at 512 + byte.
inline std::string byte_charsmap(const std::vector<std::pair<char, std::string>>& replacements) {
  std::vector<uint32_t> units(1024, 0);
  units[0] = 256u << 10;
  std::string strings;
  for (const auto& [from, to] : replacements) {
    const auto byte = static_cast<uint8_t>(from);
    units[256u + byte] = byte | 1u << 8 | (256u ^ 512u) << 10;
    units[512u + byte] = static_cast<uint32_t>(strings.size());
    strings += to + '\0';
  }
  const auto size = static_cast<uint32_t>(units.size() * 4);
  std::string out(reinterpret_cast<const char*>(&size), 4);
  out.append(reinterpret_cast<const char*>(units.data()), size);
  return out + strings;
}

}  // namespace gale::text
