// The grammar of expressions: precedence as in jinja2, heights bounded so that no later recursion can run away.
#include "text/jinja_operations.h"
#include "text/jinja_parser.h"

namespace gale::text::jinja {

namespace {

bool is_word_operator(const LexedToken& token) {
  return token.kind == TokenKind::name && (token.text == "else" || token.text == "or" || token.text == "and");
}

}  // namespace

void ExpressionParser::enter(size_t position) {
  if (++depth_ > kMaxHeight) throw SyntaxFailure{fmt::format("nested more than {} deep", kMaxHeight), position};
}

Expr* ExpressionParser::make(ExprKind kind, size_t position, std::vector<const Expr*> children) {
  tree_.exprs.emplace_back();
  Expr* expr = &tree_.exprs.back();
  expr->kind = kind;
  expr->position = position;
  for (const Expr* child : children) grow(expr, child);
  expr->children = std::move(children);
  return expr;
}

void ExpressionParser::grow(Expr* expr, const Expr* child) const {
  if (child == nullptr) return;
  expr->height = std::max(expr->height, child->height + 1);
  if (expr->height > kMaxHeight) {
    throw SyntaxFailure{fmt::format("an expression of more than {} levels", kMaxHeight), expr->position};
  }
}

bool ExpressionParser::skip_symbol(std::string_view symbol) {
  if (!at_symbol(symbol)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  take();
  return true;
}

void ExpressionParser::fail_unexpected(std::string_view expected) const {
  fail_here(fmt::format("expected '{}', got '{}'", expected, describe_token(current())));
}

void ExpressionParser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail_unexpected(symbol);
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_unexpected(name);
}

void ExpressionParser::expect(TokenKind kind) {
  LexedToken wanted;
  wanted.kind = kind;
  if (!at(kind)) fail_unexpected(describe_token(wanted));
  take();
}

std::string ExpressionParser::take_name() {
  if (!at(TokenKind::name)) fail_unexpected("a name");
  return take().text;
}

const Expr* ExpressionParser::captured(size_t position) {
  return make(ExprKind::captured, position);
}

const Expr* ExpressionParser::expression(bool conditional) {
  enter(current().position);
  const Expr* expr = disjunction();
  while (conditional && at_name("if")) {
    const size_t position = take().position;
    ++branch_depth;
    std::vector<const Expr*> children = {disjunction(), expr};
    if (skip_name("else")) children.push_back(expression());
    --branch_depth;
    expr = make(ExprKind::conditional, position, std::move(children));
  }
  leave();
  return expr;
}

const Expr* ExpressionParser::disjunction() {
  const Expr* left = conjunction();
  while (at_name("or")) {
    const size_t position = take().position;
    left = make(ExprKind::logical_or, position, {left, conjunction()});
  }
  return left;
}

const Expr* ExpressionParser::conjunction() {
  const Expr* left = negation();
  while (at_name("and")) {
    const size_t position = take().position;
    left = make(ExprKind::logical_and, position, {left, negation()});
  }
  return left;
}

const Expr* ExpressionParser::negation() {
  if (!at_name("not")) return comparison();
  const size_t position = take().position;
  enter(position);
  const Expr* expr = make(ExprKind::logical_not, position, {negation()});
  leave();
  return expr;
}

const Expr* ExpressionParser::comparison() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {{"==", Operator::eq}, {"!=", Operator::ne},
                                                                         {"<", Operator::lt},  {"<=", Operator::le},
                                                                         {">", Operator::gt},  {">=", Operator::ge}};
  const Expr* first = sum();
  Expr* expr = nullptr;
  while (true) {
    const size_t position = current().position;
    std::optional<Operator> op;
    if (at_name("not") && look().kind == TokenKind::name && look().text == "in") {
      take();
      take();
      op = Operator::not_in;
    } else if (skip_name("in")) {
      op = Operator::in;
    } else if (at(TokenKind::symbol)) {
      for (const auto& [symbol, value] : kOperators) {
        if (current().text == symbol) op = value;
      }
      if (op) take();
    }
    if (!op) return expr == nullptr ? first : expr;
    if (expr == nullptr) expr = make(ExprKind::compare, position, {first});
    expr->operators.push_back(*op);
    const Expr* operand = sum();
    grow(expr, operand);
    expr->children.push_back(operand);
  }
}

