// A set of texts as a trie: finds which of them some text begins with.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gale::text {

// Immutable after creation.
class Trie {
 public:
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edge_count = 0;
    int32_t value = -1;  // index of the text that ends here; -1: none does
  };
  // `texts` in rising order, all different, none empty.
  void create(std::span<const std::string_view> texts);
  // nullptr: nothing was put in.
  const Node* root() const { return nodes_.empty() ? nullptr : nodes_.data(); }
  // nullptr: no text goes on like this.
  const Node* step(const Node& node, uint8_t byte) const;
  // Index of exactly this text; -1: it is not there.
  int32_t find(std::string_view text) const;

 private:
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  std::vector<Node> nodes_;  // breadth first
  std::vector<Edge> edges_;
};

}  // namespace gale::text
