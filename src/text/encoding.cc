// Ordinary text to tokens: words, symbols, merges, and what happens to bytes that the vocabulary can't spell.
#include <algorithm>
#include <bit>

#include "text/merging.h"
#include "text/tokenizer_data.h"
#include "text/unicode.h"

namespace gale::text {
namespace {

// Longer words are cut, so that positions fit 32 bits.
constexpr size_t longest_word = size_t{1} << 30;

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581

// Where words of this text came up before, and which tokens they became: text repeats its words.
class WordCache {
 public:
  // Room in proportion to the text: short ones need none.
  explicit WordCache(size_t text_bytes) {
    constexpr size_t bytes_per_entry = 64, smallest = 64, largest = 16384;
    const size_t count = std::bit_floor(std::min(text_bytes / bytes_per_entry, largest));
    if (count >= smallest) entries_.resize(count);
  }
  struct Entry {
    std::string_view word;
    size_t first = 0;    // of its tokens, in the output
    uint32_t count = 0;  // 0: the entry is empty
  };
  // The only place where this word may be; nullptr: there is no cache.
  Entry* entry(std::string_view word) {
    if (entries_.empty()) return nullptr;
    return &entries_[hash_bytes(word, seed_) & (entries_.size() - 1)];
  }

 private:
  std::vector<Entry> entries_;
  uint64_t seed_ = table_seed();
};

class Encoder {
 public:
  Encoder(const TokenizerData& data, size_t text_bytes, std::vector<Token>& out)
      : data_(data), out_(out), first_(out.size()), cache_(text_bytes) {}

  void bytes(std::string_view text) {
    std::string storage;
    words(repair_utf8(text, storage, &lost_));
  }

  void characters(std::string_view text, bool prefix) {
    std::string escaped;
    escaped.reserve(text.size() + text.size() / 2 + 3);
    if (prefix) escaped += space_mark;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(' ', begin), text.size());
      escaped += text.substr(begin, end - begin);
      if (end < text.size()) escaped += space_mark;
      begin = end + 1;
    }
    // A U+2581 of the text itself can't be told from a space afterwards.
    for (size_t at = text.find(space_mark); at < text.size(); at = text.find(space_mark, at + space_mark.size())) {
      lost_ += space_mark.size();
    }
    words(escaped);
  }

  size_t lost() const { return lost_; }

