// Marked text and the character classes of Python that chat templates depend on.
#include "text/jinja_text.h"

#include <cstring>

namespace gale::text::jinja {

void MarkedText::append(std::string_view bytes, bool from_template) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_ = from_template;
  } else if ((first_ == (flips_.size() % 2 == 0)) != from_template) {
    flips_.push_back(bytes_.size());
  }
  bytes_.append(bytes);
}

void MarkedText::append_slice(const MarkedText& other, size_t begin, size_t end) {
  other.for_each_run(begin, end, [&](std::string_view bytes, bool from_template) { append(bytes, from_template); });
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  MarkedText out;
  out.append_slice(*this, begin, end);
  return out;
}

bool MarkedText::from_template_at(size_t offset) const {
  const auto flip = std::upper_bound(flips_.begin(), flips_.end(), offset);
  return first_ == ((flip - flips_.begin()) % 2 == 0);
}

char32_t code_point_at(std::string_view bytes, size_t offset, size_t* size) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[offset + i]); };
  const unsigned char lead = byte(0);
  *size = 1;
  size_t length = 0;
  char32_t code = 0;
  if (lead < 0x80) return lead;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code = lead & 0x0F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code = lead & 0x07;
  } else {
    return lead;
  }
  if (bytes.size() - offset < length) return lead;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return lead;
    code = (code << 6) | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return lead;
  *size = length;
  return code;
}

size_t character_size(std::string_view bytes, size_t offset) {
  size_t size = 1;
  code_point_at(bytes, offset, &size);
  return size;
}

size_t count_characters(std::string_view bytes) {
  size_t count = 0;
  for (size_t i = 0; i < bytes.size(); i += character_size(bytes, i)) ++count;
  return count;
}

size_t character_offset(std::string_view bytes, size_t number) {
  size_t offset = 0;
  for (; number > 0 && offset < bytes.size(); --number) offset += character_size(bytes, offset);
  return offset;
}

void append_code_point(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

size_t find_bytes(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size() || part.size() > text.size() - from) return std::string_view::npos;
  if (part.empty()) return from;
  // The C library searches in linear time, std::string_view::find does not.
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t rfind_bytes(std::string_view text, std::string_view part) {
  // Short parts cannot take more than a constant factor.
  if (part.size() <= 16) return text.rfind(part);
  const std::string reversed(text.rbegin(), text.rend()), reversed_part(part.rbegin(), part.rend());
  const size_t found = find_bytes(reversed, reversed_part);
  return found == std::string_view::npos ? found : text.size() - found - part.size();
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

bool is_digit(char32_t code) {
  return code >= '0' && code <= '9';
}

char32_t to_lower(char32_t code) {
  if (code >= 'A' && code <= 'Z') return code + 32;
  if (code < 0xC0) return code;
  if (code <= 0xDE) return code == 0xD7 ? code : code + 32;
  if (code >= 0x100 && code <= 0x17F) {
    if (code == 0x178) return 0xFF;
    if (code == 0x130 || code == 0x149 || code == 0x17F || code == 0x131 || code == 0x138) return code;
    const bool odd_is_upper = (code >= 0x139 && code <= 0x148) || code >= 0x179;
    return (code % 2 == 1) == odd_is_upper ? code + 1 : code;
  }
  if (code >= 0x391 && code <= 0x3AB) return code == 0x3A2 ? code : code + 32;
  if (code == 0x386) return 0x3AC;
  if (code >= 0x388 && code <= 0x38A) return code + 37;
  if (code == 0x38C) return 0x3CC;
  if (code == 0x38E || code == 0x38F) return code + 63;
  if (code >= 0x410 && code <= 0x42F) return code + 32;
  if (code >= 0x400 && code <= 0x40F) return code + 80;
  if ((code >= 0x460 && code <= 0x481) || (code >= 0x48A && code <= 0x4BF) || (code >= 0x4D0 && code <= 0x52F) ||
      (code >= 0x1E00 && code <= 0x1E95) || (code >= 0x1EA0 && code <= 0x1EFF)) {
    return code % 2 == 0 ? code + 1 : code;
  }
  if (code >= 0x531 && code <= 0x556) return code + 48;
  return code;
}

char32_t to_upper(char32_t code) {
  if (code >= 'a' && code <= 'z') return code - 32;
  if (code < 0xB5) return code;
  if (code == 0xB5) return 0x39C;
  if (code < 0xE0) return code;
  if (code <= 0xFE) return code == 0xF7 ? code : code - 32;
  if (code == 0xFF) return 0x178;
  if (code >= 0x100 && code <= 0x17F) {
    if (code == 0x131) return 'I';
    if (code == 0x17F) return 'S';
    if (code == 0x130 || code == 0x149 || code == 0x138 || code == 0x178) return code;
    const bool odd_is_upper = (code >= 0x139 && code <= 0x148) || code >= 0x179;
    return (code % 2 == 1) == odd_is_upper ? code : code - 1;
  }
  if (code == 0x3C2) return 0x3A3;
  if (code >= 0x3B1 && code <= 0x3CB) return code - 32;
  if (code == 0x3AC) return 0x386;
  if (code >= 0x3AD && code <= 0x3AF) return code - 37;
  if (code == 0x3CC) return 0x38C;
  if (code == 0x3CD || code == 0x3CE) return code - 63;
  if (code >= 0x430 && code <= 0x44F) return code - 32;
  if (code >= 0x450 && code <= 0x45F) return code - 80;
  if ((code >= 0x460 && code <= 0x481) || (code >= 0x48A && code <= 0x4BF) || (code >= 0x4D0 && code <= 0x52F) ||
      (code >= 0x1E00 && code <= 0x1E95) || (code >= 0x1EA0 && code <= 0x1EFF)) {
    return code % 2 == 1 ? code - 1 : code;
  }
  if (code >= 0x561 && code <= 0x586) return code - 48;
  return code;
}

bool is_upper(char32_t code) {
  return to_lower(code) != code;
}
bool is_lower(char32_t code) {
  return to_upper(code) != code || code == 0xDF;
}

bool is_letter(char32_t code) {
  if (code < 0x80) return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
  if (code < 0xC0) return code == 0xAA || code == 0xB5 || code == 0xBA;
  return code != 0xD7 && code != 0xF7 && !is_space(code) && !(code >= 0x2000 && code <= 0x206F) &&
         !(code >= 0x20A0 && code <= 0x20CF) && !(code >= 0x2190 && code <= 0x2BFF) &&
         !(code >= 0x3000 && code <= 0x3004) && !(code >= 0x3008 && code <= 0x3020) &&
         !(code >= 0xE000 && code <= 0xF8FF) && !(code >= 0xFE00 && code <= 0xFE0F) &&
         !(code >= 0xFF00 && code <= 0xFF20) && !(code >= 0x1F000 && code <= 0x1FAFF);
}

bool is_printable(char32_t code) {
  if (code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD) return false;
  if (is_space(code)) return code == ' ';
  return !(code >= 0x200B && code <= 0x200F) && !(code >= 0x202A && code <= 0x202E) &&
         !(code >= 0x2060 && code <= 0x206F) && code != 0xFEFF && !(code >= 0xE000 && code <= 0xF8FF) &&
         !(code >= 0xFFF9 && code <= 0xFFFB) && code < 0xE0000;
}

}  // namespace gale::text::jinja
