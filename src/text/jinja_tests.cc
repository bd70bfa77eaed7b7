// Tests (value is defined, ...) and the global functions of templates.
#include <ctime>
#include <map>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

using Test = bool (*)(Context& context, const Value& value, const Arguments& arguments);

const Value& other(std::string_view test, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) raise("the test '{}' takes one argument", test);
  return arguments.positional[0];
}

template <Operator kOperator>
bool test_compare(Context& context, const Value& value, const Arguments& arguments) {
  return compare(context, kOperator, value, other("comparison", arguments));
}

int64_t remainder(Context& context, const Value& value, const Value& by) {
  const Value result = binary(context, Operator::modulo, value, by);
  const auto number = as_number(result);
  if (!number) raise("not a number");
  return *number == 0 ? 0 : *number == 1 ? 1 : 2;
}

bool is_sequence(const Value& value) {
  if (is_undefined(value) || as_text(value) != nullptr) return true;
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) {
    return (*sequence)->kind != SequenceKind::iterator && (*sequence)->kind != SequenceKind::view;
  }
  return std::holds_alternative<std::shared_ptr<const Dict>>(value);
}

bool same_object(Context& context, const Value& a, const Value& b) {
  if (a.index() != b.index()) return false;
  if (const Text* text = std::get_if<Text>(&a)) return (*text)->bytes() == as_text(b)->bytes();
  if (std::holds_alternative<int64_t>(a) || std::holds_alternative<double>(a)) return equal(context, a, b);
  return a == b;
}

// Looks a name up in a table; what cannot be the key of a table fails.
bool is_name_of(Context& context, const Value& value, bool (*has)(std::string_view)) {
  if (const MarkedText* name = as_text(value)) return has(name->bytes());
  make_dict(context, {{value, None{}}});
  return false;
}

const std::map<std::string_view, Test>& tests() {
  static const std::map<std::string_view, Test> table = {
      {"defined", [](Context&, const Value& v, const Arguments&) { return !is_undefined(v); }},
      {"undefined", [](Context&, const Value& v, const Arguments&) { return is_undefined(v); }},
      {"none", [](Context&, const Value& v, const Arguments&) { return is_none(v); }},
      {"boolean", [](Context&, const Value& v, const Arguments&) { return std::holds_alternative<bool>(v); }},
      {"true",
       [](Context&, const Value& v, const Arguments&) { return v.index() == Value(true).index() && is_true(v); }},
      {"false",
       [](Context&, const Value& v, const Arguments&) { return v.index() == Value(true).index() && !is_true(v); }},
      {"integer", [](Context&, const Value& v, const Arguments&) { return std::holds_alternative<int64_t>(v); }},
      {"float", [](Context&, const Value& v, const Arguments&) { return std::holds_alternative<double>(v); }},
      {"number", [](Context&, const Value& v, const Arguments&) { return as_number(v).has_value(); }},
      {"string", [](Context&, const Value& v, const Arguments&) { return as_text(v) != nullptr; }},
      {"mapping", [](Context&, const Value& v,
                     const Arguments&) { return std::holds_alternative<std::shared_ptr<const Dict>>(v); }},
      {"sequence", [](Context&, const Value& v, const Arguments&) { return is_sequence(v); }},
      {"iterable",
       [](Context&, const Value& v, const Arguments&) {
         return is_sequence(v) || std::holds_alternative<std::shared_ptr<Sequence>>(v) ||
                std::holds_alternative<std::shared_ptr<Loop>>(v);
       }},
      {"callable",
       [](Context&, const Value& v, const Arguments&) {
         // An undefined value has a __call__, which only fails.
         return is_undefined(v) || std::holds_alternative<std::shared_ptr<const Function>>(v) ||
                std::holds_alternative<std::shared_ptr<Loop>>(v);
       }},
      {"escaped",
       [](Context&, const Value& v, const Arguments&) { return as_text(v) != nullptr && as_text(v)->is_markup(); }},
      {"lower", [](Context& c, const Value& v,
                   const Arguments&) { return is_true(call(c, *find_method(c, to_text(c, v), "islower"), {})); }},
      {"upper", [](Context& c, const Value& v,
                   const Arguments&) { return is_true(call(c, *find_method(c, to_text(c, v), "isupper"), {})); }},
      {"odd", [](Context& c, const Value& v, const Arguments&) { return remainder(c, v, int64_t{2}) == 1; }},
      {"even", [](Context& c, const Value& v, const Arguments&) { return remainder(c, v, int64_t{2}) == 0; }},
      {"divisibleby",
       [](Context& c, const Value& v, const Arguments& a) { return remainder(c, v, other("divisibleby", a)) == 0; }},
      {"sameas", [](Context& c, const Value& v, const Arguments& a) { return same_object(c, v, other("sameas", a)); }},
      {"in", [](Context& c, const Value& v, const Arguments& a) { return contains(c, other("in", a), v); }},
      {"filter", [](Context& c, const Value& v, const Arguments&) { return is_name_of(c, v, has_filter); }},
      {"test", [](Context& c, const Value& v, const Arguments&) { return is_name_of(c, v, has_test); }},
      {"eq", test_compare<Operator::eq>},
      {"equalto", test_compare<Operator::eq>},
      {"==", test_compare<Operator::eq>},
      {"ne", test_compare<Operator::ne>},
      {"!=", test_compare<Operator::ne>},
      {"lt", test_compare<Operator::lt>},
      {"lessthan", test_compare<Operator::lt>},
      {"<", test_compare<Operator::lt>},
      {"le", test_compare<Operator::le>},
      {"<=", test_compare<Operator::le>},
      {"gt", test_compare<Operator::gt>},
      {"greaterthan", test_compare<Operator::gt>},
      {">", test_compare<Operator::gt>},
      {"ge", test_compare<Operator::ge>},
      {">=", test_compare<Operator::ge>},
  };
  return table;
}

