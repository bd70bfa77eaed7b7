// The lexer: data outside tags, names, literals and operators inside.
#include "text/jinja_lexer.h"

#include <charconv>
#include <cmath>

namespace gale::text::jinja {

namespace {

bool is_name_start(char32_t code) {
  return code == '_' || is_letter(code);
}
bool is_name_part(char32_t code) {
  return is_name_start(code) || is_digit(code);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<LexedToken> run() {
    while (position_ < source_.size()) lex_data();
    push(TokenKind::end, position_);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_at(size_t position, std::string message) { throw SyntaxFailure{std::move(message), position}; }

  LexedToken& push(TokenKind kind, size_t position, std::string text = {}) {
    tokens_.push_back({kind, std::move(text), 0, 0, position});
    return tokens_.back();
  }

  bool starts_with(std::string_view what, size_t at) const { return source_.substr(at, what.size()) == what; }

  size_t skip_space(size_t at) const {
    while (at < source_.size()) {
      size_t size = 1;
      if (!is_space(code_point_at(source_, at, &size))) break;
      at += size;
    }
    return at;
  }

  // Where the white space at the end of [begin, end) starts.
  size_t space_before(size_t begin, size_t end) const {
    size_t stripped = begin;
    for (size_t i = begin, size = 1; i < end; i += size) {
      if (!is_space(code_point_at(source_, i, &size))) stripped = i + size;
    }
    return stripped;
  }

  // The end of the data before a tag: strip marks and lstrip_blocks.
  size_t data_end(size_t begin, size_t tag, char sign, bool variable) const {
    if (sign == '-') return space_before(begin, tag);
    if (sign == '+' || variable) return tag;
    // Only the data before the tag is searched: a search of the whole source for each tag would take its square.
    const size_t newline = source_.substr(begin, tag - begin).rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return tag;
    const size_t line = newline == std::string_view::npos ? begin : begin + newline + 1;
    return space_before(line, tag) == line ? line : tag;
  }

  // After a tag that ends before `at`.
  void finish_tag(size_t at) {
    position_ = at;
    line_starting_ = at > 0 && source_[at - 1] == '\n';
  }

  size_t trim_newline(size_t at) const { return at < source_.size() && source_[at] == '\n' ? at + 1 : at; }

  void lex_data() {
    const size_t begin = position_;
    size_t tag = begin;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos) break;
      if (tag + 1 < source_.size() && std::string_view("{%#").find(source_[tag + 1]) != std::string_view::npos) break;
    }
    if (tag == std::string_view::npos) {
      push(TokenKind::data, begin, std::string(source_.substr(begin)));
      position_ = source_.size();
      return;
    }
    const char kind = source_[tag + 1];
    size_t at = tag + 2;
    const char sign = at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : ' ';
    if (sign != ' ') ++at;
    const size_t end = data_end(begin, tag, sign, kind == '{');
    if (end > begin) push(TokenKind::data, begin, std::string(source_.substr(begin, end - begin)));
    if (kind == '#') return lex_comment(tag, at);
    if (kind == '{') {
      push(TokenKind::variable_begin, tag);
      return lex_tag(tag, at, '}');
    }
    if (const size_t raw = raw_begin(at)) return lex_raw(tag, raw);
    push(TokenKind::block_begin, tag);
    lex_tag(tag, at, '%');
  }

  void lex_comment(size_t tag, size_t at) {
    const size_t close = source_.find("#}", at);
    if (close == std::string_view::npos) fail_at(tag, "Missing end of comment tag '#}'");
    const char sign = close > at ? source_[close - 1] : ' ';
    if (sign == '-') return finish_tag(skip_space(close + 2));
    finish_tag(sign == '+' ? close + 2 : trim_newline(close + 2));
  }

  // The byte after "raw %}" if the block whose inside starts at `at` is that; 0 otherwise.
  size_t raw_begin(size_t at) const {
    at = skip_space(at);
    if (!starts_with("raw", at)) return 0;
    at = skip_space(at + 3);
    if (starts_with("-%}", at)) return skip_space(at + 3);
    return starts_with("%}", at) ? at + 2 : 0;
  }