const Expr* ExpressionParser::sum() {
  const Expr* left = concatenation();
  while (at_symbol("+") || at_symbol("-")) {
    const LexedToken token = take();
    Expr* expr = make(ExprKind::binary, token.position, {left, concatenation()});
    expr->operators = {token.text == "+" ? Operator::add : Operator::subtract};
    left = expr;
  }
  return left;
}

const Expr* ExpressionParser::concatenation() {
  const Expr* first = product();
  if (!at_symbol("~")) return first;
  std::vector<const Expr*> parts = {first};
  const size_t position = current().position;
  while (skip_symbol("~")) parts.push_back(product());
  return make(ExprKind::concat, position, std::move(parts));
}

const Expr* ExpressionParser::product() {
  const Expr* left = power();
  while (at_symbol("*") || at_symbol("/") || at_symbol("//") || at_symbol("%")) {
    const LexedToken token = take();
    Expr* expr = make(ExprKind::binary, token.position, {left, power()});
    expr->operators = {token.text == "*"    ? Operator::multiply
                       : token.text == "/"  ? Operator::divide
                       : token.text == "//" ? Operator::floor_divide
                                            : Operator::modulo};
    left = expr;
  }
  return left;
}

const Expr* ExpressionParser::power() {
  const Expr* left = unary(true);
  while (at_symbol("**")) {
    const size_t position = take().position;
    Expr* expr = make(ExprKind::binary, position, {left, unary(true)});
    expr->operators = {Operator::power};
    left = expr;
  }
  return left;
}

const Expr* ExpressionParser::unary(bool with_filters) {
  enter(current().position);
  const Expr* expr = nullptr;
  if (at_symbol("-") || at_symbol("+")) {
    const LexedToken token = take();
    expr = make(token.text == "-" ? ExprKind::negate : ExprKind::plus, token.position, {unary(false)});
  } else {
    expr = primary();
  }
  expr = postfix(expr);
  while (with_filters) {
    if (at_symbol("|")) {
      expr = filter_chain(expr, false);
    } else if (at_name("is")) {
      expr = test(expr);
    } else if (at_symbol("(")) {
      expr = postfix(expr);
    } else {
      break;
    }
  }
  leave();
  return expr;
}

const Expr* ExpressionParser::primary() {
  const LexedToken token = current();
  const auto constant = [&](Value value) {
    Expr* expr = make(ExprKind::constant, token.position);
    expr->constant = std::move(value);
    return expr;
  };
  switch (token.kind) {
    case TokenKind::name: {
      take();
      if (token.text == "true" || token.text == "True") return constant(true);
      if (token.text == "false" || token.text == "False") return constant(false);
      if (token.text == "none" || token.text == "None") return constant(None{});
      for (const OpenMacro& macro : macros) {
        if (std::find(macro.own_names.begin(), macro.own_names.end(), token.text) != macro.own_names.end()) continue;
        macro.head->uses_caller |= token.text == "caller";
        macro.head->uses_varargs |= token.text == "varargs";
        macro.head->uses_kwargs |= token.text == "kwargs";
      }
      Expr* expr = make(ExprKind::name, token.position);
      expr->name = token.text;
      return expr;
    }
    case TokenKind::text: {
      std::string text;
      while (at(TokenKind::text)) text += take().text;
      return constant(std::make_shared<const MarkedText>(std::move(text), true));
    }
    case TokenKind::integer:
      take();
      return constant(token.integer);
    case TokenKind::real:
      take();
      return constant(token.real);
    default:
      break;
  }
  if (skip_symbol("(")) {
    const Expr* expr = tuple_rest(true, {}, true);
    expect_symbol(")");
    return expr;
  }
  if (at_symbol("[")) return list();
  if (at_symbol("{")) return dict();
  fail_here(fmt::format("unexpected '{}'", describe_token(token)));
}

