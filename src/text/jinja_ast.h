// The syntax tree of a template. Nodes live in the arenas of Tree and point at each other without owning.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace gale::text::jinja {

enum class ExprKind {
  constant,
  name,
  captured,  // the text that a filter block or a block set has collected
  list,
  tuple,
  dict,         // key, value, key, value, ...
  conditional,  // condition, then, [otherwise]
  logical_and,
  logical_or,
  logical_not,
  negate,
  plus,
  binary,
  concat,
  compare,    // first, then one operand per operator
  attribute,  // object.name
  item,       // object[key]
  slice,      // object[a:b:c]: object, a, b, c; nullptr where nothing is written
  call,
  filter,
  test,
};

enum class Operator {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  not_in
};

struct Expr {
  ExprKind kind = ExprKind::constant;
  size_t position = 0;
  size_t height = 1;  // of the tree below: bounds recursion
  std::string name;   // name, attribute, filter, test
  Value constant;
  std::vector<const Expr*> children;                       // call: callee, arguments; filter, test: operand, arguments
  std::vector<Operator> operators;                         // binary: one; compare: one per operand after the first
  std::vector<std::pair<std::string, const Expr*>> named;  // call, filter, test
  const Expr* spread = nullptr;                            // *arguments
  const Expr* named_spread = nullptr;                      // **arguments
};

enum class StmtKind { data, print, branch, loop, set, set_block, macro, call, filter, scope, leave, again };

struct Stmt;
using Block = std::vector<const Stmt*>;

// A name, a tuple of targets or namespace.attribute.
struct Target {
  std::string name;
  std::string attribute;  // empty unless namespace.attribute
  std::vector<Target> items;
  bool is_tuple = false;
  size_t position = 0;
};

struct Parameter {
  std::string name;
  const Expr* fallback = nullptr;
};

struct MacroHead {
  std::string name;  // empty: the body of a call block
  std::vector<Parameter> parameters;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Stmt {
  StmtKind kind = StmtKind::data;
  size_t position = 0;
  size_t height = 1;
  Value data;
  const Expr* expr = nullptr;       // print, loop: items, set: value, call: the call, filter and set_block: the filters
  const Expr* condition = nullptr;  // loop
  std::vector<std::pair<const Expr*, Block>> branches;   // branch: if, elif
  Target target;                                         // loop, set, set_block
  std::vector<std::pair<Target, const Expr*>> bindings;  // scope: with a = 1
  Block body, otherwise;
  MacroHead head;  // macro, call
  bool recursive = false;
};

struct Tree {
  std::string source;  // normalized
  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  Block body;
};

}  // namespace gale::text::jinja
