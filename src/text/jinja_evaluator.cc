// The tree-walking evaluator: statements, scopes, macros, and expressions on top of jinja_operations.
#include "text/jinja_evaluator.h"

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

// Names of one block; blocks inside see the names of the blocks around them.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::unordered_map<std::string_view, Value> names;
};
using ScopePtr = std::shared_ptr<Scope>;

enum class Flow { next, leave_loop, next_item };

class Evaluator {
 public:
  Evaluator(const Tree& tree, Context& context) : tree_(tree), context_(context) {}

  // Macros hold the scopes that they were made in, and scopes hold macros: the cycles end here.
  ~Evaluator() {
    for (const ScopePtr& scope : captured_) scope->names.clear();
    for (const auto& space : context_.namespaces) space->attributes.clear();
    for (const auto& loop : context_.loops) loop->last_changed.reset();
  }
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  MarkedText run(const std::vector<std::pair<std::string, Value>>& variables) {
    auto root = std::make_shared<Scope>();
    captured_.push_back(root);
    for (const auto& [name, value] : variables) root->names.emplace(name, value);
    auto top = std::make_shared<Scope>(Scope{root, {}});
    block(tree_.body, top);
    return std::move(out_);
  }

 private:
  void write(const MarkedText& text) {
    if (out_.size() + text.size() > context_.limits.text_bytes) {
      throw Failure{ErrorKind::limit, fmt::format("the output passes {} bytes, the limit", context_.limits.text_bytes)};
    }
    context_.charge_text(text.size());
    out_.append(text);
  }

  // Runs `body` with its output collected apart.
  template <class Body>
  Value collect(Body body) {
    MarkedText outer = std::exchange(out_, MarkedText());
    body();
    return std::make_shared<const MarkedText>(std::exchange(out_, std::move(outer)));
  }

  static ScopePtr inner(const ScopePtr& scope) { return std::make_shared<Scope>(Scope{scope, {}}); }

  Flow block(const Block& body, const ScopePtr& scope) {
    for (const Stmt* stmt : body) {
      const Flow flow = statement(*stmt, scope);
      if (flow != Flow::next) return flow;
    }
    return Flow::next;
  }

  Flow statement(const Stmt& stmt, const ScopePtr& scope) {
    const Nested nested(context_);
    context_.charge_steps();
    context_.position = stmt.position;
    switch (stmt.kind) {
      case StmtKind::data:
        write(*as_text(stmt.data));
        return Flow::next;
      case StmtKind::print:
        write(*to_text(context_, evaluate(*stmt.expr, scope)));
        return Flow::next;
      case StmtKind::branch:
        return branch(stmt, scope);
      case StmtKind::loop:
        loop(stmt, scope, evaluate(*stmt.expr, scope), 0);
        return Flow::next;
      case StmtKind::set:
        assign(stmt.target, evaluate(*stmt.expr, scope), scope);
        return Flow::next;
      case StmtKind::set_block:
      case StmtKind::filter:
        return captured_block(stmt, scope);
      case StmtKind::macro:
        scope->names[stmt.head.name] = make_macro(stmt, scope);
        return Flow::next;
      case StmtKind::call:
        call_block(stmt, scope);
        return Flow::next;
      case StmtKind::scope:
        return scoped_block(stmt, scope);
      case StmtKind::leave:
        return Flow::leave_loop;
      case StmtKind::again:
        return Flow::next_item;
    }
    return Flow::next;
  }

  Flow branch(const Stmt& stmt, const ScopePtr& scope) {
    for (const auto& [condition, body] : stmt.branches) {
      if (is_true(evaluate(*condition, scope))) return block(body, scope);
    }
    return block(stmt.otherwise, scope);
  }

  void loop(const Stmt& stmt, const ScopePtr& scope, const Value& iterable, size_t depth) {
    context_.position = stmt.expr->position;
    const std::shared_ptr<const Sequence> items = iterate(context_, iterable);
    const auto state = std::make_shared<Loop>();
    state->items = items;
    state->depth = depth;
    if (stmt.condition != nullptr) filter_items(stmt, scope, items, *state);
    if (stmt.recursive) {
      capture(scope);
      state->recurse = [this, &stmt, weak = std::weak_ptr<Scope>(scope), depth](Context&, const Value& next) {
        const ScopePtr target = weak.lock();
        return collect([&] { loop(stmt, target, next, depth + 1); });
      };
    }
    bool completed = false;  // some iteration came to its end: as jinja2 has it, `else` asks for that, not for items
    for (size_t i = 0; has_item(*state, i); i = state->index + 1) {  // the body may use items up
      context_.charge_steps(4);                                      // a scope and its names
      state->index = i;
      const ScopePtr body = inner(scope);
      body->names.emplace("loop", state);
      assign(stmt.target, state->items->items[i], body);
      const Flow flow = block(stmt.body, body);
      if (flow == Flow::leave_loop) break;
      completed |= flow == Flow::next;
    }
    state->more = nullptr;  // holds the scope
    if (!completed) block(stmt.otherwise, inner(scope));
  }

