// The trie of special tokens and the cutting of text along them.
#include "text/special_tokens.h"

#include <algorithm>
#include <functional>

namespace gale::text {

void SpecialTokens::create(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  entries.erase(
      std::unique(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text == b.text; }),
      entries.end());
  first_pairs_.assign(65536, 0);
  for (const Entry& e : entries) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(e.text[i]); };
    first_bytes_[byte(0)] = true;
    if (e.text.size() == 1) {
      single_bytes_[byte(0)] = true;
    } else {
      first_pairs_[static_cast<size_t>(byte(0)) << 8 | byte(1)] = 1;
    }
    lengths_.push_back(static_cast<uint32_t>(e.text.size()));
  }
  std::sort(lengths_.rbegin(), lengths_.rend());
  lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());

  // Nodes in breadth-first order: each stands for a range of the sorted entries that share `depth` first bytes.
  struct Range {
    size_t first, last, depth;
  };
  std::vector<Range> ranges{{0, entries.size(), 0}};
  nodes_.resize(1);
  for (size_t n = 0; n < ranges.size(); ++n) {
    auto [first, last, depth] = ranges[n];
    if (first < last && entries[first].text.size() == depth) {
      nodes_[n].token = entries[first].token;
      nodes_[n].always = entries[first].always;
      ++first;
    }
    nodes_[n].first_edge = static_cast<uint32_t>(edges_.size());
    while (first < last) {
      const char byte = entries[first].text[depth];
      size_t end = first + 1;
      while (end < last && entries[end].text[depth] == byte) ++end;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
      nodes_.emplace_back();
      ranges.push_back({first, end, depth + 1});
      first = end;
    }
    nodes_[n].edge_count = static_cast<uint32_t>(edges_.size()) - nodes_[n].first_edge;
  }
}

const SpecialTokens::Node* SpecialTokens::step(const Node& node, uint8_t byte) const {
  const auto begin = edges_.begin() + node.first_edge;
  const auto end = begin + node.edge_count;
  const auto found = std::lower_bound(begin, end, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
  return found != end && found->byte == byte ? &nodes_[found->node] : nullptr;
}

Token SpecialTokens::find(std::string_view text) const {
  if (nodes_.empty()) return -1;
  const Node* node = &nodes_[0];
  for (const char c : text) {
    node = step(*node, static_cast<uint8_t>(c));
    if (node == nullptr) return -1;
  }
  return node->token;
}

std::vector<TextPart> SpecialTokens::cut(std::string_view text, bool special, std::span<const PlainRange> plain) const {
  std::vector<TextPart> parts;
  if (text.empty()) return parts;
  const auto allowed = [&](const Node& node, size_t begin, size_t end) {
    if (node.always || !special) return node.always;
    const auto range =
        std::upper_bound(plain.begin(), plain.end(), begin, [](size_t at, const PlainRange& r) { return at < r.end; });
    return range == plain.end() || range->begin >= end;
  };
  // Where a token begins, and the set of lengths (bit i: lengths_[i]; all from the 63rd on share the last bit).
  struct Start {
    size_t pos;
    uint64_t lengths;
  };
  std::vector<Start> starts;
  uint64_t seen = 0;
  const auto length_bit = [&](uint32_t length) {
    const auto at = std::lower_bound(lengths_.begin(), lengths_.end(), length, std::greater<>());
    return uint64_t{1} << std::min<ptrdiff_t>(at - lengths_.begin(), 63);
  };
  for (size_t pos = 0; pos < text.size() && !lengths_.empty(); ++pos) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    if (!first_bytes_[byte(pos)]) continue;
    const bool pair = pos + 1 < text.size() && first_pairs_[static_cast<size_t>(byte(pos)) << 8 | byte(pos + 1)] != 0;
    if (!pair && !single_bytes_[byte(pos)]) continue;
    const Node* node = &nodes_[0];
    uint64_t found = 0;
    for (size_t i = pos; i < text.size(); ++i) {
      node = step(*node, byte(i));
      if (node == nullptr) break;
      if (node->token >= 0 && allowed(*node, pos, i + 1)) found |= length_bit(static_cast<uint32_t>(i + 1 - pos));
    }
    if (found != 0) starts.push_back({pos, found});
    seen |= found;
  }
  if (starts.empty()) return {{text, -1}};

  struct Cut {
    size_t pos;
    uint32_t length;
    Token token;
  };
  std::vector<Cut> cuts;
  std::vector<bool> taken(text.size(), false);
  for (size_t n = 0; n < lengths_.size(); ++n) {
    const uint64_t bit = uint64_t{1} << std::min<size_t>(n, 63);
    if ((seen & bit) == 0) continue;
    const uint32_t length = lengths_[n];
    for (const Start& s : starts) {
      // What is taken is at least as long as this token, so it can't lie between the two ends.
      if ((s.lengths & bit) == 0 || s.pos + length > text.size() || taken[s.pos] || taken[s.pos + length - 1]) continue;
      const Node* node = &nodes_[0];
      for (uint32_t i = 0; i < length && node != nullptr; ++i)
        node = step(*node, static_cast<uint8_t>(text[s.pos + i]));
      if (node == nullptr || node->token < 0 || !allowed(*node, s.pos, s.pos + length)) continue;
      std::fill_n(taken.begin() + static_cast<ptrdiff_t>(s.pos), length, true);
      cuts.push_back({s.pos, length, node->token});
    }
  }
  std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) { return a.pos < b.pos; });
  size_t done = 0;
  for (const Cut& c : cuts) {
    if (c.pos > done) parts.push_back({text.substr(done, c.pos - done), -1});
    parts.push_back({text.substr(c.pos, c.length), c.token});
    done = c.pos + c.length;
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
  return parts;
}

}  // namespace gale::text
