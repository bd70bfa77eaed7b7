// Operators, attributes, subscripts and calls with Python's rules.
#include <cmath>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

[[noreturn]] void fail_operands(std::string_view symbol, const Value& a, const Value& b) {
  raise("unsupported operand type(s) for {}: '{}' and '{}'", symbol, type_name(a), type_name(b));
}

[[noreturn]] void fail_overflow() {
  throw Failure{ErrorKind::limit, "the integer result does not fit 64 bits"};
}

std::string_view symbol_of(Operator op) {
  switch (op) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    case Operator::modulo:
      return "%";
    case Operator::power:
      return "** or pow()";
    default:
      return "?";
  }
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) raise("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

Value integer_arithmetic(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return result;
    case Operator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return result;
    case Operator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return result;
    case Operator::divide:
      if (b == 0) raise("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    case Operator::floor_divide:
    case Operator::modulo: {
      if (b == 0) raise("integer division or modulo by zero");
      if (b == -1) return op == Operator::modulo ? Value(int64_t{0}) : negate(a);
      const int64_t remainder = a % b;
      const bool adjust = remainder != 0 && ((remainder < 0) != (b < 0));
      if (op == Operator::modulo) return adjust ? remainder + b : remainder;
      return a / b - (adjust ? 1 : 0);
    }
    case Operator::power:
      return integer_power(a, b);
    default:
      return None{};
  }
}

Value real_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return a + b;
    case Operator::subtract:
      return a - b;
    case Operator::multiply:
      return a * b;
    case Operator::divide:
      if (b == 0) raise("float division by zero");
      return a / b;
    case Operator::floor_divide:
    case Operator::modulo: {
      if (b == 0) raise("float {}", op == Operator::modulo ? "modulo" : "floor division by zero");
      double remainder = std::fmod(a, b);
      double quotient = (a - remainder) / b;
      if (remainder == 0) {
        remainder = std::copysign(0.0, b);
      } else if ((remainder < 0) != (b < 0)) {
        remainder += b;
        quotient -= 1;
      }
      if (op == Operator::modulo) return remainder;
      if (quotient == 0) return std::copysign(0.0, a / b);
      const double whole = std::floor(quotient);
      return quotient - whole > 0.5 ? whole + 1 : whole;
    }
    case Operator::power: {
      if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
      const double result = std::pow(a, b);
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) raise("the power is a complex number");
      if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) raise("the power is out of range");
      return result;
    }
    default:
      return None{};
  }
}

const Sequence* as_listing(const Value& value) {
  const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value);
  if (sequence == nullptr) return nullptr;
  const bool fits = (*sequence)->kind == SequenceKind::list || (*sequence)->kind == SequenceKind::tuple;
  return fits ? sequence->get() : nullptr;
}