  // `for x in items if condition`: the condition is asked when an item is wanted.
  void filter_items(const Stmt& stmt, const ScopePtr& scope, const std::shared_ptr<const Sequence>& items,
                    Loop& state) {
    auto kept = std::make_shared<Sequence>();
    kept->depth = items->depth + (stmt.target.is_tuple ? 1 : 0);
    state.items = kept;
    state.more = [this, &stmt, scope, items, kept = kept.get(), next = size_t{0}]() mutable {
      while (next < items->items.size()) {
        const ScopePtr test = inner(scope);
        assign(stmt.target, items->items[next++], test);
        if (!is_true(evaluate(*stmt.condition, test))) continue;
        kept->items.push_back(packed(stmt.target, test));
        return true;
      }
      return false;
    };
  }

  void assign(const Target& target, const Value& value, const ScopePtr& scope) {
    context_.charge_steps();
    if (!target.attribute.empty()) return assign_attribute(target, value, scope);
    if (!target.is_tuple) {
      scope->names[target.name] = value;
      return;
    }
    context_.position = target.position;
    require_defined(value);
    const auto items = iterate(context_, value);
    if (items->items.size() != target.items.size()) {
      raise("expected {} values to unpack, got {}", target.items.size(), items->items.size());
    }
    for (size_t i = 0; i < target.items.size(); ++i) assign(target.items[i], items->items[i], scope);
  }

  // What was assigned to the target, put together again: what a loop with a condition walks over.
  Value packed(const Target& target, const ScopePtr& scope) {
    if (!target.is_tuple) return lookup(target.name, scope);
    std::vector<Value> items;
    for (const Target& item : target.items) items.push_back(packed(item, scope));
    return make_sequence(context_, std::move(items), SequenceKind::tuple);
  }

  void assign_attribute(const Target& target, const Value& value, const ScopePtr& scope) {
    context_.position = target.position;
    const Value object = lookup(target.name, scope);
    const auto* space = std::get_if<std::shared_ptr<Namespace>>(&object);
    if (space == nullptr) raise("cannot assign attribute on non-namespace object '{}'", target.name);
    for (auto& [name, slot] : (*space)->attributes) {
      if (name != target.attribute) continue;
      slot = value;
      return;
    }
    (*space)->attributes.emplace_back(target.attribute, value);
  }

  Flow captured_block(const Stmt& stmt, const ScopePtr& scope) {
    Flow flow = Flow::next;
    const Value text = collect([&] { flow = block(stmt.body, inner(scope)); });
    if (flow != Flow::next) return flow;
    const Value outer = std::exchange(captured_text_, text);
    const Value value = evaluate(*stmt.expr, scope);
    captured_text_ = outer;
    if (stmt.kind == StmtKind::filter) {
      write(*to_text(context_, value));
    } else {
      assign(stmt.target, value, scope);
    }
    return Flow::next;
  }

  Flow scoped_block(const Stmt& stmt, const ScopePtr& scope) {
    const ScopePtr body = inner(scope);
    std::vector<Value> values;  // all are evaluated outside, before any name is set
    for (const auto& binding : stmt.bindings) values.push_back(evaluate(*binding.second, scope));
    for (size_t i = 0; i < values.size(); ++i) assign(stmt.bindings[i].first, values[i], body);
    return block(stmt.body, body);
  }

  void call_block(const Stmt& stmt, const ScopePtr& scope) {
    const Value caller = make_macro(stmt, scope);
    const Expr& expr = *stmt.expr;
    const Value callee = evaluate(*expr.children[0], scope);
    Arguments arguments = evaluate_arguments(expr, scope);
    // Before what **arguments brings, as jinja2 passes it.
    arguments.named.emplace(arguments.named.begin() + static_cast<std::ptrdiff_t>(expr.named.size()), "caller", caller);
    context_.position = expr.position;
    write(*to_text(context_, call(context_, callee, arguments)));
  }

  // Keeps the scope to the end of the render, for functions that refer to it.
  void capture(const ScopePtr& scope) {
    if (!captured_.empty() && captured_.back() == scope) return;
    context_.charge_steps(16);  // it stays: some hundred bytes
    captured_.push_back(scope);
  }

  Value make_macro(const Stmt& stmt, const ScopePtr& scope) {
    capture(scope);
    Function macro;
    macro.name = stmt.head.name;
    macro.macro = &stmt.head;
    macro.call = [this, &stmt, weak = std::weak_ptr<Scope>(scope)](Context&, const Arguments& arguments) {
      return call_macro(stmt, weak.lock(), arguments);
    };
    return std::make_shared<const Function>(std::move(macro));
  }