bool ExpressionParser::at_tuple_end(std::string_view end_name) const {
  return at(TokenKind::variable_end) || at(TokenKind::block_end) || at_symbol(")") ||
         (!end_name.empty() && at_name(end_name));
}

const Expr* ExpressionParser::expression_or_tuple(bool conditional, std::string_view end_name) {
  return tuple_rest(conditional, end_name, false);
}

const Expr* ExpressionParser::tuple_rest(bool conditional, std::string_view end_name, bool parentheses) {
  const size_t position = current().position;
  std::vector<const Expr*> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_symbol(",");
    if (at_tuple_end(end_name)) break;
    items.push_back(expression(conditional));
    if (!at_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return items.front();
    if (!parentheses) fail_here(fmt::format("Expected an expression, got '{}'", describe_token(current())));
  }
  return make(ExprKind::tuple, position, std::move(items));
}

const Expr* ExpressionParser::list() {
  const size_t position = take().position;
  std::vector<const Expr*> items;
  while (!at_symbol("]")) {
    if (!items.empty()) expect_symbol(",");
    if (at_symbol("]")) break;
    items.push_back(expression());
  }
  expect_symbol("]");
  return make(ExprKind::list, position, std::move(items));
}

const Expr* ExpressionParser::dict() {
  const size_t position = take().position;
  std::vector<const Expr*> items;
  while (!at_symbol("}")) {
    if (!items.empty()) expect_symbol(",");
    if (at_symbol("}")) break;
    items.push_back(expression());
    expect_symbol(":");
    items.push_back(expression());
  }
  expect_symbol("}");
  return make(ExprKind::dict, position, std::move(items));
}

const Expr* ExpressionParser::postfix(const Expr* operand) {
  while (true) {
    if (at_symbol(".") || at_symbol("[")) {
      operand = subscript(operand);
    } else if (at_symbol("(")) {
      Expr* call = make(ExprKind::call, current().position, {operand});
      arguments(call);
      operand = call;
    } else {
      return operand;
    }
  }
}

const Expr* ExpressionParser::subscript(const Expr* operand) {
  const LexedToken token = take();
  if (token.text == ".") {
    const LexedToken key = take();
    if (key.kind == TokenKind::name) {
      Expr* expr = make(ExprKind::attribute, token.position, {operand});
      expr->name = key.text;
      return expr;
    }
    if (key.kind != TokenKind::integer) throw SyntaxFailure{"expected name or number", key.position};
    Expr* number = make(ExprKind::constant, key.position);
    number->constant = key.integer;
    return make(ExprKind::item, token.position, {operand, number});
  }
  std::vector<const Expr*> parts;
  bool is_slice = false;
  while (!at_symbol("]")) {
    if (!parts.empty()) expect_symbol(",");
    parts.push_back(subscript_part(operand, token.position, &is_slice));
  }
  expect_symbol("]");
  if (is_slice) {
    if (parts.size() > 1) throw SyntaxFailure{"a slice cannot be part of a tuple", token.position};
    return parts.front();
  }
  if (parts.size() == 1) return make(ExprKind::item, token.position, {operand, parts.front()});
  return make(ExprKind::item, token.position, {operand, make(ExprKind::tuple, token.position, std::move(parts))});
}

const Expr* ExpressionParser::subscript_part(const Expr* operand, size_t position, bool* is_slice) {
  const Expr* begin = at_symbol(":") ? nullptr : expression();
  if (!skip_symbol(":")) return begin;
  *is_slice = true;
  const auto at_end = [&] { return at_symbol("]") || at_symbol(","); };
  const Expr* end = at_symbol(":") || at_end() ? nullptr : expression();
  const Expr* step = skip_symbol(":") && !at_end() ? expression() : nullptr;
  return make(ExprKind::slice, position, {operand, begin, end, step});
}

