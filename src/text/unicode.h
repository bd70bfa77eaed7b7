// UTF-8 and the classes of Unicode code points that pre-tokenizers ask for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gale::text {

enum class CharClass : uint8_t {
  other,         // control, format, private, unassigned, surrogates
  space,         // the property White_Space
  upper,         // Lu
  lower,         // Ll
  title,         // Lt
  modifier,      // Lm
  other_letter,  // Lo
  mark,          // M
  number,        // N
  punctuation,   // P
  symbol,        // S
};

// Sets of classes are bit masks; 0 stands for "no character here".
using CharMask = uint32_t;
constexpr CharMask mask_of(CharClass c) {
  return 1u << static_cast<unsigned>(c);
}
constexpr CharMask mask_other = mask_of(CharClass::other);
constexpr CharMask mask_space = mask_of(CharClass::space);
constexpr CharMask mask_mark = mask_of(CharClass::mark);
constexpr CharMask mask_number = mask_of(CharClass::number);
constexpr CharMask mask_punctuation = mask_of(CharClass::punctuation);
constexpr CharMask mask_symbol = mask_of(CharClass::symbol);
// Lm, Lo and M belong to both cases in the rules that tell cases apart.
constexpr CharMask mask_caseless = mask_of(CharClass::modifier) | mask_of(CharClass::other_letter) | mask_mark;
constexpr CharMask mask_upper = mask_of(CharClass::upper) | mask_of(CharClass::title) | mask_caseless;
constexpr CharMask mask_lower = mask_of(CharClass::lower) | mask_caseless;
constexpr CharMask mask_letter = (mask_upper | mask_lower) & ~mask_mark;

// Generated table: first code point of a range * 256 + CharClass.
extern const char* const unicode_version;
extern const uint32_t unicode_ranges[];
extern const size_t unicode_range_count;

// Classes of the first two planes unpacked for direct access; the rest is searched.
class CharTable {
 public:
  static const CharTable& instance();
  CharMask mask(uint32_t point) const {
    return point < direct_size ? mask_of(static_cast<CharClass>(direct_[point])) : search(point);
  }

 private:
  static constexpr uint32_t direct_size = 0x20000;
  CharTable();
  static CharMask search(uint32_t point);
  std::unique_ptr<uint8_t[]> direct_;
};

// Length of the character that this byte begins, by its high bits alone: 1 for ASCII, continuation bytes too.
constexpr size_t utf8_length(uint8_t first) {
  return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// Appends the shortest form. `point` <= 0x10FFFF; surrogates are written like any other.
void append_utf8(std::string& out, uint32_t point);

// What a byte sequence at the start of `text` (not empty) is under the rule of docs/tokenizers.md.
struct Utf8Char {
  uint32_t point = 0;
  uint32_t length = 0;   // bytes; 0: the first byte begins no character
  bool shortest = true;  // false: a longer form than needed
};
Utf8Char decode_utf8(std::string_view text);

// Text with each byte that belongs to no character replaced by U+FFFD and over-long forms by the shortest. Returns
// `text` itself if nothing has to change, else a view of `storage`. `*changed_bytes` grows by the bytes replaced.
std::string_view repair_utf8(std::string_view text, std::string& storage, size_t* changed_bytes);

}  // namespace gale::text