// text * n and list * n.
Value repeat(Context& context, const Value& value, int64_t count) {
  const uint64_t times = count < 0 ? 0 : static_cast<uint64_t>(count);
  if (const MarkedText* text = as_text(value)) {
    uint64_t size = 0;
    if (__builtin_mul_overflow(times, text->size(), &size)) size = UINT64_MAX;
    context.charge_text(size);
    MarkedText out;
    for (uint64_t i = 0; i < times && !text->empty(); ++i) out.append(*text);
    return std::make_shared<const MarkedText>(std::move(out).with_markup(text->is_markup()));
  }
  const Sequence& list = *as_listing(value);
  uint64_t size = 0;
  if (__builtin_mul_overflow(times, list.items.size(), &size) || size > context.limits.steps) context.fail_steps();
  context.charge_steps(size);
  std::vector<Value> items;
  items.reserve(size);
  for (uint64_t i = 0; i < times && !list.items.empty(); ++i) {
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return make_sequence(context, std::move(items), list.kind);
}

Value add(Context& context, const Value& a, const Value& b) {
  const MarkedText* left = as_text(a);
  const MarkedText* right = as_text(b);
  if (left != nullptr && right != nullptr) {
    if (left->is_markup() != right->is_markup()) return add(context, escaped(context, a), escaped(context, b));
    context.charge_text(left->size() + right->size());
    MarkedText out = *left;
    out.append(*right);
    return std::make_shared<const MarkedText>(std::move(out));
  }
  const Sequence* list = as_listing(a);
  const Sequence* other = as_listing(b);
  if (list != nullptr && other != nullptr && list->kind == other->kind) {
    context.charge_steps(list->items.size() + other->items.size());
    std::vector<Value> items = list->items;
    items.insert(items.end(), other->items.begin(), other->items.end());
    return make_sequence(context, std::move(items), list->kind);
  }
  if (left != nullptr) raise("can only concatenate str (not \"{}\") to str", type_name(b));
  if (list != nullptr) {
    const std::string_view type = type_name(a);
    raise("can only concatenate {} (not \"{}\") to {}", type, type_name(b), type);
  }
  fail_operands("+", a, b);
}

// An index from the end when negative; nothing when outside.
std::optional<size_t> resolve_index(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

Value text_item(Context& context, const MarkedText& text, int64_t index) {
  context.charge_steps(text.size() / 256);
  const auto found = resolve_index(index, count_characters(text.bytes()));
  if (!found) return undefined(fmt::format("'str object' has no element {}", index));
  const size_t begin = character_offset(text.bytes(), *found);
  MarkedText item = text.slice(begin, begin + character_size(text.bytes(), begin));
  return make_text(context, std::move(item).with_markup(text.is_markup()));
}

Value missing(const Value& object, const Value& key) {
  if (const MarkedText* name = as_text(key)) {
    return undefined(is_none(object) ? fmt::format("None has no attribute '{}'", name->bytes())
                                     : fmt::format("{} has no attribute '{}'", describe(object), name->bytes()));
  }
  if (const auto index = as_integer(key))
    return undefined(fmt::format("{} has no element {}", describe(object), *index));
  return undefined(fmt::format("{} has no element of type '{}'", describe(object), type_name(key)));
}

// Python's slice.indices().
struct SliceRange {
  int64_t begin, end, step;
};

SliceRange slice_range(const Value& begin, const Value& end, const Value& step, size_t length) {
  const auto number = [](const Value& value, int64_t fallback) {
    if (is_none(value)) return fallback;
    require_defined(value);
    const auto integer = as_integer(value);
    if (!integer) raise("slice indices must be integers or None");
    return *integer;
  };
  const auto size = static_cast<int64_t>(length);
  const int64_t by = number(step, 1);
  if (by == 0) raise("slice step cannot be zero");
  const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? size - 1 : size;
  const auto clamp = [&](int64_t index) {
    if (index < 0) return index < -size ? low : std::max(index + size, low);
    return std::min(index, high);
  };
  const int64_t from = is_none(begin) ? (by < 0 ? high : low) : clamp(number(begin, 0));
  const int64_t to = is_none(end) ? (by < 0 ? low : high) : clamp(number(end, 0));
  return {from, to, by};
}

template <class Visit>
void walk_slice(const SliceRange& range, Visit visit) {
  for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end;) {
    visit(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, range.step, &i)) break;
  }
}

Value slice_text(Context& context, const MarkedText& text, const Value& begin, const Value& end, const Value& step) {
  context.charge_steps(text.size() / 64);
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size(); i += character_size(text.bytes(), i)) offsets.push_back(i);
  const SliceRange range = slice_range(begin, end, step, offsets.size());
  offsets.push_back(text.size());
  MarkedText out;
  if (range.step == 1) {
    if (range.begin < range.end) {
      out = text.slice(offsets[static_cast<size_t>(range.begin)], offsets[static_cast<size_t>(range.end)]);
    }
  } else {
    walk_slice(range, [&](size_t i) { out.append_slice(text, offsets[i], offsets[i + 1]); });
  }
  return make_text(context, std::move(out).with_markup(text.is_markup()));
}

Value slice_of_range(Context& context, const Sequence& whole, const SliceRange& part) {
  const auto position = [&](int64_t index) {
    int64_t offset = 0, value = 0;
    if (__builtin_mul_overflow(index, whole.step, &offset) || __builtin_add_overflow(whole.start, offset, &value)) {
      fail_overflow();
    }
    return value;
  };
  int64_t step = 0;
  if (__builtin_mul_overflow(whole.step, part.step, &step)) fail_overflow();
  return make_range(context, position(part.begin), position(part.end), step);
}

std::optional<Value> macro_attribute(Context& context, const MacroHead& head, std::string_view name) {
  if (name == "name") return head.name.empty() ? Value(None{}) : make_text(context, head.name);
  if (name == "catch_varargs") return head.uses_varargs;
  if (name == "catch_kwargs") return head.uses_kwargs;
  if (name == "caller") return head.uses_caller;
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const Parameter& parameter : head.parameters) names.push_back(make_text(context, parameter.name));
  return make_sequence(context, std::move(names), SequenceKind::tuple);
}

