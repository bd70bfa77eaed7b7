// UTF-8 decoding with one rule for broken input, and look-up of character classes.
#include "text/unicode.h"

#include <algorithm>
#include <cstring>

namespace gale::text {

CharTable::CharTable() : direct_(new uint8_t[direct_size]) {
  for (size_t i = 0; i < unicode_range_count; ++i) {
    const uint32_t first = unicode_ranges[i] >> 8;
    const uint32_t next = i + 1 < unicode_range_count ? unicode_ranges[i + 1] >> 8 : 0x110000;
    if (first >= direct_size) break;
    std::memset(direct_.get() + first, static_cast<int>(unicode_ranges[i] & 0xFF), std::min(next, direct_size) - first);
  }
}

const CharTable& CharTable::instance() {
  static const CharTable table;
  return table;
}

CharMask CharTable::search(uint32_t point) {
  if (point > 0x10FFFF) return mask_other;
  const uint32_t* end = unicode_ranges + unicode_range_count;
  const uint32_t* found = std::upper_bound(unicode_ranges, end, point << 8 | 0xFF);
  return mask_of(static_cast<CharClass>(found[-1] & 0xFF));
}

void append_utf8(std::string& out, uint32_t point) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6);
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

Utf8Char decode_utf8(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {first, 1, true};
  if (first < 0xC0 || first >= 0xF8) return {};
  const size_t length = utf8_length(first);
  if (text.size() < length) return {};
  uint32_t point = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) return {};
    point = point << 6 | (byte & 0x3F);
  }
  if (point > 0x10FFFF) return {};
  constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  return {point, static_cast<uint32_t>(length), point >= smallest[length]};
}

std::string_view repair_utf8(std::string_view text, std::string& storage, size_t* changed_bytes) {
  bool copying = false;
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight;
    if (!copying && text.size() - i >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof(eight);
        continue;
      }
    }
    const Utf8Char c = decode_utf8(text.substr(i));
    const bool good = c.length > 0 && c.shortest;
    if (!good && !copying) {
      storage.assign(text.substr(0, i));
      copying = true;
    }
    const size_t length = std::max<size_t>(c.length, 1);
    if (copying) append_utf8(storage, c.length > 0 ? c.point : 0xFFFD);
    if (!good) *changed_bytes += length;
    i += length;
  }
  return copying ? std::string_view(storage) : text;
}

}  // namespace gale::text
