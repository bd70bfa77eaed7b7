// Cuts the source of a template into tokens, with jinja2's rules for white space around tags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace gale::text::jinja {

enum class TokenKind {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  text,
  integer,
  real,
  symbol,
  end
};

struct LexedToken {
  TokenKind kind = TokenKind::end;
  std::string text;  // data: the text to print; name, symbol: itself; text: the value of the literal
  int64_t integer = 0;
  double real = 0;
  size_t position = 0;  // byte in the source
};

// The token as error messages name it.
std::string describe_token(const LexedToken& token);
// true, none and so on: names that are literals and cannot be assigned to.
bool is_constant_name(std::string_view name);

// A syntax error: what and where.
struct SyntaxFailure {
  std::string message;
  size_t position = 0;
};

struct Place {
  size_t line = 1, column = 1;  // characters, from 1
};
Place place_of(std::string_view source, size_t position);

// \r\n and \r become \n, one newline at the end goes, as jinja2 does before anything else.
std::string normalize_source(std::string_view source);

// trim_blocks and lstrip_blocks are on. The last token is `end`. Throws SyntaxFailure.
std::vector<LexedToken> lex(std::string_view source);

}  // namespace gale::text::jinja