Value global_range(Context& context, const Arguments& arguments) {
  const Parameters given("range", arguments, {"start", "stop", "step"}, 1);
  const auto number = [&](size_t i, int64_t fallback) {
    if (given[i] != nullptr && is_none(*given[i])) raise("'NoneType' object cannot be interpreted as an integer");
    return given.integer(i, fallback);
  };
  const bool one = given[1] == nullptr;
  const int64_t start = one ? 0 : number(0, 0), stop = one ? number(0, 0) : number(1, 0), step = number(2, 1);
  if (step == 0) raise("range() arg 3 must not be zero");
  return make_range(context, start, stop, step);
}

// What dict(...) and namespace(...) take: a dict or pairs, then names.
std::vector<std::pair<Value, Value>> entries_of(Context& context, const Arguments& arguments) {
  if (arguments.positional.size() > 1) raise("expected at most 1 argument, got {}", arguments.positional.size());
  std::vector<std::pair<Value, Value>> entries;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&source)) {
      entries = (*dict)->entries;
    } else {
      for (const auto walked = iterate(context, source); const Value& pair : walked->items) {
        const auto items = iterate(context, pair);
        if (items->items.size() != 2) raise("a dict is made from pairs, got {} items", items->items.size());
        entries.emplace_back(items->items[0], items->items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) entries.emplace_back(make_text(context, name), value);
  return entries;
}

Value make_namespace(Context& context, const Arguments& arguments) {
  const Value dict = make_dict(context, entries_of(context, arguments));
  auto space = std::make_shared<Namespace>();
  for (const auto& [key, value] : std::get<std::shared_ptr<const Dict>>(dict)->entries) {
    space->attributes.emplace_back(to_text(context, key)->bytes(), value);
  }
  context.namespaces.push_back(space);
  return space;
}

// A joiner gives nothing the first time it is called and its separator afterwards.
Value make_joiner(Context& context, const Arguments& arguments) {
  const Parameters given("joiner", arguments, {"sep"});
  const Value separator = given.value(0, std::make_shared<const MarkedText>(", ", true));
  auto used = std::make_shared<bool>(false);
  return make_function(context, separator, "joiner", [separator, used](Context&, const Arguments&) -> Value {
    return std::exchange(*used, true) ? separator : Value(std::make_shared<const MarkedText>());
  });
}

// A cycler is a namespace whose functions share the position.
Value make_cycler(Context& context, const Arguments& arguments) {
  if (arguments.positional.empty()) raise("at least one item has to be provided");
  auto space = std::make_shared<Namespace>();
  auto position = std::make_shared<size_t>(0);
  const std::vector<Value> items = arguments.positional;
  const Value held = make_sequence(context, items);
  std::weak_ptr<Namespace> self = space;
  const auto move_to = [self, position, items](size_t next) {
    *position = next % items.size();
    if (const auto target = self.lock()) target->attributes[0].second = items[*position];
  };
  space->attributes.emplace_back("current", items[0]);
  space->attributes.emplace_back(
      "next", make_function(context, held, "next", [position, items, move_to](Context&, const Arguments&) {
        const Value item = items[*position];
        move_to(*position + 1);
        return item;
      }));
  space->attributes.emplace_back("reset",
                                 make_function(context, held, "reset", [move_to](Context&, const Arguments&) -> Value {
                                   move_to(0);
                                   return None{};
                                 }));
  context.namespaces.push_back(space);
  return space;
}

Value format_time(Context& context, const Arguments& arguments) {
  const MarkedText* format = Parameters("strftime_now", arguments, {"format"}, 1).text(0);
  if (format == nullptr) raise("strftime_now() needs a format");
  if (format->empty()) return make_text(context, std::string());
  if (format->size() > 1000) throw Failure{ErrorKind::limit, "strftime_now: a format of more than 1000 bytes"};
  const auto now = static_cast<std::time_t>(context.now_unix_seconds);
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) raise("strftime_now: the time is out of range");
  std::string out(16384, '\0');
  out.resize(std::strftime(out.data(), out.size(), format->bytes().c_str(), &local));
  return make_text(context, std::move(out));
}