void ExpressionParser::arguments(Expr* expr) {
  const size_t open = current().position;
  expect_symbol("(");
  const auto ensure = [&](bool valid) {
    if (!valid) throw SyntaxFailure{"invalid syntax for function call expression", open};
  };
  bool first = true;
  while (!at_symbol(")")) {
    if (!first) expect_symbol(",");
    if (!first && at_symbol(")")) break;
    first = false;
    const Expr* value = nullptr;
    if (skip_symbol("*")) {
      ensure(expr->spread == nullptr && expr->named_spread == nullptr);
      expr->spread = value = expression();
    } else if (skip_symbol("**")) {
      ensure(expr->named_spread == nullptr);
      expr->named_spread = value = expression();
    } else if (at(TokenKind::name) && look().kind == TokenKind::symbol && look().text == "=") {
      ensure(expr->named_spread == nullptr);
      const std::string name = take().text;
      take();
      for (const auto& [other, unused] : expr->named) ensure(other != name);
      value = expression();
      expr->named.emplace_back(name, value);
    } else {
      ensure(expr->spread == nullptr && expr->named_spread == nullptr && expr->named.empty());
      value = expression();
      expr->children.push_back(value);
    }
    grow(expr, value);
  }
  expect_symbol(")");
}

const Expr* ExpressionParser::filter_chain(const Expr* operand, bool first_name) {
  while (first_name || at_symbol("|")) {
    if (!first_name) take();
    first_name = false;
    Expr* expr = make(ExprKind::filter, current().position, {operand});
    expr->name = take_name();
    while (skip_symbol(".")) expr->name += "." + take_name();
    if (branch_depth == 0 && !has_filter(expr->name)) {
      throw SyntaxFailure{fmt::format("No filter named '{}'.", expr->name), expr->position};
    }
    if (at_symbol("(")) arguments(expr);
    operand = expr;
  }
  return operand;
}

const Expr* ExpressionParser::test(const Expr* operand) {
  take();
  const bool negated = skip_name("not");
  Expr* expr = make(ExprKind::test, current().position, {operand});
  expr->name = take_name();
  while (skip_symbol(".")) expr->name += "." + take_name();
  if (branch_depth == 0 && !has_test(expr->name)) {
    throw SyntaxFailure{fmt::format("No test named '{}'.", expr->name), expr->position};
  }
  const bool operand_follows = at(TokenKind::name) || at(TokenKind::text) || at(TokenKind::integer) ||
                               at(TokenKind::real) || at_symbol("[") || at_symbol("{");
  if (at_symbol("(")) {
    arguments(expr);
  } else if (operand_follows && !is_word_operator(current())) {
    if (at_name("is")) fail_here("You cannot chain multiple tests with is");
    enter(current().position);
    const Expr* argument = postfix(primary());
    leave();
    grow(expr, argument);
    expr->children.push_back(argument);
  }
  return negated ? make(ExprKind::logical_not, expr->position, {expr}) : expr;
}

void ExpressionParser::declare(const std::string& name) {
  if (name != "caller" && name != "varargs" && name != "kwargs") return;
  for (OpenMacro& macro : macros) macro.own_names.push_back(name);
}

Target ExpressionParser::single_target(bool with_attribute) {
  Target target;
  target.position = current().position;
  if (skip_symbol("(")) {
    enter(target.position);
    target = this->target(true, with_attribute);
    leave();
    expect_symbol(")");
    return target;
  }
  if (!at(TokenKind::name) || is_constant_name(current().text)) {
    fail_here(fmt::format("can't assign to '{}'", describe_token(current())));
  }
  target.name = take().text;
  if (with_attribute && skip_symbol(".")) target.attribute = take_name();
  if (target.attribute.empty()) declare(target.name);
  return target;
}

Target ExpressionParser::target(bool with_tuple, bool with_attribute) {
  Target first = single_target(with_attribute);
  if (!with_tuple || !at_symbol(",")) return first;
  Target tuple;
  tuple.is_tuple = true;
  tuple.position = first.position;
  tuple.items.push_back(std::move(first));
  while (skip_symbol(",")) {
    if (at_tuple_end("in") || at_symbol("=")) break;
    tuple.items.push_back(single_target(with_attribute));
  }
  return tuple;
}

}  // namespace gale::text::jinja
