// The grammar of statements: everything between {% and %}.
#include "text/jinja_parser.h"

namespace gale::text::jinja {

namespace {

class StatementParser {
 public:
  explicit StatementParser(Tree& tree) : tree_(tree), tokens_(lex(tree.source), tree) {}

  void run() {
    tree_.body = block({}, 0);
    if (!tokens_.at(TokenKind::end)) tokens_.fail_unexpected("end of template");
  }

 private:
  Stmt* make(StmtKind kind, size_t position) {
    tree_.stmts.emplace_back();
    tree_.stmts.back().kind = kind;
    tree_.stmts.back().position = position;
    return &tree_.stmts.back();
  }

  // Statements up to one of the words in `ends`, which stays the current token (the {% before it is taken).
  Block block(std::initializer_list<std::string_view> ends, size_t opened) {
    tokens_.enter(tokens_.current().position);
    Block body;
    while (true) {
      const size_t position = tokens_.current().position;
      if (tokens_.at(TokenKind::data)) {
        Stmt* stmt = make(StmtKind::data, position);
        stmt->data = std::make_shared<const MarkedText>(tokens_.take().text, true);
        body.push_back(stmt);
      } else if (tokens_.at(TokenKind::variable_begin)) {
        tokens_.take();
        Stmt* stmt = make(StmtKind::print, position);
        stmt->expr = tokens_.expression_or_tuple();
        tokens_.expect(TokenKind::variable_end);
        body.push_back(stmt);
      } else if (tokens_.at(TokenKind::block_begin)) {
        tokens_.take();
        for (const std::string_view end : ends) {
          if (tokens_.at_name(end)) {
            tokens_.leave();
            return body;
          }
        }
        body.push_back(statement(position));
        tokens_.expect(TokenKind::block_end);
      } else {
        break;
      }
    }
    if (ends.size() > 0) {
      throw SyntaxFailure{fmt::format("unexpected end of template, expected '{}'", *(ends.end() - 1)), opened};
    }
    tokens_.leave();
    return body;
  }

  // A body that ends with the word `end`, which is taken; the %} after it is not.
  Block body_until(std::string_view end, size_t opened) {
    tokens_.expect(TokenKind::block_end);
    Block body = block({end}, opened);
    tokens_.expect_name(end);
    return body;
  }

  const Stmt* statement(size_t position) {
    if (!tokens_.at(TokenKind::name)) tokens_.fail_here("tag name expected");
    const std::string tag = tokens_.current().text;
    if (tag == "if") return branch(position);
    if (tag == "for") return loop(position);
    if (tag == "set") return set(position);
    if (tag == "macro") return macro(position);
    if (tag == "call") return call(position);
    if (tag == "filter") return filter(position);
    if (tag == "with" || tag == "generation") return scope(position, tag);
    if (tag == "break" || tag == "continue") {
      if (loop_depth_ == 0) tokens_.fail_here(fmt::format("'{}' outside loop", tag));
      tokens_.take();
      return make(tag == "break" ? StmtKind::leave : StmtKind::again, position);
    }
    for (const std::string_view known :
         {"block", "extends", "include", "import", "from", "autoescape", "do", "trans"}) {
      if (tag == known) tokens_.fail_here(fmt::format("tag '{}' is not supported in chat templates", tag));
    }
    tokens_.fail_here(fmt::format("unknown tag '{}'", tag));
  }

  const Stmt* branch(size_t position) {
    Stmt* stmt = make(StmtKind::branch, position);
    ++tokens_.branch_depth;
    while (true) {
      tokens_.take();  // if or elif
      const Expr* condition = tokens_.expression_or_tuple(false);
      tokens_.expect(TokenKind::block_end);
      stmt->branches.emplace_back(condition, block({"elif", "else", "endif"}, position));
      if (!tokens_.at_name("elif")) break;
    }
    if (tokens_.skip_name("else")) {
      stmt->otherwise = body_until("endif", position);
    } else {
      tokens_.expect_name("endif");
    }
    --tokens_.branch_depth;
    return stmt;
  }

  const Stmt* loop(size_t position) {
    Stmt* stmt = make(StmtKind::loop, position);
    tokens_.take();
    ++for_depth_;
    stmt->target = stored_target(false);
    tokens_.expect_name("in");
    stmt->expr = tokens_.expression_or_tuple(false, "recursive");
    if (tokens_.skip_name("if")) stmt->condition = tokens_.expression();
    stmt->recursive = tokens_.skip_name("recursive");
    tokens_.expect(TokenKind::block_end);
    ++loop_depth_;
    stmt->body = block({"endfor", "else"}, position);
    --loop_depth_;
    if (tokens_.skip_name("else")) {
      stmt->otherwise = body_until("endfor", position);
    } else {
      tokens_.expect_name("endfor");
    }
    --for_depth_;
    return stmt;
  }