  Value call_macro(const Stmt& stmt, const ScopePtr& scope, const Arguments& arguments) {
    const MacroHead& head = stmt.head;
    const std::string_view label = head.name.empty() ? "caller" : std::string_view(head.name);
    const ScopePtr body = inner(scope);
    std::vector<std::optional<Value>> values(head.parameters.size());
    std::vector<Value> rest;
    for (size_t i = 0; i < arguments.positional.size(); ++i) {
      if (i < values.size()) {
        values[i] = arguments.positional[i];
      } else {
        rest.push_back(arguments.positional[i]);
      }
    }
    std::optional<Value> caller;
    const bool own_caller = std::any_of(head.parameters.begin(), head.parameters.end(),
                                        [](const Parameter& parameter) { return parameter.name == "caller"; });
    std::vector<std::pair<Value, Value>> named_rest;
    for (const auto& [name, value] : arguments.named) {
      // As jinja2 has it, a name that was given by position already is no parameter any more.
      const auto matches = [&, &key = name](const Parameter& parameter) { return parameter.name == key; };
      const size_t taken = std::min(arguments.positional.size(), head.parameters.size());
      const auto free = head.parameters.begin() + static_cast<std::ptrdiff_t>(taken);
      const auto found = std::find_if(free, head.parameters.end(), matches);
      if (found != head.parameters.end()) {
        values[static_cast<size_t>(found - head.parameters.begin())] = value;
      } else if (name == "caller" && head.uses_caller && !own_caller) {
        caller = value;
      } else if (head.uses_kwargs) {
        named_rest.emplace_back(make_text(context_, name), value);
      } else {
        raise("macro '{}' takes no keyword argument '{}'", label, name);
      }
    }
    if (!rest.empty() && !head.uses_varargs) {
      raise("macro '{}' takes not more than {} argument(s)", label, head.parameters.size());
    }
    if (head.uses_varargs) body->names["varargs"] = make_sequence(context_, std::move(rest), SequenceKind::tuple);
    if (head.uses_kwargs) body->names["kwargs"] = make_dict(context_, std::move(named_rest));
    if (head.uses_caller && !own_caller) body->names["caller"] = caller ? *caller : undefined("No caller defined");
    for (size_t i = 0; i < values.size(); ++i) {
      const Parameter& parameter = head.parameters[i];
      if (!values[i] && parameter.fallback != nullptr) values[i] = evaluate(*parameter.fallback, body);
      if (!values[i]) values[i] = undefined(fmt::format("parameter '{}' was not provided", parameter.name));
      body->names[parameter.name] = *values[i];
    }
    const size_t position = context_.position;
    Value text = collect([&] { block(stmt.body, body); });
    context_.position = position;
    return text;
  }

