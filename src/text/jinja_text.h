// Text that knows for every byte whether the template or a message wrote it, and what Python says about characters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gale::text::jinja {

// Bytes and their origin as runs. Only `flips_` grows with the number of runs: most texts have one origin.
class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string bytes, bool from_template) : bytes_(std::move(bytes)), first_(from_template) {}

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  void append(std::string_view bytes, bool from_template);
  void append(const MarkedText& other) { append_slice(other, 0, other.size()); }
  // Bytes [begin, end) of the other text, which must not be this one.
  void append_slice(const MarkedText& other, size_t begin, size_t end);
  MarkedText slice(size_t begin, size_t end) const;
  bool from_template_at(size_t offset) const;

  // Set by the filters safe and escape, as jinja2's Markup: what is joined to it with + or % is escaped first. Of the
  // operations above only copies keep it.
  bool is_markup() const { return is_markup_; }
  MarkedText with_markup(bool is_markup) && {
    is_markup_ = is_markup;
    return std::move(*this);
  }

  // Calls visit(bytes, from_template) for each run of [begin, end).
  template <class Visit>
  void for_each_run(size_t begin, size_t end, Visit visit) const {
    auto flip = std::upper_bound(flips_.begin(), flips_.end(), begin);
    bool from_template = first_ == ((flip - flips_.begin()) % 2 == 0);
    while (begin < end) {
      const size_t stop = flip == flips_.end() ? end : std::min(*flip++, end);
      visit(std::string_view(bytes_).substr(begin, stop - begin), from_template);
      from_template = !from_template;
      begin = stop;
    }
  }

 private:
  std::string bytes_;
  bool first_ = true;  // origin of the first run
  bool is_markup_ = false;
  std::vector<size_t> flips_;  // ascending offsets, each inside the text, where the origin changes
};

// Bytes of the character that starts at `offset`; 1 for a byte that starts no valid UTF-8 sequence.
size_t character_size(std::string_view bytes, size_t offset);
// The code point at `offset`, or the byte itself when it is not valid UTF-8.
char32_t code_point_at(std::string_view bytes, size_t offset, size_t* size);
size_t count_characters(std::string_view bytes);
// Offset of the character with that number; the size of the text when there are fewer.
size_t character_offset(std::string_view bytes, size_t number);
void append_code_point(std::string& out, char32_t code);

// std::string_view's find and rfind in linear time for any text and part.
size_t find_bytes(std::string_view text, std::string_view part, size_t from = 0);
size_t rfind_bytes(std::string_view text, std::string_view part);

// What Python says about characters; bytes of no character are Latin-1 here.
bool is_space(char32_t code);
bool is_digit(char32_t code);  // 0 to 9
bool is_decimal(char32_t code);
bool is_numeric(char32_t code);
bool is_letter(char32_t code);
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_printable(char32_t code);
// One character for one: the few that become several (but for the German sharp s) stay as they are.
char32_t to_upper(char32_t code);
char32_t to_lower(char32_t code);
char32_t to_title(char32_t code);

}  // namespace gale::text::jinja
