// Everything that expressions do with values: operators, attributes, methods, filters, tests, globals.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_value.h"

namespace gale::text::jinja {

// Arguments of a call, bound to parameter names.
class Parameters {
 public:
  Parameters(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
             size_t required = 0);

  // nullptr when the argument was not given.
  const Value* operator[](size_t i) const { return values_[i]; }
  Value value(size_t i, Value fallback) const { return values_[i] == nullptr ? fallback : *values_[i]; }
  bool flag(size_t i, bool fallback) const { return values_[i] == nullptr ? fallback : is_true(*values_[i]); }
  int64_t integer(size_t i, int64_t fallback) const;  // None counts as not given
  // None and not given are nullptr; anything but a string fails.
  const MarkedText* text(size_t i) const;

 private:
  std::string function_;
  std::vector<const Value*> values_;
};

// Operators and access (jinja_operators.cc).
Value binary(Context& context, Operator op, const Value& a, const Value& b);
bool compare(Context& context, Operator op, const Value& a, const Value& b);
bool contains(Context& context, const Value& container, const Value& item);
Value negate(const Value& value);
Value get_attribute(Context& context, const Value& object, std::string_view name);
Value get_item(Context& context, const Value& object, const Value& key);
Value get_slice(Context& context, const Value& object, const Value& begin, const Value& end, const Value& step);
Value call(Context& context, const Value& callee, const Arguments& arguments);

// Methods (jinja_methods.cc, jinja_container_methods.cc); an empty result: there is none of that name.
std::optional<Value> find_method(Context& context, const Value& object, std::string_view name);
std::optional<Value> find_container_method(Context& context, const Value& object, std::string_view name);
enum class Case { lower, upper, title, fold };
MarkedText change_case(const MarkedText& text, Case wanted);
// `wanted` is asked once per character, in order.
MarkedText map_case(const MarkedText& text, const std::function<Case(char32_t)>& wanted);
MarkedText title_case(const MarkedText& text);  // as the filter: words end at blanks, - and brackets
MarkedText capitalized(const MarkedText& text);
MarkedText replaced(Context& context, const MarkedText& text, std::string_view from, const MarkedText& to,
                    int64_t count);
MarkedText stripped(const MarkedText& text, const MarkedText* characters, bool left, bool right);
std::vector<Value> split_lines(Context& context, const MarkedText& text, bool keep_ends);

// Formatting (jinja_format.cc): text % values, text.format(...), tojson.
Value format_percent(Context& context, const MarkedText& format, const Value& values);
Value format_braces(Context& context, const MarkedText& format, const Arguments& arguments);
struct JsonOptions {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent;  // of one level; empty: everything on one line
  std::string item_separator = ", ", key_separator = ": ";
};
Value to_json(Context& context, const Value& value, const JsonOptions& options);

// Markup (jinja_html.cc).
Value escaped(Context& context, const Value& value);  // str(value) as markup; a text that is markup stays as it is
// A method of a text that is markup escapes what it puts into the text, and its results are markup.
Arguments markup_arguments(Context& context, std::string_view method, Arguments arguments);
Value markup_result(Context& context, const Value& result);

// Filters (jinja_filters.cc, jinja_list_filters.cc, jinja_html.cc) and tests (jinja_tests.cc).
using Filter = Value (*)(Context& context, const Value& value, const Arguments& arguments);
Filter find_list_filter(std::string_view name);
Filter find_html_filter(std::string_view name);
bool has_filter(std::string_view name);
bool has_test(std::string_view name);
Value apply_filter(Context& context, std::string_view name, const Value& value, const Arguments& arguments);
bool apply_test(Context& context, std::string_view name, const Value& value, const Arguments& arguments);

// range, namespace, raise_exception and so on (jinja_tests.cc); an empty result: there is none of that name.
std::optional<Value> find_global(std::string_view name);

}  // namespace gale::text::jinja
