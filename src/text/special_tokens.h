// Special tokens: finding them in text, the leftmost first, of several there the longest.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/trie.h"
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

// Immutable after creation.
class SpecialTokens {
 public:
  struct Entry {
    std::string_view text;  // not empty
    bool always = false;    // found without `special` too (user-defined tokens)
    AddedTokenRule rule;
  };
  // Of equal texts the first entry counts.
  void create(std::vector<Entry> entries);
  bool empty() const { return entries_.empty(); }

  // Cuts `text`. Tokens that are not found always are found only with `special`, and only where they touch none of the
  // `plain` ranges. White space that a token strips is in no part.
  std::vector<TextPart> cut(std::string_view text, bool special, std::span<const PlainRange> plain = {}) const;
  // The token of exactly this text, or -1.
  Token find(std::string_view text) const;

 private:
  // The longest entry that may stand at `begin`; nullptr: none.
  const Entry* match(std::string_view text, size_t begin, bool special, std::span<const PlainRange> plain) const;

  Trie trie_;
  std::vector<Entry> entries_;  // in the order of their texts
  // What begins a text: the first byte, both first bytes [65536], and whole texts of one byte.
  bool first_bytes_[256] = {};
  std::vector<uint8_t> first_pairs_;
  bool single_bytes_[256] = {};
};

}  // namespace gale::text
