// Bytes as GPT-2's characters and by name.
#include "text/byte_names.h"

#include <array>
#include <cstdint>

#include "text/unicode.h"

namespace gale::text {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

// GPT-2 writes each byte as one printable character: the printable ones of Latin-1 stand for themselves, the other 68
// bytes are U+0100, U+0101 ... in order.
constexpr std::array<uint16_t, 256> make_characters() {
  std::array<uint16_t, 256> table{};
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    table[static_cast<size_t>(byte)] = stands_for_itself(byte) ? static_cast<uint16_t>(byte) : next++;
  }
  return table;
}
constexpr std::array<uint16_t, 256> characters = make_characters();

// The other way round; -1: no byte.
constexpr std::array<int16_t, 0x144> make_bytes() {
  std::array<int16_t, 0x144> table{};
  for (auto& entry : table) entry = -1;
  for (size_t byte = 0; byte < 256; ++byte) table[characters[byte]] = static_cast<int16_t>(byte);
  return table;
}
constexpr std::array<int16_t, 0x144> bytes = make_bytes();

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

ptrdiff_t bytes_of_characters(std::string_view text, char* out) {
  char* const begin = out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<uint8_t>(text[i]);
    uint32_t point = first;
    if (first >= 0x80) {
      const auto second = i + 1 < text.size() ? static_cast<uint8_t>(text[i + 1]) : uint8_t{0};
      if (first < 0xC2 || first > 0xC5 || (second & 0xC0) != 0x80) return -1;
      point = (first & 0x1Fu) << 6 | (second & 0x3Fu);
      ++i;
    }
    if (point >= bytes.size() || bytes[point] < 0) return -1;
    *out++ = static_cast<char>(bytes[point]);
  }
  return out - begin;
}

void append_characters_of(std::string_view text, std::string& out) {
  for (const char c : text) append_utf8(out, characters[static_cast<uint8_t>(c)]);
}

int byte_of_name(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace gale::text