  // What set and for assign to; inside a loop, the name `loop` is the loop's.
  Target stored_target(bool with_attribute) {
    Target target = tokens_.target(true, with_attribute);
    if (for_depth_ > 0) refuse_loop(target);
    return target;
  }

  static void refuse_loop(const Target& target) {
    if (!target.is_tuple && target.attribute.empty() && target.name == "loop") {
      throw SyntaxFailure{"can't assign to the special variable 'loop' inside a for-loop", target.position};
    }
    for (const Target& item : target.items) refuse_loop(item);
  }

  const Stmt* set(size_t position) {
    Stmt* stmt = make(StmtKind::set, position);
    tokens_.take();
    stmt->target = stored_target(true);
    if (tokens_.skip_symbol("=")) {
      stmt->expr = tokens_.expression_or_tuple();
      return stmt;
    }
    stmt->kind = StmtKind::set_block;
    stmt->expr = tokens_.filter_chain(tokens_.captured(position), false);
    stmt->body = body_until("endset", position);
    return stmt;
  }

  // The body of something that is called: break cannot leave it.
  void callable_body(Stmt* stmt, std::string_view end) {
    const size_t outer = std::exchange(loop_depth_, 0);
    tokens_.macros.push_back({&stmt->head, {}});
    stmt->body = body_until(end, stmt->position);
    tokens_.macros.pop_back();
    MacroHead& head = stmt->head;
    for (const Parameter& parameter : head.parameters) {
      if (parameter.name == "varargs") head.uses_varargs = false;
      if (parameter.name == "kwargs") head.uses_kwargs = false;
      if (parameter.name == "caller" && parameter.fallback == nullptr && head.uses_caller) {
        throw SyntaxFailure{"the parameter 'caller' must have a default", stmt->position};
      }
    }
    loop_depth_ = outer;
  }

  const Stmt* macro(size_t position) {
    Stmt* stmt = make(StmtKind::macro, position);
    tokens_.take();
    stmt->head.name = stmt->target.name = tokens_.take_name();
    stmt->head.parameters = tokens_.signature();
    callable_body(stmt, "endmacro");
    return stmt;
  }

  const Stmt* call(size_t position) {
    Stmt* stmt = make(StmtKind::call, position);
    tokens_.take();
    if (tokens_.at_symbol("(")) stmt->head.parameters = tokens_.signature();
    stmt->expr = tokens_.expression();
    if (stmt->expr->kind != ExprKind::call) throw SyntaxFailure{"expected call", position};
    callable_body(stmt, "endcall");
    return stmt;
  }

  const Stmt* filter(size_t position) {
    Stmt* stmt = make(StmtKind::filter, position);
    tokens_.take();
    stmt->expr = tokens_.filter_chain(tokens_.captured(position), true);
    stmt->body = body_until("endfilter", position);
    return stmt;
  }

  // with, and the marks around an answer that training frameworks read: a body with its own names.
  const Stmt* scope(size_t position, const std::string& tag) {
    Stmt* stmt = make(StmtKind::scope, position);
    tokens_.take();
    while (tag == "with" && !tokens_.at(TokenKind::block_end)) {
      if (!stmt->bindings.empty()) tokens_.expect_symbol(",");
      Target target = tokens_.target(false, false);
      tokens_.expect_symbol("=");
      stmt->bindings.emplace_back(std::move(target), tokens_.expression());
    }
    const size_t outer = loop_depth_;
    if (tag == "generation") loop_depth_ = 0;
    stmt->body = body_until("end" + tag, position);
    loop_depth_ = outer;
    return stmt;
  }

  Tree& tree_;
  ExpressionParser tokens_;
  size_t loop_depth_ = 0;  // loops that break can leave
  size_t for_depth_ = 0;   // loops around, through macros too
};

}  // namespace

std::vector<Parameter> ExpressionParser::signature() {
  std::vector<Parameter> parameters;
  expect_symbol("(");
  while (!at_symbol(")")) {
    if (!parameters.empty()) expect_symbol(",");
    Parameter parameter;
    if (!at(TokenKind::name) || is_constant_name(current().text)) fail_unexpected("a parameter name");
    parameter.name = take_name();
    declare(parameter.name);
    if (skip_symbol("=")) {
      parameter.fallback = expression();
    } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
      fail_here("non-default argument follows default argument");
    }
    parameters.push_back(std::move(parameter));
  }
  expect_symbol(")");
  return parameters;
}

std::unique_ptr<const Tree> parse(std::string_view source) {
  auto tree = std::make_unique<Tree>();
  tree->source = normalize_source(source);
  StatementParser(*tree).run();
  return tree;
}

}  // namespace gale::text::jinja
