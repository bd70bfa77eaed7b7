// Building a vocabulary that owns its texts.
#include "text/vocabulary_files.h"

#include <algorithm>

namespace gale::text {

std::string_view TextArena::keep(std::string_view text) {
  if (text.empty()) return {};
  if (text.size() > block_bytes / 4) {  // a block of its own, in front of the one that is being filled
    auto block = std::make_unique<char[]>(text.size());
    std::copy(text.begin(), text.end(), block.get());
    const std::string_view kept(block.get(), text.size());
    blocks_.insert(blocks_.empty() ? blocks_.end() : blocks_.end() - 1, std::move(block));
    if (blocks_.size() == 1) used_ = block_bytes;
    return kept;
  }
  if (used_ + text.size() > block_bytes) {
    blocks_.push_back(std::make_unique<char[]>(block_bytes));
    used_ = 0;
  }
  char* const begin = blocks_.back().get() + used_;
  std::copy(text.begin(), text.end(), begin);
  used_ += text.size();
  return {begin, text.size()};
}

VocabularySource Vocabulary::source() const {
  VocabularySource source = facts;
  source.tokens = tokens;
  source.merges = merges;
  source.scores = scores;
  source.kinds = kinds;
  source.more_eos = more_eos;
  source.patterns = patterns;
  source.added = added;
  return source;
}

void Vocabulary::add(std::string_view text, TokenKind kind, float score) {
  tokens.push_back(texts.keep(text));
  kinds.push_back(static_cast<int64_t>(kind));
  if (!scores.empty() || score != 0) {
    scores.resize(tokens.size());
    scores.back() = score;
  }
}

void Vocabulary::set(Token token, std::string_view text, TokenKind kind) {
  const auto at = static_cast<size_t>(token);
  while (tokens.size() <= at) add(fmt::format("[unused {}]", tokens.size()), TokenKind::unused);
  tokens[at] = texts.keep(text);
  kinds[at] = static_cast<int64_t>(kind);
}

Token Vocabulary::find(std::string_view text) const {
  const auto found = std::find(tokens.begin(), tokens.end(), text);
  return found == tokens.end() ? -1 : static_cast<Token>(found - tokens.begin());
}

}  // namespace gale::text
