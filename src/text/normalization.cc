// Unicode normal forms (by utf8proc), SentencePiece's replacement tables, and superfluous spaces.
#include "text/normalization.h"

#include <utf8proc.h>

#include <cstdlib>
#include <cstring>

#include "text/unicode.h"

namespace gale::text {
namespace {

bool is_ascii(std::string_view text) {
  size_t i = 0;
  for (uint64_t eight; text.size() - i >= sizeof(eight); i += sizeof(eight)) {
    std::memcpy(&eight, text.data() + i, sizeof(eight));
    if ((eight & 0x8080808080808080u) != 0) return false;
  }
  for (; i < text.size(); ++i) {
    if (static_cast<uint8_t>(text[i]) >= 0x80) return false;
  }
  return true;
}

// A character that NFC leaves alone whatever stands before it, so that text may be cut in front of it. Common ranges
// first; a character for which this says no without need costs time only.
bool is_composed_starter(uint32_t point) {
  if (point < 0x300 || (point >= 0x4E00 && point <= 0x9FFF) || (point >= 0xAC00 && point <= 0xD7A3)) return true;
  if (point >= 0x1100 && point <= 0x11FF) return false;  // Hangul letters join to syllables
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(point));
  const bool mark = property->category == UTF8PROC_CATEGORY_MN || property->category == UTF8PROC_CATEGORY_MC;
  return !mark && property->decomp_seqindex == UINT16_MAX;  // all that join the character before are marks
}

int map_options(Normalization form) {
  switch (form) {
    case Normalization::none:
      return 0;
    case Normalization::nfc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case Normalization::nfd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case Normalization::nfkc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case Normalization::nfkd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

// Appends the normal form of valid UTF-8.
void append_normal_form(std::string& out, std::string_view text, Normalization form) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(map_options(form)));
  if (size >= 0) {
    out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  } else {
    out.append(text);
  }
  std::free(mapped);
}

struct ValidChar {
  uint32_t point = 0;
  uint32_t length = 0;  // 0: no character of Unicode begins here
};

ValidChar valid_char(std::string_view text) {
  const Utf8Char c = decode_utf8(text);
  const bool surrogate = c.point >= 0xD800 && c.point <= 0xDFFF;
  return c.length == 0 || !c.shortest || surrogate ? ValidChar{} : ValidChar{c.point, c.length};
}

// Normalises the stretches that need it. What is no UTF-8 stays and ends a stretch.
std::string_view normal_form(std::string_view text, std::string& storage, Normalization form) {
  if (is_ascii(text)) return text;
  size_t done = 0;            // all before is in `storage`
  size_t start = 0;           // of the stretch: the last place where text may be cut
  bool needs_change = false;  // does it?
  bool changed = false;
  const auto finish_stretch = [&](size_t end) {
    if (needs_change) {
      if (!changed) storage.clear();
      changed = true;
      storage.append(text.substr(done, start - done));
      append_normal_form(storage, text.substr(start, end - start), form);
      done = end;
    }
    start = end;
    needs_change = false;
  };
  for (size_t i = 0; i < text.size();) {
    const ValidChar c = valid_char(text.substr(i));
    if (c.length == 0) {
      finish_stretch(i);
      start = ++i;
      continue;
    }
    if (form == Normalization::nfc ? is_composed_starter(c.point) : c.point < 0x80) {
      finish_stretch(i);
    } else {
      needs_change = true;
    }
    i += c.length;
  }
  finish_stretch(text.size());
  if (!changed) return text;
  storage.append(text.substr(done));
  return storage;
}

// As SentencePiece does it: no space at the start or behind another, and at the end neither spaces nor U+2581.
void keep_single_spaces(std::string& text) {
  constexpr std::string_view mark = "\xE2\x96\x81";
  size_t out = 0;
  const auto ends_with = [&](std::string_view end) { return std::string_view(text.data(), out).ends_with(end); };
  for (const char c : text) {
    if (c == ' ' && (out == 0 || ends_with(" "))) continue;
    text[out++] = c;
  }
  for (;;) {
    if (ends_with(" ")) {
      --out;
    } else if (ends_with(mark)) {
      out -= mark.size();
    } else {
      break;
    }
  }
  text.resize(out);
}

}  // namespace

Status Charsmap::read(std::string_view bytes) {
  uint32_t size = 0;
  if (bytes.size() < sizeof(size)) {
    return fail(ErrorKind::invalid_input, "the table of replacements (precompiled_charsmap) has {} bytes only",
                bytes.size());
  }
  std::memcpy(&size, bytes.data(), sizeof(size));
  if (size == 0 || size % sizeof(uint32_t) != 0 || size > bytes.size() - sizeof(size)) {
    return fail(ErrorKind::invalid_input, "precompiled_charsmap: a trie of {} bytes doesn't fit the {} bytes there are",
                size, bytes.size());
  }
  trie_ = bytes.substr(sizeof(size), size);
  strings_ = bytes.substr(sizeof(size) + size);
  return {};
}

uint32_t Charsmap::unit(size_t at) const {
  uint32_t value;
  std::memcpy(&value, trie_.data() + at * sizeof(value), sizeof(value));
  return value;
}

// A unit of the double array: bits 0-7 label, 8 "a text ends here", 9 "offset is in 256s", 10-30 offset. The unit of an
// ended text holds in bits 0-30 where its replacement lies.
size_t Charsmap::match(std::string_view text, std::string_view& replacement) const {
  const auto offset = [](uint32_t u) -> size_t { return (u & 1u << 9) != 0 ? size_t{u >> 10} << 8 : u >> 10; };
  const size_t count = trie_.size() / sizeof(uint32_t);
  size_t at = offset(unit(0));
  size_t longest = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (at >= count) break;
    const uint32_t u = unit(at);
    if ((u & (1u << 31 | 0xFFu)) != byte) break;
    at ^= offset(u);
    if (at >= count) break;
    if ((u & 1u << 8) == 0) continue;
    const size_t begin = unit(at) & 0x7FFFFFFFu;
    if (begin >= strings_.size()) continue;
    longest = i + 1;
    replacement = strings_.substr(begin, strings_.find('\0', begin) - begin);
  }
  return longest;
}

void Charsmap::apply(std::string_view text, std::string& out) const {
  out.reserve(out.size() + text.size());
  while (!text.empty()) {
    std::string_view replacement;
    size_t length = match(text, replacement);
    if (length == 0) {
      length = std::max<size_t>(valid_char(text).length, 1);
      replacement = text.substr(0, length);
    }
    out += replacement;
    text.remove_prefix(length);
  }
}

Status Normalizer::create(const VocabularySource& source, Normalization form) {
  form_ = form;
  single_spaces_ = source.remove_extra_whitespaces.value_or(false);
  return source.charsmap.empty() ? Status() : charsmap_.read(source.charsmap);
}

std::string_view Normalizer::apply(std::string_view text, std::string& storage) const {
  if (!changes_text()) return text;
  std::string_view result = text;
  if (form_ != Normalization::none) result = normal_form(text, storage, form_);
  if (charsmap_.empty() && !single_spaces_) return result;
  std::string mapped;
  if (charsmap_.empty()) {
    mapped = result;
  } else {
    charsmap_.apply(result, mapped);
  }
  if (single_spaces_) keep_single_spaces(mapped);
  storage = std::move(mapped);
  return storage;
}

}  // namespace gale::text
