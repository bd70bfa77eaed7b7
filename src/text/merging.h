// The merge loop of byte-pair encoding: the best pair of neighbours is joined until no pair is left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "text/token_table.h"

namespace gale::text {

// A stretch of the word that is being merged. `token` -1: no token is spelled like it (yet it may be part of one).
struct Symbol {
  uint32_t begin = 0;
  uint32_t length = 0;  // 0: swallowed by its left neighbour
  int32_t previous = -1;
  int32_t next = -1;
  Token token = -1;
};

// Buffers of one encode call, kept from word to word.
struct MergeSpace {
  struct Candidate {
    uint64_t order;   // priority, then the index of the left symbol: ties go to the leftmost pair
    uint32_t length;  // of both symbols when the candidate was found; any change makes it stale
    Token token;
    bool operator<(const Candidate& other) const { return order > other.order; }  // best on top of the heap
  };
  std::vector<Symbol> symbols;  // of the word, `previous` and `next` not set; after merge_symbols: the result
  std::vector<Candidate> heap;
  std::vector<Merge> merges;
  // Of a Unigram search: the best way to one place of the word.
  struct Step {
    double score = 0;
    int32_t begin = -1;  // where its last symbol begins; -1: no way leads here
    Token token = -1;
  };
  std::vector<Step> steps;
};

// Few symbols: looking for the best of all pairs is faster than a heap. Same result as merge_many.
template <class Lookup>
void merge_few(MergeSpace& space, const Lookup& lookup) {
  std::vector<Symbol>& symbols = space.symbols;
  std::vector<Merge>& merges = space.merges;
  merges.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) merges.push_back(lookup(symbols[i], symbols[i + 1]));
  while (!merges.empty()) {
    const auto best = std::min_element(merges.begin(), merges.end(),
                                       [](const Merge& a, const Merge& b) { return a.priority < b.priority; });
    if (best->priority == UINT32_MAX) return;
    const size_t i = static_cast<size_t>(best - merges.begin());
    symbols[i].length += symbols[i + 1].length;
    symbols[i].token = best->token;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(i) + 1);
    merges.erase(best);
    if (i > 0) merges[i - 1] = lookup(symbols[i - 1], symbols[i]);
    if (i < merges.size()) merges[i] = lookup(symbols[i], symbols[i + 1]);
  }
}

// O(n log n): a linked list of symbols and a heap of pairs that may be stale.
template <class Lookup>
void merge_many(MergeSpace& space, const Lookup& lookup) {
  std::vector<Symbol>& symbols = space.symbols;
  std::vector<MergeSpace::Candidate>& heap = space.heap;
  heap.clear();
  const auto consider = [&](int32_t left, int32_t right) {
    const Symbol& a = symbols[static_cast<size_t>(left)];
    const Symbol& b = symbols[static_cast<size_t>(right)];
    const Merge merge = lookup(a, b);
    if (merge.priority == UINT32_MAX) return false;
    heap.push_back(
        {static_cast<uint64_t>(merge.priority) << 32 | static_cast<uint32_t>(left), a.length + b.length, merge.token});
    return true;
  };
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : -1;
    if (i > 0) consider(i - 1, i);
  }
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const MergeSpace::Candidate best = heap.back();
    heap.pop_back();
    const auto at = static_cast<int32_t>(best.order & UINT32_MAX);
    Symbol& left = symbols[static_cast<size_t>(at)];
    if (left.length == 0 || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (left.length + right.length != best.length) continue;
    left.length = best.length;
    left.token = best.token;
    right.length = 0;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = at;
    if (left.previous >= 0 && consider(left.previous, at)) std::push_heap(heap.begin(), heap.end());
    if (left.next >= 0 && consider(at, left.next)) std::push_heap(heap.begin(), heap.end());
  }
  std::erase_if(symbols, [](const Symbol& s) { return s.length == 0; });
}

// `lookup(left, right)` gives the Merge of two neighbours. All lengths > 0, at most 2^30 bytes in all.
template <class Lookup>
void merge_symbols(MergeSpace& space, const Lookup& lookup) {
  constexpr size_t few = 24;
  if (space.symbols.size() <= few) {
    merge_few(space, lookup);
  } else {
    merge_many(space, lookup);
  }
}

}  // namespace gale::text
