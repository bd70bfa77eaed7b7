// Filters on strings and numbers, and the table of all filters.
#include <charconv>
#include <cmath>
#include <map>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

// A change of the text that keeps it markup if it is.
Value text_filter(Context& context, const Value& value, MarkedText (*change)(const MarkedText&)) {
  const Text text = to_text(context, value);
  return make_text(context, change(*text).with_markup(text->is_markup()));
}

Value filter_default(Context&, const Value& value, const Arguments& arguments) {
  const Parameters given("default", arguments, {"default_value", "boolean"});
  const bool use = given.flag(1, false) ? !is_true(value) : is_undefined(value);
  return use ? given.value(0, std::make_shared<const MarkedText>()) : value;
}

Value filter_replace(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("replace", arguments, {"old", "new", "count"}, 2);
  const Text from = to_text(context, *given[0]), to = to_text(context, *given[1]);
  return make_text(context, replaced(context, *to_text(context, value), from->bytes(), *to, given.integer(2, -1)));
}

Value filter_trim(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("trim", arguments, {"chars"});
  const Text text = to_text(context, value);
  return make_text(context, stripped(*text, given.text(0), true, true).with_markup(text->is_markup()));
}

Value filter_indent(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("indent", arguments, {"width", "first", "blank"});
  const MarkedText* self = as_text(value);
  if (self == nullptr) raise("indent needs a string, got '{}'", type_name(value));
  MarkedText indention;
  if (given[0] != nullptr && as_text(*given[0]) != nullptr) {
    indention = *as_text(*given[0]);
  } else {
    const int64_t width = std::max<int64_t>(given.integer(0, 4), 0);
    context.charge_text(static_cast<uint64_t>(width));
    indention = MarkedText(std::string(static_cast<size_t>(width), ' '), true);
  }
  MarkedText whole = *self;
  whole.append("\n", true);
  const std::vector<Value> lines = split_lines(context, whole, false);
  MarkedText out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const MarkedText& line = *as_text(lines[i]);
    if (i > 0) out.append("\n", true);
    const bool indented = i == 0 ? given.flag(1, false) : given.flag(2, false) || !line.empty();
    context.charge_text(line.size() + indention.size());
    if (out.size() > context.limits.text_bytes) context.charge_text(out.size());
    if (indented) out.append(indention);
    out.append(line);
  }
  return make_text(context, std::move(out).with_markup(self->is_markup()));
}

Value filter_json(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensure_ascii = given.flag(0, false);
  options.sort_keys = given.flag(3, false);
  if (given[1] != nullptr && !is_none(*given[1])) {
    options.item_separator = ",";
    if (const MarkedText* text = as_text(*given[1])) {
      options.indent = text->bytes();
    } else {
      const int64_t width = std::max<int64_t>(given.integer(1, 0), 0);
      context.charge_text(static_cast<uint64_t>(width));
      options.indent = std::string(static_cast<size_t>(width), ' ');
    }
  }
  if (given[2] != nullptr && !is_none(*given[2])) {
    const auto separators = iterate(context, *given[2]);
    if (separators->items.size() != 2 || as_text(separators->items[0]) == nullptr ||
        as_text(separators->items[1]) == nullptr) {
      raise("tojson needs two strings as separators");
    }
    options.item_separator = as_text(separators->items[0])->bytes();
    options.key_separator = as_text(separators->items[1])->bytes();
  }
  return to_json(context, value, options);
}

// Digits of a Python number: blanks around and underscores between digits are allowed.
std::optional<std::string> number_digits(const MarkedText& text) {
  const std::string bytes = stripped(text, nullptr, true, true).bytes();
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '_') {
      out += bytes[i];
      continue;
    }
    const auto is_alnum = [&](size_t at) {
      return at < bytes.size() && std::isalnum(static_cast<unsigned char>(bytes[at]));
    };
    if (i == 0 || !is_alnum(i - 1) || !is_alnum(i + 1)) return std::nullopt;
  }
  return out;
}

