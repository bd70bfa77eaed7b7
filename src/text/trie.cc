// Building and walking the trie.
#include "text/trie.h"

#include <algorithm>

namespace gale::text {

void Trie::create(std::span<const std::string_view> texts) {
  // Each node stands for a range of the sorted texts that share `depth` first bytes.
  struct Range {
    size_t first, last, depth;
  };
  nodes_.assign(1, {});
  edges_.clear();
  std::vector<Range> ranges{{0, texts.size(), 0}};
  for (size_t n = 0; n < ranges.size(); ++n) {
    auto [first, last, depth] = ranges[n];
    if (first < last && texts[first].size() == depth) nodes_[n].value = static_cast<int32_t>(first++);
    nodes_[n].first_edge = static_cast<uint32_t>(edges_.size());
    while (first < last) {
      const char byte = texts[first][depth];
      size_t end = first + 1;
      while (end < last && texts[end][depth] == byte) ++end;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
      nodes_.emplace_back();
      ranges.push_back({first, end, depth + 1});
      first = end;
    }
    nodes_[n].edge_count = static_cast<uint32_t>(edges_.size()) - nodes_[n].first_edge;
  }
}

const Trie::Node* Trie::step(const Node& node, uint8_t byte) const {
  const auto begin = edges_.begin() + node.first_edge;
  const auto end = begin + node.edge_count;
  const auto found = std::lower_bound(begin, end, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
  return found != end && found->byte == byte ? &nodes_[found->node] : nullptr;
}

int32_t Trie::find(std::string_view text) const {
  const Node* node = root();
  for (size_t i = 0; i < text.size() && node != nullptr; ++i) node = step(*node, static_cast<uint8_t>(text[i]));
  return node == nullptr ? -1 : node->value;
}

}  // namespace gale::text
