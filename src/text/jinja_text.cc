// Marked text and the character classes of Python that chat templates depend on.
#include "text/jinja_text.h"

#include <utf8proc.h>

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

namespace {

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

}  // namespace

bool is_digit(char32_t code) {
  return code >= '0' && code <= '9';
}

bool is_decimal(char32_t code) {
  return category_of(code) == UTF8PROC_CATEGORY_ND;
}

bool is_numeric(char32_t code) {
  const utf8proc_category_t category = category_of(code);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_letter(char32_t code) {
  const utf8proc_category_t category = category_of(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_upper(char32_t code) {
  return category_of(code) == UTF8PROC_CATEGORY_LU;
}

bool is_lower(char32_t code) {
  return category_of(code) == UTF8PROC_CATEGORY_LL || code == 0xAA || code == 0xBA;
}

bool is_printable(char32_t code) {
  switch (category_of(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return code == ' ';
    default:
      return true;
  }
}

char32_t to_upper(char32_t code) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}

char32_t to_lower(char32_t code) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

char32_t to_title(char32_t code) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code)));
}

}  // namespace gale::text::jinja