Value loop_attribute(Context& context, const std::shared_ptr<Loop>& loop, std::string_view name) {
  const auto index = static_cast<int64_t>(loop->index);
  const auto size = [&] { return static_cast<int64_t>(length_of(Value(loop))); };
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size() - index;
  if (name == "revindex0") return size() - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return !has_item(*loop, loop->index + 1);
  if (name == "length") return size();
  if (name == "depth") return static_cast<int64_t>(loop->depth) + 1;
  if (name == "depth0") return static_cast<int64_t>(loop->depth);
  if (name == "previtem") {
    return index == 0 ? undefined("there is no previous item") : loop->items->items[loop->index - 1];
  }
  if (name == "nextitem") {
    if (!has_item(*loop, loop->index + 1)) return undefined("there is no next item");
    return loop->items->items[loop->index + 1];
  }
  if (name == "cycle") {
    return make_function(context, loop, "cycle", [loop](Context&, const Arguments& arguments) -> Value {
      if (arguments.positional.empty()) raise("no items for cycling given");
      return arguments.positional[loop->index % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return make_function(context, loop, "changed", [loop](Context& ctx, const Arguments& arguments) -> Value {
      const auto same = [&] {
        if (!loop->last_changed || loop->last_changed->positional.size() != arguments.positional.size()) return false;
        for (size_t i = 0; i < arguments.positional.size(); ++i) {
          if (!equal(ctx, loop->last_changed->positional[i], arguments.positional[i])) return false;
        }
        return true;
      };
      if (same()) return false;
      if (!loop->last_changed) ctx.loops.push_back(loop);
      loop->last_changed = arguments;
      return true;
    });
  }
  context.charge_steps();
  return missing(Value(loop), std::make_shared<const MarkedText>(std::string(name), true));
}

}  // namespace

Value binary(Context& context, Operator op, const Value& a, const Value& b) {
  context.charge_steps();
  if (op == Operator::modulo && as_text(a) != nullptr) return format_percent(context, *as_text(a), b);
  require_defined(a);
  require_defined(b);
  const auto left = as_integer(a), right = as_integer(b);
  if (left && right) return integer_arithmetic(op, *left, *right);
  const auto real = as_number(a), other = as_number(b);
  if (real && other) return real_arithmetic(op, *real, *other);
  if (op == Operator::add) return add(context, a, b);
  if (op == Operator::multiply) {
    if (right && (as_text(a) != nullptr || as_listing(a) != nullptr)) return repeat(context, a, *right);
    if (left && (as_text(b) != nullptr || as_listing(b) != nullptr)) return repeat(context, b, *left);
    if (as_text(a) != nullptr || as_listing(a) != nullptr) {
      raise("can't multiply sequence by non-int of type '{}'", type_name(b));
    }
  }
  fail_operands(symbol_of(op), a, b);
}

Value negate(const Value& value) {
  require_defined(value);
  if (const auto integer = as_integer(value)) {
    if (*integer == INT64_MIN) fail_overflow();
    return -*integer;
  }
  if (const auto real = as_number(value)) return -*real;
  raise("bad operand type for unary -: '{}'", type_name(value));
}

bool contains(Context& context, const Value& container, const Value& item) {
  if (const MarkedText* text = as_text(container)) {
    require_defined(item);
    const MarkedText* part = as_text(item);
    if (part == nullptr) raise("'in <string>' requires string as left operand, not {}", type_name(item));
    context.charge_steps((text->size() + part->size()) / 256);
    return find_bytes(text->bytes(), part->bytes()) != std::string_view::npos;
  }
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&container)) {
    return find_key(context, **dict, item) != nullptr;
  }
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&container)) {
    const bool iterator = (*sequence)->kind == SequenceKind::iterator;
    if ((*sequence)->kind == SequenceKind::view && (*sequence)->label == "dict_keys") require_hashable(context, item);
    for (size_t i = (*sequence)->cursor; i < (*sequence)->items.size(); ++i) {
      if (iterator) (*sequence)->cursor = i + 1;
      if (equal(context, (*sequence)->items[i], item)) return true;
    }
    return false;
  }
  if (is_undefined(container)) return false;
  if (std::holds_alternative<std::shared_ptr<Loop>>(container)) {
    const auto items = iterate(context, container);
    return std::any_of(items->items.begin(), items->items.end(),
                       [&](const Value& other) { return equal(context, other, item); });
  }
  raise("argument of type '{}' is not iterable", type_name(container));
}

