// Streams of tokens to text that can be shown at once: whole characters only, and nothing of a stop string.
#include <algorithm>

#include "text/tokenizer.h"

namespace gale::text {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

// The longest start of `text` (not empty) that is a character or may become one, by the Unicode standard's table of
// well-formed sequences. `whole`: it is one. Length 0: the first byte begins no character.
size_t character_start(std::string_view text, bool& whole) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  whole = first < 0x80;
  if (whole) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return i;
    const uint8_t low = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < low || byte(i) > high) return i;
  }
  whole = true;
  return length;
}

// Moves all that is decided from `pending` to the result; `last`: everything is.
std::string take_characters(std::string& pending, bool last) {
  std::string out;
  size_t i = 0;
  while (i < pending.size()) {
    const std::string_view rest = std::string_view(pending).substr(i);
    bool whole = false;
    const size_t length = character_start(rest, whole);
    if (!whole && length == rest.size() && !last) break;
    out += whole ? rest.substr(0, length) : replacement;
    i += std::max<size_t>(length, 1);
  }
  pending.erase(0, i);
  return out;
}

}  // namespace

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, bool continues)
    : tokenizer_(&tokenizer), at_start_(!continues && tokenizer.adds_space_prefix()) {}

std::string StreamingDetokenizer::push(Token token) {
  std::string text = tokenizer_->piece(token);
  const TokenKind kind = tokenizer_->kind(token);
  if (at_start_ && kind != TokenKind::control) {
    if (text.starts_with(' ') && kind != TokenKind::user_defined) text.erase(0, 1);
    at_start_ = false;
  }
  pending_ += text;
  return take_characters(pending_, false);
}

std::string StreamingDetokenizer::finish() {
  return take_characters(pending_, true);
}

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_) return {};
  const size_t old = pending_.size();
  pending_ += text;
  const std::string_view all = pending_;
  // The stop that is complete first counts, of several that end there the longest: the same wherever the text is cut.
  for (size_t end = old + 1; end <= all.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops_) {
      if (stop.back() == all[end - 1] && all.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) {
      stopped_ = true;
      std::string shown = pending_.substr(0, end - longest);
      pending_.clear();
      return shown;
    }
  }
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, all.size()); n > keep; --n) {
      if (all.ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
  }
  std::string shown = pending_.substr(0, pending_.size() - keep);
  pending_.erase(0, pending_.size() - keep);
  return shown;
}

std::string StopStrings::finish() {
  std::string rest = std::move(pending_);
  pending_.clear();
  return rest;
}

}  // namespace gale::text
