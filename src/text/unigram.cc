// The Viterbi search of Unigram vocabularies.
#include "text/unigram.h"

#include <algorithm>
#include <limits>

#include "text/unicode.h"

namespace gale::text {
namespace {

// SentencePiece's: a character that is no piece scores this much less than the worst piece.
constexpr double unknown_penalty = 10.0;

}  // namespace

void Unigram::create(std::vector<Piece> pieces) {
  std::reverse(pieces.begin(), pieces.end());
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.text < b.text; });
  pieces.erase(
      std::unique(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.text == b.text; }),
      pieces.end());
  pieces_ = std::move(pieces);
  double worst = std::numeric_limits<double>::max();
  std::vector<std::string_view> texts;
  for (const Piece& piece : pieces_) {
    texts.push_back(piece.text);
    worst = std::min<double>(worst, piece.score);
  }
  unknown_score_ = (pieces_.empty() ? 0.0 : worst) - unknown_penalty;
  trie_.create(texts);
}

void Unigram::cut(std::string_view word, MergeSpace& space) const {
  // The best way to each place: where its last symbol begins, and which token that is.
  std::vector<MergeSpace::Step>& steps = space.steps;
  steps.assign(word.size() + 1, {});
  steps[0].score = 0;
  for (size_t begin = 0; begin < word.size(); ++begin) {
    if (steps[begin].begin < 0 && begin > 0) continue;  // inside a character
    const double score = steps[begin].score;
    const auto reach = [&](size_t end, double total, Token token) {
      MergeSpace::Step& step = steps[end];
      if (step.begin < 0 || total > step.score) step = {total, static_cast<int32_t>(begin), token};
    };
    const size_t character = std::min(utf8_length(static_cast<uint8_t>(word[begin])), word.size() - begin);
    bool covered = false;
    const Trie::Node* node = trie_.root();
    for (size_t end = begin; end < word.size() && node != nullptr;) {
      node = trie_.step(*node, static_cast<uint8_t>(word[end++]));
      if (node == nullptr || node->value < 0) continue;
      const Piece& piece = pieces_[static_cast<size_t>(node->value)];
      reach(end, score + piece.score, piece.token);
      covered = covered || end - begin == character;
    }
    if (!covered) reach(begin + character, score + unknown_score_, -1);
  }
  std::vector<Symbol>& symbols = space.symbols;
  symbols.clear();
  for (size_t end = word.size(); end > 0;) {
    const auto begin = static_cast<size_t>(steps[end].begin);
    symbols.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin), -1, -1, steps[end].token});
    end = begin;
  }
  std::reverse(symbols.begin(), symbols.end());
}

}  // namespace gale::text