  void lex_raw(size_t tag, size_t begin) {
    line_starting_ = begin > 0 && source_[begin - 1] == '\n';
    for (size_t close = source_.find("{%", begin); close != std::string_view::npos;
         close = source_.find("{%", close + 1)) {
      size_t at = close + 2;
      const char sign = at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : ' ';
      if (sign != ' ') ++at;
      at = skip_space(at);
      if (!starts_with("endraw", at)) continue;
      at = skip_space(at + 6);
      const char end_sign = starts_with("-%}", at) ? '-' : starts_with("+%}", at) ? '+' : ' ';
      if (end_sign == ' ' && !starts_with("%}", at)) continue;
      const size_t end = data_end(begin, close, sign, false);
      if (end > begin) push(TokenKind::data, begin, std::string(source_.substr(begin, end - begin)));
      at += end_sign == ' ' ? 2 : 3;
      return finish_tag(end_sign == '-' ? skip_space(at) : end_sign == '+' ? at : trim_newline(at));
    }
    fail_at(tag, "Missing end of raw directive");
  }

  // The inside of {{ }} or {% %}; `mark` is '}' or '%'.
  void lex_tag(size_t tag, size_t at, char mark) {
    const char end_text[] = {mark, '}', 0};
    const TokenKind end_kind = mark == '}' ? TokenKind::variable_end : TokenKind::block_end;
    std::string open;  // brackets that wait for their partner
    while (at < source_.size()) {
      if (open.empty()) {
        const char sign = source_[at];
        const bool signed_end = (sign == '-' || (sign == '+' && mark == '%')) && starts_with(end_text, at + 1);
        if (signed_end || starts_with(end_text, at)) {
          push(end_kind, at);
          if (signed_end && sign == '-') return finish_tag(skip_space(at + 3));
          if (signed_end) return finish_tag(at + 3);
          return finish_tag(mark == '%' ? trim_newline(at + 2) : at + 2);
        }
      }
      size_t size = 1;
      const char32_t code = code_point_at(source_, at, &size);
      if (is_space(code)) {
        at += size;
      } else if (is_name_start(code)) {
        at = lex_name(at);
      } else if (is_digit(code)) {
        at = lex_number(at);
      } else if (code == '\'' || code == '"') {
        at = lex_text(at);
      } else {
        at = lex_symbol(at, open);
      }
    }
    fail_at(tag, mark == '}' ? "unexpected end of template, expected 'end of print statement'"
                             : "unexpected end of template, expected 'end of statement block'");
  }

  size_t lex_name(size_t at) {
    const size_t begin = at;
    for (size_t size = 1; at < source_.size(); at += size) {
      if (!is_name_part(code_point_at(source_, at, &size))) break;
    }
    push(TokenKind::name, begin, std::string(source_.substr(begin, at - begin)));
    return at;
  }

  size_t digits_end(size_t at, std::string_view allowed) const {
    while (at < source_.size()) {
      const auto is_allowed = [&](size_t i) {
        return i < source_.size() && allowed.find(source_[i]) != std::string_view::npos;
      };
      if (is_allowed(at)) {
        ++at;
      } else if (source_[at] == '_' && is_allowed(at + 1)) {
        at += 2;
      } else {
        break;
      }
    }
    return at;
  }

  size_t lex_number(size_t begin) {
    constexpr std::string_view kDecimal = "0123456789";
    const auto without_underscores = [&](size_t from, size_t to) {
      std::string digits;
      for (const char c : source_.substr(from, to - from)) {
        if (c != '_') digits += c;
      }
      return digits;
    };
    const auto lower_at = [&](size_t i) { return i < source_.size() ? source_[i] | 0x20 : 0; };
    const auto digit_at = [&](size_t i) {
      return i < source_.size() && is_digit(static_cast<unsigned char>(source_[i]));
    };
    if (source_[begin] == '0' &&
        (lower_at(begin + 1) == 'x' || lower_at(begin + 1) == 'o' || lower_at(begin + 1) == 'b')) {
      const int base = lower_at(begin + 1) == 'x' ? 16 : lower_at(begin + 1) == 'o' ? 8 : 2;
      const std::string_view allowed = base == 16 ? "0123456789abcdefABCDEF" : base == 8 ? "01234567" : "01";
      const size_t end = digits_end(begin + 2, allowed);
      if (end > begin + 2) return push_integer(begin, without_underscores(begin + 2, end), base, end);
    }
    size_t end = digits_end(begin, kDecimal);
    bool real = false;
    // A dot right before the digits is an attribute access: a.0.1 has no float in it.
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';
    if (!after_dot) {
      if (end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
        end = digits_end(end + 1, kDecimal);
        real = true;
      }
      if (lower_at(end) == 'e') {
        const size_t sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
        if (digit_at(end + 1 + sign)) {
          end = digits_end(end + 1 + sign, kDecimal);
          real = true;
        }
      }
    }
    const std::string digits = without_underscores(begin, end);
    if (!real) {
      if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) {
        fail_at(begin, "an integer literal must not start with 0");
      }
      return push_integer(begin, digits, 10, end);
    }
    double value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (parsed.ec != std::errc()) value = digits.find("e-") == std::string::npos ? HUGE_VAL : 0;  // as Python
    push(TokenKind::real, begin, digits).real = value;
    return end;
  }