  Value lookup(std::string_view name, const ScopePtr& scope) {
    for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
      const auto found = at->names.find(name);
      if (found != at->names.end()) return found->second;
    }
    if (auto global = find_global(name)) return *std::move(global);
    return undefined(fmt::format("'{}' is undefined", name));
  }

  Arguments evaluate_arguments(const Expr& expr, const ScopePtr& scope) {
    Arguments arguments;
    for (size_t i = 1; i < expr.children.size(); ++i)
      arguments.positional.push_back(evaluate(*expr.children[i], scope));
    for (const auto& [name, value] : expr.named) arguments.named.emplace_back(name, evaluate(*value, scope));
    if (expr.spread != nullptr) {
      const auto items = iterate(context_, evaluate(*expr.spread, scope));
      arguments.positional.insert(arguments.positional.end(), items->items.begin(), items->items.end());
      context_.charge_steps(items->items.size());
    }
    if (expr.named_spread != nullptr) {
      const Value value = evaluate(*expr.named_spread, scope);
      const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value);
      if (dict == nullptr) raise("argument after ** must be a mapping, not {}", type_name(value));
      for (const auto& [key, item] : (*dict)->entries) {
        if (as_text(key) == nullptr) raise("keywords must be strings");
        arguments.named.emplace_back(as_text(key)->bytes(), item);
      }
      context_.charge_steps((*dict)->entries.size());
    }
    return arguments;
  }

  Value evaluate(const Expr& expr, const ScopePtr& scope) {
    const Nested nested(context_);
    context_.charge_steps();
    switch (expr.kind) {
      case ExprKind::constant:
        return expr.constant;
      case ExprKind::captured:
        return captured_text_;
      case ExprKind::name:
        return lookup(expr.name, scope);
      case ExprKind::list:
      case ExprKind::tuple:
      case ExprKind::dict:
        return collection(expr, scope);
      case ExprKind::conditional:
        return conditional(expr, scope);
      case ExprKind::logical_and:
      case ExprKind::logical_or: {
        Value left = evaluate(*expr.children[0], scope);
        if (is_true(left) == (expr.kind == ExprKind::logical_or)) return left;
        return evaluate(*expr.children[1], scope);
      }
      case ExprKind::logical_not:
        return !is_true(evaluate(*expr.children[0], scope));
      default:
        break;
    }
    return operation(expr, scope);
  }

  // Operations that can fail on their operands: errors point at the operation.
  Value operation(const Expr& expr, const ScopePtr& scope) {
    if (expr.kind == ExprKind::compare) return comparison(expr, scope);
    if (expr.kind == ExprKind::concat) return concatenation(expr, scope);
    if (expr.kind == ExprKind::slice) return slice(expr, scope);
    const Value first = evaluate(*expr.children[0], scope);
    if (expr.kind == ExprKind::call || expr.kind == ExprKind::filter || expr.kind == ExprKind::test) {
      const Arguments arguments = evaluate_arguments(expr, scope);
      context_.position = expr.position;
      if (expr.kind == ExprKind::call) return call(context_, first, arguments);
      if (expr.kind == ExprKind::filter) return apply_filter(context_, expr.name, first, arguments);
      return apply_test(context_, expr.name, first, arguments);
    }
    if (expr.kind == ExprKind::binary) {
      const Value second = evaluate(*expr.children[1], scope);
      context_.position = expr.position;
      return binary(context_, expr.operators[0], first, second);
    }
    if (expr.kind == ExprKind::item) {
      const Value key = evaluate(*expr.children[1], scope);
      context_.position = expr.position;
      return get_item(context_, first, key);
    }
    context_.position = expr.position;
    if (expr.kind == ExprKind::attribute) return get_attribute(context_, first, expr.name);
    if (expr.kind == ExprKind::negate) return negate(first);
    require_defined(first);  // unary plus
    if (const auto integer = as_integer(first)) return *integer;
    if (!as_number(first)) raise("bad operand type for unary +: '{}'", type_name(first));
    return first;
  }

  Value collection(const Expr& expr, const ScopePtr& scope) {
    std::vector<Value> items;
    for (const Expr* child : expr.children) items.push_back(evaluate(*child, scope));
    context_.position = expr.position;
    if (expr.kind == ExprKind::list) return make_sequence(context_, std::move(items));
    if (expr.kind == ExprKind::tuple) return make_sequence(context_, std::move(items), SequenceKind::tuple);
    std::vector<std::pair<Value, Value>> entries;
    for (size_t i = 0; i + 1 < items.size(); i += 2) entries.emplace_back(std::move(items[i]), std::move(items[i + 1]));
    return make_dict(context_, std::move(entries));
  }

  Value conditional(const Expr& expr, const ScopePtr& scope) {
    if (is_true(evaluate(*expr.children[0], scope))) return evaluate(*expr.children[1], scope);
    if (expr.children.size() > 2) return evaluate(*expr.children[2], scope);
    return undefined("the inline if-expression evaluated to false and no else section was defined");
  }

  Value comparison(const Expr& expr, const ScopePtr& scope) {
    Value left = evaluate(*expr.children[0], scope);
    for (size_t i = 0; i < expr.operators.size(); ++i) {
      Value right = evaluate(*expr.children[i + 1], scope);
      context_.position = expr.position;
      if (!compare(context_, expr.operators[i], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  Value concatenation(const Expr& expr, const ScopePtr& scope) {
    MarkedText out;
    for (const Expr* child : expr.children) {
      const Text text = to_text(context_, evaluate(*child, scope));
      context_.charge_text(out.size() + text->size());
      out.append(*text);
    }
    return std::make_shared<const MarkedText>(std::move(out));
  }

  Value slice(const Expr& expr, const ScopePtr& scope) {
    const Value object = evaluate(*expr.children[0], scope);
    Value bounds[3] = {None{}, None{}, None{}};
    for (size_t i = 0; i < 3; ++i) {
      if (expr.children[i + 1] != nullptr) bounds[i] = evaluate(*expr.children[i + 1], scope);
    }
    context_.position = expr.position;
    return get_slice(context_, object, bounds[0], bounds[1], bounds[2]);
  }

  const Tree& tree_;
  Context& context_;
  MarkedText out_;
  Value captured_text_;
  std::vector<ScopePtr> captured_;
};

}  // namespace

MarkedText evaluate(const Tree& tree, Context& context, std::vector<std::pair<std::string, Value>> variables) {
  return Evaluator(tree, context).run(variables);
}

}  // namespace gale::text::jinja
