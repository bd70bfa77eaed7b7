// The values that a template computes with, and what every operation on them shares: limits, failure, text forms.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/jinja_text.h"

namespace gale::text::jinja {

// Thrown inside the interpreter only; compile and render turn it into an Error with line and column.
struct Failure {
  ErrorKind kind = ErrorKind::invalid_input;
  std::string message;
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{ErrorKind::invalid_input, fmt::format(format, std::forward<Args>(args)...)};
}

struct Limits {
  uint64_t steps = 10'000'000;               // nodes evaluated, items made, blocks of 256 bytes made
  uint64_t text_bytes = 64ull << 20;         // of one string and of the output
  uint64_t total_bytes = uint64_t{1} << 30;  // of all strings made by one render
  size_t recursion = 1000;                   // nested evaluations (expressions, blocks, macro calls)
  size_t value_depth = 100;                  // lists in lists
  int64_t range_items = 100'000;             // as jinja2's sandbox
};

struct Undefined {
  std::shared_ptr<const std::string> reason;  // what an operation on it reports
  bool operator==(const Undefined&) const { return true; }
};
struct None {
  bool operator==(const None&) const { return true; }
};
struct Sequence;
struct Dict;
struct Namespace;
struct Function;
struct Loop;

using Value = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const MarkedText>,
                           std::shared_ptr<Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                           std::shared_ptr<const Function>, std::shared_ptr<Loop>>;
using Text = std::shared_ptr<const MarkedText>;

// list, tuple and range are Python's; a view is what dict.items() and the like give; an iterator (map, select, ...)
// can be walked once.
enum class SequenceKind { list, tuple, range, view, iterator };

struct Sequence {
  SequenceKind kind = SequenceKind::list;
  std::vector<Value> items;
  std::string label;            // view: how it prints, without its items
  size_t depth = 1;             // 1 + depth of the deepest item: bounds every recursion over values
  size_t cursor = 0;            // iterator: items that were taken already
  int64_t start = 0, step = 1;  // range
  int64_t stop = 0;
};

// Keeps the order of insertion. Immutable once a template can see it, as jinja2's immutable sandbox has it.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_multimap<size_t, size_t> index;  // hash of the key -> entry; empty for small dicts
  size_t depth = 1;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Context;
struct MacroHead;

struct Function {
  std::string name;
  std::function<Value(Context&, const Arguments&)> call;
  const MacroHead* macro = nullptr;  // of the syntax tree; nullptr: built in
  size_t depth = 0;                  // of the values that it holds
};

struct Loop {
  std::shared_ptr<const Sequence> items;  // those that are known
  // Makes one more item known, if there is one. Empty: all are. (The condition of a loop is asked item by item.)
  std::function<bool()> more;
  size_t index = 0;
  size_t depth = 0;
  std::optional<Arguments> last_changed;
  std::function<Value(Context&, const Value&)> recurse;  // empty unless the loop is recursive
};

// State of one render.
struct Context {
  Limits limits;
  uint64_t steps = 0, bytes = 0;
  size_t recursion = 0;
  size_t position = 0;  // byte of the template that is being evaluated
  int64_t now_unix_seconds = 0;
  // What can form cycles of shared values; emptied at the end of the render.
  std::vector<std::shared_ptr<Namespace>> namespaces;
  std::vector<std::shared_ptr<Loop>> loops;  // those that remember values (loop.changed)

  void charge_steps(uint64_t count = 1) {
    steps += count;
    if (steps > limits.steps) fail_steps();
  }
  // Before a string of that size is made.
  void charge_text(uint64_t size);
  void check_depth(size_t depth) const;  // of lists in lists
  [[noreturn]] void fail_steps() const;
};

// Appends `text` to `out`, each character replaced by escape(code point, bytes of it) unless that is empty; what stands
// for a character has its origin. Charges text that grows beyond the limit.
template <class Escape>
void append_escaped(Context& context, const MarkedText& text, MarkedText& out, const Escape& escape) {
  text.for_each_run(0, text.size(), [&](std::string_view run, bool from_template) {
    size_t plain = 0;  // everything before it is written
    for (size_t i = 0, size = 1; i < run.size(); i += size) {
      const char32_t code = code_point_at(run, i, &size);
      const std::string written = escape(code, size);
      if (written.empty()) continue;
      out.append(run.substr(plain, i - plain), from_template);
      out.append(written, from_template);
      if (out.size() > context.limits.text_bytes) context.charge_text(out.size());
      plain = i + size;
    }
    out.append(run.substr(plain), from_template);
  });
}

// Holds one level of recursion.
class Nested {
 public:
  explicit Nested(Context& context);
  ~Nested() { --context_.recursion; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Context& context_;
};

// Makers.
Value undefined(std::string reason);
Value make_text(Context& context, MarkedText text);
Value make_text(Context& context, std::string text, bool from_template = true);
Value make_sequence(Context& context, std::vector<Value> items, SequenceKind kind = SequenceKind::list,
                    std::string label = {});
// range(start, stop, step) of Python; the step is not zero.
Value make_range(Context& context, int64_t start, int64_t stop, int64_t step);
// Later entries replace the values of earlier ones with an equal key.
Value make_dict(Context& context, std::vector<std::pair<Value, Value>> entries);
// `holds` is what the function keeps alive.
Value make_function(Context& context, const Value& holds, std::string name,
                    std::function<Value(Context&, const Arguments&)> call);

// What Python says about values.
std::string_view type_name(const Value& value);
// "'dict object'" and so on, for messages.
std::string describe(const Value& value);
bool is_undefined(const Value& value);
inline bool is_none(const Value& value) {
  return std::holds_alternative<None>(value);
}
bool is_true(const Value& value);
bool equal(Context& context, const Value& a, const Value& b);
bool less(Context& context, const Value& a, const Value& b, std::string_view symbol = "<");
const Value* find_key(Context& context, const Dict& dict, const Value& key);
const Value* find_key(Context& context, const Dict& dict, std::string_view key);
// Raises on an undefined value.
void require_defined(const Value& value);
// Raises on a value that cannot be the key of a dict.
void require_hashable(Context& context, const Value& value);
// Whether the loop has an item of that number; asks for as many as that needs.
bool has_item(const Loop& loop, size_t number);

// The items to walk over: of a list, the characters of a string, the keys of a dict. An iterator is used up.
std::shared_ptr<const Sequence> iterate(Context& context, const Value& value);
size_t length_of(const Value& value);

// str(value) and repr(value); text keeps its marks.
Text to_text(Context& context, const Value& value);
Text to_repr(Context& context, const Value& value);
std::string float_text(double value);
const MarkedText* as_text(const Value& value);
// int or bool as a number.
std::optional<int64_t> as_integer(const Value& value);
std::optional<double> as_number(const Value& value);

}  // namespace gale::text::jinja
