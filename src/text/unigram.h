// Unigram vocabularies: of all ways to cut a word into tokens the one with the best sum of scores.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "text/merging.h"
#include "text/trie.h"

namespace gale::text {

// Immutable after creation.
class Unigram {
 public:
  struct Piece {
    std::string_view text;  // not empty
    Token token;
    float score;
  };
  // Of equal texts the last piece counts.
  void create(std::vector<Piece> pieces);
  // Cuts `word` (valid UTF-8 or not) into space.symbols; what no piece covers becomes symbols of one character without
  // a token.
  void cut(std::string_view word, MergeSpace& space) const;

 private:
  Trie trie_;
  std::vector<Piece> pieces_;  // in the order of their texts
  double unknown_score_ = 0;   // of a character that is no piece
};

}  // namespace gale::text