std::optional<double> parse_real(const MarkedText& text) {
  const auto digits = number_digits(text);
  if (!digits || digits->empty()) return std::nullopt;
  std::string lower;
  for (const char c : *digits) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool negative = lower[0] == '-';
  const size_t sign = negative || lower[0] == '+' ? 1 : 0;
  const std::string rest = lower.substr(sign);
  double value = 0;
  if (rest == "inf" || rest == "infinity") {
    value = INFINITY;
  } else if (rest == "nan") {
    value = NAN;
  } else {
    if (rest.empty() || !(std::isdigit(static_cast<unsigned char>(rest[0])) || rest[0] == '.')) return std::nullopt;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    const bool range = parsed.ec == std::errc::result_out_of_range;
    if (range) value = rest.find("e-") == std::string::npos ? INFINITY : 0;
    if ((parsed.ec != std::errc() && !range) || parsed.ptr != rest.data() + rest.size()) return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<int64_t> parse_integer(const MarkedText& text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const auto digits = number_digits(text);
  if (!digits || digits->empty()) return std::nullopt;
  const bool negative = (*digits)[0] == '-';
  std::string rest = digits->substr(negative || (*digits)[0] == '+' ? 1 : 0);
  const char prefix = rest.size() > 2 && rest[0] == '0' ? static_cast<char>(rest[1] | 0x20) : ' ';
  const int64_t prefix_base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
  if (prefix_base != 0 && (base == prefix_base || base == 0)) {
    rest = rest.substr(2);
    base = prefix_base;
  }
  if (base == 0) base = 10;
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  int64_t value = 0;
  if (negative) rest.insert(0, "-");
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value, static_cast<int>(base));
  if (parsed.ptr == rest.data() + rest.size() && parsed.ec == std::errc::result_out_of_range) {
    throw Failure{ErrorKind::limit, "the integer does not fit 64 bits"};
  }
  if (parsed.ec != std::errc() || parsed.ptr != rest.data() + rest.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> truncated(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (!(std::fabs(value) < 9.2e18)) throw Failure{ErrorKind::limit, "the integer does not fit 64 bits"};
  return static_cast<int64_t>(value);
}

Value filter_int(Context&, const Value& value, const Arguments& arguments) {
  const Parameters given("int", arguments, {"default", "base"});
  require_defined(value);
  const Value fallback = given.value(0, int64_t{0});
  std::optional<int64_t> number = as_integer(value);
  if (const MarkedText* text = as_text(value)) {
    number = parse_integer(*text, given.integer(1, 10));
    if (!number) {
      if (const auto real = parse_real(*text)) number = truncated(*real);
    }
  } else if (const auto real = as_number(value); !number && real) {
    if (std::isinf(*real)) raise("cannot convert float infinity to integer");
    number = truncated(*real);
  }
  return number ? Value(*number) : fallback;
}

Value filter_float(Context&, const Value& value, const Arguments& arguments) {
  const Parameters given("float", arguments, {"default"});
  require_defined(value);
  std::optional<double> number = as_number(value);
  if (const MarkedText* text = as_text(value)) number = parse_real(*text);
  return number ? Value(*number) : given.value(0, 0.0);
}

Value filter_abs(Context&, const Value& value, const Arguments& arguments) {
  const Parameters none("abs", arguments, {});
  require_defined(value);
  if (const auto integer = as_integer(value)) return *integer < 0 ? negate(*integer) : Value(*integer);
  if (const auto real = as_number(value)) return std::fabs(*real);
  raise("bad operand type for abs(): '{}'", type_name(value));
}

Value filter_round(Context&, const Value& value, const Arguments& arguments) {
  const Parameters given("round", arguments, {"precision", "method"});
  require_defined(value);
  const int64_t precision = given.integer(0, 0);
  const std::string method = given.text(1) == nullptr ? "common" : given.text(1)->bytes();
  if (method != "common" && method != "ceil" && method != "floor") raise("method must be common, ceil or floor");
  const auto real = as_number(value);
  if (!real) raise("type {} doesn't define __round__ method", type_name(value));
  if (precision < -300 || precision > 300) throw Failure{ErrorKind::limit, "round: a precision outside -300 to 300"};
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    if (!std::isfinite(*real)) raise("cannot convert float {} to integer", float_text(*real));
    const double whole = method == "ceil" ? std::ceil(*real * scale) : std::floor(*real * scale);
    return (whole + 0.0) / scale;  // Python's is an integer, which has no negative zero
  }
  if (const auto integer = as_integer(value)) {
    if (precision >= 0) return *integer;
    if (precision < -18) return int64_t{0};
    int64_t unit = 1;
    for (int64_t i = precision; i < 0; ++i) unit *= 10;
    // Half to even, as Python.
    int64_t rest = *integer % unit, base = *integer / unit;
    if (rest < 0) {
      rest += unit;
      --base;
    }
    if (rest > unit - rest || (rest == unit - rest && base % 2 != 0)) ++base;
    int64_t result = 0;
    if (__builtin_mul_overflow(base, unit, &result))
      throw Failure{ErrorKind::limit, "the integer does not fit 64 bits"};
    return result;
  }
  if (!std::isfinite(*real)) return *real;
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(*real / scale) * scale;
  }
  // The decimal digits of the exact value, rounded half to even: what Python's round gives.
  const std::string digits = fmt::format("{:.{}f}", *real, precision);
  double result = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  return result;
}

Value filter_wordcount(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("wordcount", arguments, {});
  const Text self = to_text(context, value);
  context.charge_steps(self->size() / 64);
  int64_t words = 0;
  bool inside = false;
  for (size_t i = 0, size = 1; i < self->size(); i += size) {
    const char32_t code = code_point_at(self->bytes(), i, &size);
    const bool word = is_letter(code) || is_numeric(code) || code == '_';
    if (word && !inside) ++words;
    inside = word;
  }
  return words;
}

Value filter_truncate(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const MarkedText* self = as_text(value);
  const MarkedText dots("...", true);
  const MarkedText& end = given.text(2) == nullptr ? dots : *given.text(2);
  const int64_t length = given.integer(0, 255), leeway = given.integer(3, 5);
  const auto end_length = static_cast<int64_t>(count_characters(end.bytes()));
  if (length < end_length) raise("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) raise("expected leeway >= 0, got {}", leeway);
  const auto size = static_cast<int64_t>(length_of(value));
  if (size <= length || size - length <= leeway) return value;
  if (self == nullptr) raise("truncate needs a string, got '{}'", type_name(value));
  MarkedText out = self->slice(0, character_offset(self->bytes(), static_cast<size_t>(length - end_length)));
  if (!given.flag(1, false)) {
    const size_t blank = out.bytes().rfind(' ');
    if (blank != std::string::npos) out = out.slice(0, blank);
  }
  out = std::move(out).with_markup(self->is_markup());
  return binary(context, Operator::add, make_text(context, std::move(out)), make_text(context, end));
}

Value filter_center(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("center", arguments, {"width"});
  Arguments width;
  width.positional.push_back(given.value(0, int64_t{80}));
  return call(context, *find_method(context, to_text(context, value), "center"), width);
}

Value filter_format(Context& context, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    raise("can't handle positional and keyword arguments at the same time");
  }
  const Text self = to_text(context, value);
  if (arguments.named.empty()) {
    return format_percent(context, *self, make_sequence(context, arguments.positional, SequenceKind::tuple));
  }
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [name, item] : arguments.named) entries.emplace_back(make_text(context, name), item);
  return format_percent(context, *self, make_dict(context, std::move(entries)));
}