 private:
  void words(std::string_view text) {
    if (data_.rule == WordRule::patterns) {
      std::vector<std::string_view> list;
      data_.patterns.cut(text, list);
      for (const std::string_view w : list) pieces(w);
      return;
    }
    if (data_.rule == WordRule::whole || data_.rule == WordRule::spaces) return pieces(text);
    const WordScanner scanner(data_.rule, text);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = scanner.next(begin);
      pieces(text.substr(begin, end - begin));
      begin = end;
    }
  }

  // What of a word can be looked at alone.
  void pieces(std::string_view text) {
    if (data_.alphabet == Alphabet::characters) return cut_where_nothing_joins(text);
    for (; text.size() > longest_word; text.remove_prefix(longest_word)) word(text.substr(0, longest_word));
    word(text);
  }

  // Cutting between bytes that no token holds side by side changes nothing, and makes words that can be looked up. Of
  // U+2581 the whole character is looked at: other characters begin with its first byte too.
  void cut_where_nothing_joins(std::string_view all) {
    // A run of newlines of Gemma 4 is that token, if there is one, however it would be merged.
    if (data_.rule == WordRule::newlines && all.starts_with('\n')) {
      if (const Token token = data_.find_spellable(all); token >= 0) return out_.push_back(token);
    }
    size_t begin = 0;
    for (size_t at = 0; at < all.size();) {
      const auto first = static_cast<uint8_t>(all[at]);
      const bool border = at > begin && is_border(all, at);
      if (border || at - begin > longest_word) {
        word(all.substr(begin, at - begin));
        begin = at;
      }
      const size_t next = std::min(at + utf8_length(first), all.size());
      // A byte that announces a longer character than there is takes the space behind it along: the bytes of U+2581
      // remain.
      for (size_t i = at + 1; i < next; ++i) {
        if (all[i] == space_mark[0] && all.substr(i).starts_with(space_mark)) ++lost_;
      }
      at = next;
    }
    if (begin < all.size()) word(all.substr(begin));
  }

  bool is_border(std::string_view text, size_t at) const {
    const auto before = static_cast<uint8_t>(text[at - 1]);
    const auto first = static_cast<uint8_t>(text[at]);
    if (!data_.joins_bytes[static_cast<size_t>(before) << 8 | first]) return true;
    return first == static_cast<uint8_t>(space_mark[0]) &&
           (data_.rule == WordRule::spaces || !data_.joins_space[before]) && text.substr(at).starts_with(space_mark);
  }

  void word(std::string_view text) {
    const Token token = data_.find_spellable(text);
    if (token >= 0 && (data_.whole_words || whole(token).load(std::memory_order_relaxed) == Whole::yes)) {
      out_.push_back(token);
      return;
    }
    WordCache::Entry* const entry = cache_.entry(text);
    if (entry != nullptr && entry->count > 0 && entry->word == text) {
      for (size_t i = 0; i < entry->count; ++i) {
        const Token repeated = out_[entry->first + i];  // not a reference: push_back may move the tokens
        out_.push_back(repeated);
      }
      return;
    }
    join(text);
    const std::vector<Symbol>& symbols = space_.symbols;
    if (token >= 0) {
      const bool same = symbols.size() == 1 && symbols[0].token == token;
      whole(token).store(same ? Whole::yes : Whole::no, std::memory_order_relaxed);
    }
    const size_t first = out_.size();
    bool spelled = false;
    for (const Symbol& symbol : symbols) {
      if (symbol.token >= 0) {
        out_.push_back(symbol.token);
      } else {
        spell(text.substr(symbol.begin, symbol.length));
        spelled = true;
      }
    }
    // What is lost is counted each time, and an unknown token depends on the one before.
    if (entry != nullptr && !spelled) *entry = {text, first, static_cast<uint32_t>(out_.size() - first)};
  }

  // Leaves the tokens of a word in space_.symbols.
  void join(std::string_view text) {
    if (data_.joining == Joining::unigram) return data_.unigram.cut(text, space_);
    std::vector<Symbol>& symbols = space_.symbols;
    symbols.clear();
    const bool bytes = data_.alphabet == Alphabet::bytes;
    for (size_t i = 0; i < text.size();) {
      const auto first = static_cast<uint8_t>(text[i]);
      const size_t length = bytes ? 1 : std::min(utf8_length(first), text.size() - i);
      const Token token = bytes ? data_.byte_tokens[first] : data_.find_spellable(text.substr(i, length));
      symbols.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(length), -1, -1, token});
      i += length;
    }
    if (data_.joining == Joining::merges) {
      merge_symbols(space_, [&](const Symbol& a, const Symbol& b) { return data_.merges.find(a.token, b.token); });
    } else {
      merge_symbols(space_, [&](const Symbol& a, const Symbol& b) {
        const Token joined = data_.find_spellable(text.substr(a.begin, a.length + b.length));
        return joined < 0 ? Merge{} : Merge{data_.priorities[static_cast<size_t>(joined)], joined};
      });
    }
  }

  // A symbol that is no token.
  void spell(std::string_view symbol) {
    if (!data_.byte_fallback) {
      lost_ += symbol.size();
      return put_unknown();
    }
    for (const char c : symbol) {
      const Token token = data_.byte_tokens[static_cast<uint8_t>(c)];
      if (token >= 0) {
        out_.push_back(token);
        continue;
      }
      ++lost_;
      if (data_.alphabet == Alphabet::bytes) {
        out_.insert(out_.end(), data_.replacement.begin(), data_.replacement.end());
      } else {
        put_unknown();
      }
    }
  }

  void put_unknown() {
    if (data_.unknown < 0 || (data_.joins_unknown && out_.size() > first_ && out_.back() == data_.unknown)) return;
    out_.push_back(data_.unknown);
  }

  std::atomic<Whole>& whole(Token token) { return data_.whole[static_cast<size_t>(token)]; }

  const TokenizerData& data_;
  std::vector<Token>& out_;
  size_t first_;  // of out_ that this text gave
  MergeSpace space_;
  WordCache cache_;
  size_t lost_ = 0;
};

}  // namespace

size_t encode_ordinary(const TokenizerData& data, std::string_view text, bool prefix, std::vector<Token>& out) {
  Encoder encoder(data, text.size(), out);
  if (data.alphabet == Alphabet::bytes) {
    encoder.bytes(text);
  } else {
    encoder.characters(
        text, prefix && !(data.prefix_unless_space && (text.starts_with(' ') || text.starts_with(space_mark))));
  }
  return encoder.lost();
}

}  // namespace gale::text