  size_t push_integer(size_t begin, const std::string& digits, int base, size_t end) {
    int64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (parsed.ec != std::errc()) fail_at(begin, "the integer literal does not fit 64 bits");
    push(TokenKind::integer, begin, digits).integer = value;
    return end;
  }

  size_t lex_text(size_t begin) {
    const char quote = source_[begin];
    std::string value;
    size_t at = begin + 1;
    while (at < source_.size() && source_[at] != quote) {
      if (source_[at] != '\\') {
        value += source_[at++];
        continue;
      }
      if (at + 1 >= source_.size()) break;
      at = lex_escape(at + 1, value);
    }
    if (at >= source_.size()) fail_at(begin, "the string literal has no end");
    push(TokenKind::text, begin, std::move(value));
    return at + 1;
  }

  // What follows a backslash, as in Python's string literals.
  size_t lex_escape(size_t at, std::string& value) {
    const char c = source_[at];
    constexpr std::string_view kNames = "abfnrtv\\'\"", kCodes = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      value += kCodes[i];
      return at + 1;
    }
    if (c == '\n') return at + 1;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    int base = 16;
    size_t begin = at + 1;
    if (c >= '0' && c <= '7') {
      base = 8;
      begin = at;
      digits = 1;
      while (digits < 3 && begin + digits < source_.size() && source_[begin + digits] >= '0' &&
             source_[begin + digits] <= '7') {
        ++digits;
      }
    }
    if (digits == 0) {
      value += '\\';
      return at;  // not an escape: the backslash stays
    }
    uint32_t code = 0;
    const std::string_view text = source_.substr(begin, digits);
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), code, base);
    if (text.size() != digits || parsed.ptr != text.data() + digits)
      fail_at(at - 1, fmt::format("truncated \\{} escape", c));
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) fail_at(at - 1, "illegal Unicode character");
    append_code_point(value, code);
    return begin + digits;
  }

  size_t lex_symbol(size_t at, std::string& open) {
    const std::string_view two = source_.substr(at, 2);
    for (const std::string_view symbol : {"//", "**", "==", "!=", ">=", "<="}) {
      if (two == symbol) {
        push(TokenKind::symbol, at, std::string(symbol));
        return at + 2;
      }
    }
    const char c = source_[at];
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      const size_t size = character_size(source_, at);
      fail_at(at, fmt::format("unexpected char '{}'", source_.substr(at, size)));
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail_at(at, fmt::format("unexpected '{}'", c));
      if (open.back() != c) fail_at(at, fmt::format("unexpected '{}', expected '{}'", c, open.back()));
      open.pop_back();
    }
    push(TokenKind::symbol, at, std::string(1, c));
    return at + 1;
  }

  std::string_view source_;
  size_t position_ = 0;
  bool line_starting_ = true;
  std::vector<LexedToken> tokens_;
};

}  // namespace

Place place_of(std::string_view source, size_t position) {
  Place place;
  position = std::min(position, source.size());
  const size_t newline = position == 0 ? std::string_view::npos : source.rfind('\n', position - 1);
  const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
  place.line +=
      static_cast<size_t>(std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(line), '\n'));
  place.column += count_characters(source.substr(line, position - line));
  return place;
}

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::string describe_token(const LexedToken& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "template data";
    case TokenKind::variable_begin:
      return "begin of print statement";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::end:
      return "end of template";
    default:
      return token.text;
  }
}

bool is_constant_name(std::string_view name) {
  return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" || name == "None";
}

std::vector<LexedToken> lex(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace gale::text::jinja