// 1 Byte, 12 Bytes, 1.5 kB or 1.5 KiB and so on.
Value filter_filesizeformat(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("filesizeformat", arguments, {"binary"});
  require_defined(value);
  std::optional<double> bytes = as_number(value);
  if (const MarkedText* text = as_text(value)) bytes = parse_real(*text);
  if (!bytes) raise("filesizeformat needs a number, got '{}'", type_name(value));
  const bool is_binary = given.flag(0, false);
  const double base = is_binary ? 1024 : 1000;
  if (*bytes == 1) return make_text(context, std::string("1 Byte"));
  if (*bytes < base) {
    const auto whole = truncated(*bytes);
    if (!whole) raise("cannot convert float {} to integer", float_text(*bytes));
    return make_text(context, fmt::format("{} Bytes", *whole));
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && !(*bytes < unit); ++i) unit *= base;
  const char prefix = is_binary && i == 0 ? 'K' : kPrefixes[i];
  return make_text(context, fmt::format("{:.1f} {}{}B", base * *bytes / unit, prefix, is_binary ? "i" : ""));
}

const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> table = {
      {"default", filter_default},
      {"d", filter_default},
      {"replace", filter_replace},
      {"trim", filter_trim},
      {"indent", filter_indent},
      {"tojson", filter_json},
      {"int", filter_int},
      {"float", filter_float},
      {"abs", filter_abs},
      {"round", filter_round},
      {"wordcount", filter_wordcount},
      {"truncate", filter_truncate},
      {"center", filter_center},
      {"format", filter_format},
      {"filesizeformat", filter_filesizeformat},
      {"upper",
       [](Context& c, const Value& v, const Arguments&) {
         return text_filter(c, v, [](const MarkedText& text) { return change_case(text, Case::upper); });
       }},
      {"lower",
       [](Context& c, const Value& v, const Arguments&) {
         return text_filter(c, v, [](const MarkedText& text) { return change_case(text, Case::lower); });
       }},
      {"title", [](Context& c, const Value& v, const Arguments&) { return make_text(c, title_case(*to_text(c, v))); }},
      {"capitalize", [](Context& c, const Value& v, const Arguments&) { return text_filter(c, v, capitalized); }},
      {"string", [](Context& c, const Value& v, const Arguments&) -> Value { return to_text(c, v); }},
      {"count", [](Context&, const Value& v, const Arguments&) -> Value { return static_cast<int64_t>(length_of(v)); }},
      {"length",
       [](Context&, const Value& v, const Arguments&) -> Value { return static_cast<int64_t>(length_of(v)); }},
  };
  return table;
}

Filter find_filter(std::string_view name) {
  const auto found = filters().find(name);
  if (found != filters().end()) return found->second;
  const Filter html = find_html_filter(name);
  return html != nullptr ? html : find_list_filter(name);
}

// Filters of jinja2 that no prompt can want: by chance, by the width of a terminal, for web pages.
bool is_refused_filter(std::string_view name) {
  static constexpr std::string_view kRefused[] = {"pprint", "random", "striptags", "urlize", "wordwrap"};
  return std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused);
}

}  // namespace

bool has_filter(std::string_view name) {
  return find_filter(name) != nullptr || is_refused_filter(name);
}

Value apply_filter(Context& context, std::string_view name, const Value& value, const Arguments& arguments) {
  const Nested nested(context);
  const MarkedText* text = as_text(value);
  context.charge_steps(1 + (text == nullptr ? 0 : text->size() / 256));
  const Filter filter = find_filter(name);
  if (is_refused_filter(name)) {
    throw Failure{ErrorKind::unsupported, fmt::format("the filter '{}' is not supported in chat templates", name)};
  }
  if (filter == nullptr) raise("No filter named '{}'.", name);
  return filter(context, value, arguments);
}

}  // namespace gale::text::jinja