// The comparisons and these; all others look at the value alone.
bool takes_argument(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "divisibleby", "sameas", "in", "eq", "equalto", "==",          "ne", "!=", "lt",
      "lessthan",    "<",      "le", "<=", "gt",      "greaterthan", ">",  "ge", ">="};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

bool has_test(std::string_view name) {
  return tests().count(name) > 0;
}

bool apply_test(Context& context, std::string_view name, const Value& value, const Arguments& arguments) {
  const MarkedText* text = as_text(value);
  context.charge_steps(1 + (text == nullptr ? 0 : text->size() / 256));
  const auto found = tests().find(name);
  if (found == tests().end()) raise("No test named '{}'.", name);
  if (arguments.positional.size() + arguments.named.size() > (takes_argument(name) ? 1 : 0)) {
    raise("the test '{}' got {} arguments", name, arguments.positional.size() + arguments.named.size());
  }
  return found->second(context, value, arguments);
}

std::optional<Value> find_global(std::string_view name) {
  static const std::map<std::string_view, Value> globals = [] {
    std::map<std::string_view, Value> table;
    const auto add = [&](const char* name, Value (*call)(Context&, const Arguments&)) {
      table[name] = std::make_shared<const Function>(Function{name, call});
    };
    add("range", global_range);
    add("dict", [](Context& context, const Arguments& arguments) {
      return make_dict(context, entries_of(context, arguments));
    });
    add("namespace", make_namespace);
    add("joiner", make_joiner);
    add("cycler", make_cycler);
    add("strftime_now", format_time);
    add("raise_exception", [](Context& context, const Arguments& arguments) -> Value {
      const Parameters given("raise_exception", arguments, {"message"}, 1);
      raise("the chat template refuses this conversation: {}", to_text(context, *given[0])->bytes());
    });
    return table;
  }();
  const auto found = globals.find(name);
  if (found == globals.end()) return std::nullopt;
  return found->second;
}

}  // namespace gale::text::jinja
