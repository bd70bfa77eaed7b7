// Special tokens: finding them in text, longest first.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace gale::text {

// A stretch of text that is one special token, or (token -1) ordinary text.
struct TextPart {
  std::string_view text;
  Token token = -1;
};

// Bytes [begin, end) of a text in which no control token may be recognised. Ranges are in rising order and don't
// overlap.
struct PlainRange {
  size_t begin, end;
};

// A set of literal texts as a trie. Immutable after creation.
class SpecialTokens {
 public:
  struct Entry {
    std::string_view text;  // not empty
    Token token;
    bool always;  // found without `special` too (user-defined tokens)
  };
  // Of equal texts the first entry counts.
  void create(std::vector<Entry> entries);

  // Cuts `text`: all occurrences of the longest tokens first (leftmost first), then of shorter ones in what is left.
  // Tokens that are not found always are found only with `special`, and only where they touch none of the `plain`
  // ranges.
  std::vector<TextPart> cut(std::string_view text, bool special, std::span<const PlainRange> plain = {}) const;
  // The token of exactly this text, or -1.
  Token find(std::string_view text) const;

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edge_count = 0;
    Token token = -1;
    bool always = false;
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  const Node* step(const Node& node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<uint32_t> lengths_;  // distinct lengths of texts, longest first
  // What begins a text: the first byte, both first bytes [65536], and whole texts of one byte.
  bool first_bytes_[256] = {};
  std::vector<uint8_t> first_pairs_;
  bool single_bytes_[256] = {};
};

}  // namespace gale::text