bool compare(Context& context, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::eq:
      return equal(context, a, b);
    case Operator::ne:
      return !equal(context, a, b);
    case Operator::in:
      return contains(context, b, a);
    case Operator::not_in:
      return !contains(context, b, a);
    default:
      break;
  }
  const auto left = as_number(a), right = as_number(b);
  const bool has_nan = left && right && (std::isnan(*left) || std::isnan(*right));
  switch (op) {
    case Operator::lt:
      return less(context, a, b, "<");
    case Operator::gt:
      return less(context, b, a, ">");
    case Operator::le:
      return !has_nan && !less(context, b, a, "<=");
    default:
      return !has_nan && !less(context, a, b, ">=");
  }
}

Value get_attribute(Context& context, const Value& object, std::string_view name) {
  context.charge_steps();
  require_defined(object);
  if (const auto* loop = std::get_if<std::shared_ptr<Loop>>(&object)) return loop_attribute(context, *loop, name);
  if (const auto* space = std::get_if<std::shared_ptr<Namespace>>(&object)) {
    for (const auto& [key, value] : (*space)->attributes) {
      if (key == name) return value;
    }
  } else if (const auto* function = std::get_if<std::shared_ptr<const Function>>(&object)) {
    if ((*function)->macro != nullptr) {
      if (auto value = macro_attribute(context, *(*function)->macro, name)) return *std::move(value);
    }
  } else if (auto method = find_method(context, object, name)) {
    return *std::move(method);
  }
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&object)) {
    if (const Value* value = find_key(context, **dict, name)) return *value;
  }
  return missing(object, std::make_shared<const MarkedText>(std::string(name), true));
}

Value get_item(Context& context, const Value& object, const Value& key) {
  context.charge_steps();
  require_defined(object);
  const auto index = as_integer(key);
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&object)) {
    try {
      if (const Value* value = find_key(context, **dict, key)) return *value;
    } catch (const Failure& failure) {
      if (failure.kind == ErrorKind::limit) throw;  // a key that cannot be hashed is a key that is not there
    }
  } else if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&object)) {
    const bool indexed = (*sequence)->kind != SequenceKind::iterator && (*sequence)->kind != SequenceKind::view;
    if (index && indexed) {
      if (const auto found = resolve_index(*index, (*sequence)->items.size())) return (*sequence)->items[*found];
    }
  } else if (const MarkedText* text = as_text(object); text != nullptr && index) {
    return text_item(context, *text, *index);
  }
  const MarkedText* name = as_text(key);
  if (name == nullptr || std::holds_alternative<std::shared_ptr<const Dict>>(object)) {
    if (name != nullptr) {
      if (auto method = find_method(context, object, name->bytes())) return *std::move(method);
    }
    return missing(object, key);
  }
  return get_attribute(context, object, name->bytes());
}

Value get_slice(Context& context, const Value& object, const Value& begin, const Value& end, const Value& step) {
  context.charge_steps();
  require_defined(object);
  const MarkedText* text = as_text(object);
  const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&object);
  const bool sliced = text != nullptr || (sequence != nullptr && (*sequence)->kind != SequenceKind::iterator &&
                                          (*sequence)->kind != SequenceKind::view);
  if (!sliced) raise("'{}' object cannot be sliced", type_name(object));
  if (text != nullptr) return slice_text(context, *text, begin, end, step);
  const auto& items = (*sequence)->items;
  const SliceRange range = slice_range(begin, end, step, items.size());
  if ((*sequence)->kind == SequenceKind::range) return slice_of_range(context, **sequence, range);
  std::vector<Value> out;
  walk_slice(range, [&](size_t i) { out.push_back(items[i]); });
  const bool tuple = (*sequence)->kind == SequenceKind::tuple;
  return make_sequence(context, std::move(out), tuple ? SequenceKind::tuple : SequenceKind::list);
}

Value call(Context& context, const Value& callee, const Arguments& arguments) {
  const Nested nested(context);
  context.charge_steps();
  require_defined(callee);
  if (const auto* function = std::get_if<std::shared_ptr<const Function>>(&callee)) {
    return (*function)->call(context, arguments);
  }
  if (const auto* loop = std::get_if<std::shared_ptr<Loop>>(&callee)) {
    if (!(*loop)->recurse) raise("the loop must have the 'recursive' marker to be called recursively");
    return (*loop)->recurse(context, *Parameters("loop", arguments, {"iterable"}, 1)[0]);
  }
  raise("'{}' object is not callable", type_name(callee));
}

}  // namespace gale::text::jinja
