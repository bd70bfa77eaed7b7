// Turns the source of a template into its syntax tree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace gale::text::jinja {

// Heights of syntax trees and nesting of brackets; Python's own parser allows about as much.
inline constexpr size_t kMaxHeight = 200;

// Parses the whole template. Throws SyntaxFailure (its position is in the normalized source).
std::unique_ptr<const Tree> parse(std::string_view source);

// The token stream and the grammar of expressions; the statements in jinja_parser.cc stand on it.
class ExpressionParser {
 public:
  ExpressionParser(std::vector<LexedToken> tokens, Tree& tree) : tokens_(std::move(tokens)), tree_(tree) {}

  // Tokens.
  const LexedToken& current() const { return tokens_[next_]; }
  const LexedToken& look(size_t distance = 1) const { return tokens_[std::min(next_ + distance, tokens_.size() - 1)]; }
  LexedToken take() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }
  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_symbol(std::string_view symbol) const { return at(TokenKind::symbol) && current().text == symbol; }
  bool at_name(std::string_view name) const { return at(TokenKind::name) && current().text == name; }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect_name(std::string_view name);
  void expect(TokenKind kind);
  std::string take_name();  // any name
  [[noreturn]] void fail_here(std::string message) const {
    throw SyntaxFailure{std::move(message), current().position};
  }
  [[noreturn]] void fail_unexpected(std::string_view expected) const;

  // Grammar.
  const Expr* expression(bool conditional = true);
  // One expression, or a tuple without parentheses; `end_name` is a word that ends it.
  const Expr* expression_or_tuple(bool conditional = true, std::string_view end_name = {});
  Target target(bool with_tuple, bool with_attribute);
  const Expr* filter_chain(const Expr* operand, bool first_name);
  std::vector<Parameter> signature();
  const Expr* postfix(const Expr* operand);
  const Expr* unary(bool with_filters);
  const Expr* captured(size_t position);

  // The macros around the current place, and which of the names caller, varargs and kwargs their bodies have made
  // their own: those are not the special ones any more.
  struct OpenMacro {
    MacroHead* head;
    std::vector<std::string> own_names;
  };
  std::vector<OpenMacro> macros;
  void declare(const std::string& name);
  // Inside an if: an unknown filter or test is an error only when it is reached.
  size_t branch_depth = 0;

  void enter(size_t position);
  void leave() { --depth_; }

 private:
  Expr* make(ExprKind kind, size_t position, std::vector<const Expr*> children = {});
  void grow(Expr* expr, const Expr* child) const;
  const Expr* disjunction();
  const Expr* conjunction();
  const Expr* negation();
  const Expr* comparison();
  const Expr* sum();
  const Expr* concatenation();
  const Expr* product();
  const Expr* power();
  const Expr* primary();
  const Expr* list();
  const Expr* dict();
  const Expr* tuple_rest(bool conditional, std::string_view end_name, bool parentheses);
  const Expr* subscript(const Expr* operand);
  const Expr* subscript_part(const Expr* operand, size_t position, bool* is_slice);
  const Expr* test(const Expr* operand);
  void arguments(Expr* expr);
  bool at_tuple_end(std::string_view end_name) const;
  Target single_target(bool with_attribute);

  std::vector<LexedToken> tokens_;
  Tree& tree_;
  size_t next_ = 0;
  size_t depth_ = 0;
};

}  // namespace gale::text::jinja
