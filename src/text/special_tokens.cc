// The cutting of text along special tokens.
#include "text/special_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace gale::text {
namespace {

// The character that ends at `end` > 0.
uint32_t character_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  const Utf8Char c = decode_utf8(text.substr(begin, end - begin));
  return c.length == end - begin ? c.point : 0xFFFD;
}

CharMask mask_before(std::string_view text, size_t end) {
  return end == 0 ? 0 : CharTable::instance().mask(character_before(text, end));
}

CharMask mask_behind(std::string_view text, size_t begin) {
  return begin >= text.size() ? 0 : CharTable::instance().mask(decode_utf8(text.substr(begin)).point);
}

bool touches_word(std::string_view text, size_t begin, size_t end) {
  constexpr CharMask word = mask_letter | mask_number | mask_mark;
  return (mask_before(text, begin) & word) != 0 || (mask_behind(text, end) & word) != 0 ||
         (begin > 0 && text[begin - 1] == '_') || (end < text.size() && text[end] == '_');
}

size_t skip_space_left(std::string_view text, size_t end, size_t least) {
  while (end > least && (mask_before(text, end) & mask_space) != 0) {
    do --end;
    while (end > least && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
  }
  return end;
}

size_t skip_space_right(std::string_view text, size_t begin) {
  while ((mask_behind(text, begin) & mask_space) != 0)
    begin += std::max<size_t>(decode_utf8(text.substr(begin)).length, 1);
  return begin;
}

}  // namespace

void SpecialTokens::create(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  entries.erase(
      std::unique(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text == b.text; }),
      entries.end());
  entries_ = std::move(entries);
  first_pairs_.assign(65536, 0);
  std::vector<std::string_view> texts;
  for (const Entry& e : entries_) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(e.text[i]); };
    first_bytes_[byte(0)] = true;
    if (e.text.size() == 1) {
      single_bytes_[byte(0)] = true;
    } else {
      first_pairs_[static_cast<size_t>(byte(0)) << 8 | byte(1)] = 1;
    }
    texts.push_back(e.text);
  }
  trie_.create(texts);
}

Token SpecialTokens::find(std::string_view text) const {
  const int32_t at = trie_.find(text);
  return at < 0 ? -1 : entries_[static_cast<size_t>(at)].rule.token;
}

const SpecialTokens::Entry* SpecialTokens::match(std::string_view text, size_t begin, bool special,
                                                 std::span<const PlainRange> plain) const {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (!first_bytes_[byte(begin)]) return nullptr;
  const bool pair =
      begin + 1 < text.size() && first_pairs_[static_cast<size_t>(byte(begin)) << 8 | byte(begin + 1)] != 0;
  if (!pair && !single_bytes_[byte(begin)]) return nullptr;
  const auto allowed = [&](const Entry& entry, size_t end) {
    if (entry.always || !special) return entry.always;
    const auto range =
        std::upper_bound(plain.begin(), plain.end(), begin, [](size_t at, const PlainRange& r) { return at < r.end; });
    return range == plain.end() || range->begin >= end;
  };
  const Entry* longest = nullptr;
  const Trie::Node* node = trie_.root();
  for (size_t i = begin; i < text.size(); ++i) {
    node = trie_.step(*node, byte(i));
    if (node == nullptr) break;
    if (node->value < 0) continue;
    const Entry& entry = entries_[static_cast<size_t>(node->value)];
    if (allowed(entry, i + 1)) longest = &entry;
  }
  return longest;
}

std::vector<TextPart> SpecialTokens::cut(std::string_view text, bool special, std::span<const PlainRange> plain) const {
  std::vector<TextPart> parts;
  if (text.empty()) return parts;
  if (entries_.empty()) return {{text, -1}};
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Entry* entry = match(text, pos, special, plain);
    if (entry == nullptr) {
      ++pos;
      continue;
    }
    size_t begin = pos;
    size_t end = pos + entry->text.size();
    pos = end;
    if (entry->rule.whole_word && touches_word(text, begin, end)) continue;
    if (entry->rule.strips_left) begin = skip_space_left(text, begin, done);
    if (entry->rule.strips_right) end = skip_space_right(text, end);
    if (begin > done) parts.push_back({text.substr(done, begin - done), -1});
    parts.push_back({entry->text, entry->rule.token});
    done = pos = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
  return parts;
}

}  // namespace gale::text
