// Text from values in given forms: "..." % values, "...".format(...) and JSON.
#include <charconv>
#include <cmath>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

// What stands between % or : and the letter of a format.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =
  bool plus = false, blank = false, alternate = false, comma = false;
  size_t width = 0;
  std::optional<int> precision;
  char type = 0;
};

constexpr size_t kMaxWidth = 10'000;

size_t read_width(std::string_view format, size_t& at) {
  size_t number = 0;
  while (at < format.size() && format[at] >= '0' && format[at] <= '9') {
    number = number * 10 + static_cast<size_t>(format[at++] - '0');
    if (number > kMaxWidth)
      throw Failure{ErrorKind::limit, fmt::format("a format width above the limit, {}", kMaxWidth)};
  }
  return number;
}

void read_precision(std::string_view format, size_t& at, Spec& spec) {
  if (at >= format.size() || format[at] != '.') return;
  ++at;
  const size_t precision = read_width(format, at);
  if (precision > 300) throw Failure{ErrorKind::limit, "a format precision above the limit, 300"};
  spec.precision = static_cast<int>(precision);
}

std::string group_thousands(const std::string& digits) {
  const size_t point = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out = digits.substr(point);
  for (size_t end = point; end > 0;) {
    const size_t begin = end > 3 ? end - 3 : 0;
    out.insert(0, digits.substr(begin, end - begin));
    if (begin > 0) out.insert(0, ",");
    end = begin;
  }
  return out;
}

std::string digits_of(uint64_t value, char type) {
  switch (type) {
    case 'x':
      return fmt::format("{:x}", value);
    case 'X':
      return fmt::format("{:X}", value);
    case 'o':
      return fmt::format("{:o}", value);
    case 'b':
      return fmt::format("{:b}", value);
    default:
      return std::to_string(value);
  }
}

std::string real_digits(double value, const Spec& spec) {
  const int precision = spec.precision.value_or(6);
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", value, precision);
    case 'E':
      return fmt::format("{:.{}E}", value, precision);
    case 'g':
      return fmt::format("{:.{}g}", value, precision);
    case 'G':
      return fmt::format("{:.{}G}", value, precision);
    case '%':
      return fmt::format("{:.{}f}%", value * 100, precision);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", value, precision);
    default:
      break;
  }
  return spec.precision ? fmt::format("{:.{}g}", value, precision) : float_text(value);
}

std::string number_text(const Value& value, const Spec& spec) {
  std::string digits;
  bool negative = false;
  const auto integer = as_integer(value);
  if (integer && std::string_view("feEgGF%").find(spec.type) == std::string_view::npos) {
    negative = *integer < 0;
    const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(*integer) : static_cast<uint64_t>(*integer);
    digits = digits_of(magnitude, spec.type);
    if (spec.alternate && spec.type != 'd' && spec.type != 0) digits = std::string("0") + spec.type + digits;
  } else {
    const double real = *as_number(value);
    negative = std::signbit(real) && !std::isnan(real);
    digits = real_digits(std::fabs(real), spec);
  }
  if (spec.comma) digits = group_thousands(digits);
  return (negative ? "-" : spec.plus ? "+" : spec.blank ? " " : "") + digits;
}

void append_padded(Context& context, MarkedText& out, const MarkedText& text, const Spec& spec, char align) {
  const size_t length = count_characters(text.bytes());
  const size_t missing = spec.width > length ? spec.width - length : 0;
  context.charge_text(text.size() + missing * spec.fill.size());
  if (out.size() > context.limits.text_bytes) context.charge_text(out.size());
  std::string filler;
  const auto fill = [&](size_t count) {
    filler.clear();
    for (size_t i = 0; i < count; ++i) filler += spec.fill;
    out.append(filler, true);
  };
  if (align == '=') {
    const size_t sign =
        !text.empty() && std::string_view("+- ").find(text.bytes()[0]) != std::string_view::npos ? 1 : 0;
    out.append_slice(text, 0, sign);
    fill(missing);
    out.append_slice(text, sign, text.size());
    return;
  }
  const size_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  fill(before);
  out.append(text);
  fill(missing - before);
}

MarkedText limited(const MarkedText& text, const Spec& spec) {
  if (!spec.precision) return text;
  return text.slice(0, character_offset(text.bytes(), static_cast<size_t>(*spec.precision)));
}

// Other characters as \\x, \\u and \\U escapes, as ascii() of Python has it.
MarkedText ascii_only(const MarkedText& text) {
  MarkedText out;
  text.for_each_run(0, text.size(), [&](std::string_view run, bool from_template) {
    std::string bytes;
    for (size_t i = 0, size = 1; i < run.size(); i += size) {
      const auto code = static_cast<uint32_t>(code_point_at(run, i, &size));
      bytes += code < 0x80      ? std::string(1, static_cast<char>(code))
               : code < 0x100   ? fmt::format("\\x{:02x}", code)
               : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                : fmt::format("\\U{:08x}", code);
    }
    out.append(bytes, from_template);
  });
  return out;
}

// The value as %s, %r, %a (!s, !r, !a) write it.
Text converted(Context& context, const Value& value, char conversion) {
  if (conversion == 's') return to_text(context, value);
  const Text text = to_repr(context, value);
  return conversion == 'a' ? std::make_shared<const MarkedText>(ascii_only(*text)) : text;
}

// One % conversion; into a text that is markup, values are escaped.
void percent_item(Context& context, MarkedText& out, Spec spec, const Value& value, bool into_markup) {
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    Text text = converted(context, value, spec.type);
    if (into_markup) text = std::get<Text>(escaped(context, text));
    return append_padded(context, out, limited(*text, spec), spec, spec.align == '<' ? '<' : '>');
  }
  // Python asks its wrapper of a value, which has neither of these.
  if (into_markup && std::string_view("cxXo").find(spec.type) != std::string_view::npos) {
    raise("%{} is not possible in markup", spec.type);
  }
  if (spec.type == 'c') {
    const auto code = as_integer(value);
    std::string character;
    if (code && *code >= 0 && *code <= 0x10FFFF) append_code_point(character, static_cast<char32_t>(*code));
    const MarkedText text = as_text(value) != nullptr ? *as_text(value) : MarkedText(character, true);
    if (count_characters(text.bytes()) != 1) raise("%c requires int or char");
    return append_padded(context, out, text, spec, spec.align == '<' ? '<' : '>');
  }
  if (std::string_view("diuxXoeEfFgG").find(spec.type) == std::string_view::npos) {
    raise("unsupported format character '{}'", spec.type);
  }
  const auto number = as_number(value);
  if (!number) raise("%{} format: a real number is required, not {}", spec.type, type_name(value));
  Value shown = value;
  if (std::string_view("diuxXo").find(spec.type) != std::string_view::npos) {
    if (!as_integer(value)) {
      if (!(std::fabs(*number) < 9.2e18)) raise("cannot convert float {} to integer", float_text(*number));
      shown = static_cast<int64_t>(*number);
    }
    if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
  }
  if (spec.fill == "0" && spec.align == 0) spec.align = '=';
  if (spec.align == '<') spec.fill = " ";
  append_padded(context, out, MarkedText(number_text(shown, spec), true), spec, spec.align == 0 ? '>' : spec.align);
}

class BraceFormatter {
 public:
  BraceFormatter(Context& context, const MarkedText& format, const Arguments& arguments)
      : context_(context), format_(format), bytes_(format.bytes()), arguments_(arguments) {}

  MarkedText run() {
    size_t plain = 0;
    for (size_t i = 0; i < bytes_.size();) {
      if (bytes_[i] != '{' && bytes_[i] != '}') {
        ++i;
        continue;
      }
      out_.append_slice(format_, plain, i);
      if (i + 1 < bytes_.size() && bytes_[i + 1] == bytes_[i]) {
        out_.append_slice(format_, i, i + 1);
        i += 2;
      } else if (bytes_[i] == '}') {
        raise("Single '}}' encountered in format string");
      } else {
        i = field(i + 1);
      }
      plain = i;
    }
    out_.append_slice(format_, plain, bytes_.size());
    return std::move(out_);
  }

 private:
  // The field whose inside begins at `at`; returns the byte behind its '}'.
  size_t field(size_t at) {
    const size_t name = at;
    bool in_brackets = false;
    for (; at < bytes_.size(); ++at) {
      const char c = bytes_[at];
      if (c == '{' && !in_brackets) raise("unexpected '{{' in field name");
      if (!in_brackets && (c == '}' || c == ':' || c == '!')) break;
      in_brackets = in_brackets ? c != ']' : c == '[';
    }
    const std::string_view path = std::string_view(bytes_).substr(name, at - name);
    char conversion = 0;
    if (at < bytes_.size() && bytes_[at] == '!') {
      const char after = at + 2 < bytes_.size() ? bytes_[at + 2] : 0;
      if (after != ':' && after != '}') raise("expected ':' after conversion specifier");
      conversion = bytes_[at + 1];
      at += 2;
    }
    const size_t format = at < bytes_.size() && bytes_[at] == ':' ? ++at : at;
    for (size_t depth = 0; at < bytes_.size() && (bytes_[at] != '}' || depth > 0); ++at) {
      if (bytes_[at] == '{') ++depth;
      if (bytes_[at] == '}') --depth;
    }
    if (at >= bytes_.size()) raise("expected '}}' before end of string");
    Value value = lookup(path);
    if (conversion != 0) {
      if (std::string_view("sra").find(conversion) == std::string_view::npos) {
        raise("Unknown conversion specifier {}", conversion);
      }
      value = converted(context_, value, conversion);
    }
    put(value, expanded(format_.slice(format, at)).bytes());
    return at + 1;
  }

  // A format with fields in it, replaced; they share the automatic numbers of the fields around.
  MarkedText expanded(const MarkedText& format) {
    if (format.bytes().find_first_of("{}") == std::string::npos) return format;
    if (depth_ > 0) raise("Max string recursion exceeded");
    BraceFormatter inner(context_, format, arguments_);
    inner.depth_ = depth_ + 1;
    inner.next_ = next_;
    inner.has_automatic_ = has_automatic_;
    inner.has_manual_ = has_manual_;
    MarkedText out = inner.run();
    next_ = inner.next_;
    has_automatic_ = inner.has_automatic_;
    has_manual_ = inner.has_manual_;
    return out;
  }

  // name.attribute[key]
  Value lookup(std::string_view path) {
    const size_t first = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, first));
    for (size_t at = first; at < path.size();) {
      const bool dot = path[at] == '.';
      const size_t end = dot ? std::min(path.find_first_of(".[", at + 1), path.size()) : path.find(']', at);
      if (end == std::string_view::npos || end == at + 1) raise("Empty attribute in format string");
      const std::string_view name = path.substr(at + 1, end - at - 1);
      int64_t index = 0;
      const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
      if (dot) {
        value = get_attribute(context_, value, name);
      } else if (parsed.ec == std::errc() && parsed.ptr == name.data() + name.size()) {
        value = get_item(context_, value, index);
      } else {
        value = get_item(context_, value, std::make_shared<const MarkedText>(std::string(name), true));
      }
      require_defined(value);
      at = dot ? end : end + 1;
    }
    return value;
  }

  Value argument(std::string_view name) {
    size_t index = next_;
    if (name.empty()) {
      ++next_;
      has_automatic_ = true;
    } else {
      const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
      if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) {
        for (const auto& [key, value] : arguments_.named) {
          if (key == name) return value;
        }
        raise("the format string names '{}', which is not given", name);
      }
      has_manual_ = true;
    }
    if (has_automatic_ && has_manual_) raise("cannot switch between manual and automatic numbers of fields");
    if (index >= arguments_.positional.size()) {
      raise("Replacement index {} out of range for positional args tuple", index);
    }
    return arguments_.positional[index];
  }

  // Appends the value; to a text that is markup, escaped.
  void put(const Value& value, std::string_view format) {
    if (!format_.is_markup()) return put_formatted(value, format, out_);
    const MarkedText* text = as_text(value);
    if (text != nullptr && text->is_markup()) {
      if (!format.empty()) raise("Unsupported format specification for Markup.");
      return out_.append(*text);
    }
    MarkedText plain;
    put_formatted(value, format, plain);
    out_.append(*as_text(escaped(context_, make_text(context_, std::move(plain)))));
  }

  void put_formatted(const Value& value, std::string_view format, MarkedText& out) {
    Spec spec;
    size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    const size_t first = format.empty() ? 0 : character_size(format, 0);
    if (first < format.size() && is_align(format[first])) {
      spec.fill = std::string(format.substr(0, first));
      spec.align = format[first];
      at = first + 1;
    } else if (!format.empty() && is_align(format[0])) {
      spec.align = format[at++];
    }
    const auto skip = [&](char c) { return at < format.size() && format[at] == c ? (++at, true) : false; };
    spec.plus = skip('+');
    if (!spec.plus && !skip('-')) spec.blank = skip(' ');
    spec.alternate = skip('#');
    if (skip('0') && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    spec.width = read_width(format, at);
    spec.comma = skip(',');
    read_precision(format, at, spec);
    if (at < format.size()) spec.type = format[at++];
    if (at != format.size()) raise("Invalid format specifier '{}'", format);
    const bool flag = std::holds_alternative<bool>(value) && spec.type == 0;
    if (as_number(value) && !(flag && format.empty())) {
      if (std::string_view("\0deEfFgGxXob%", 13).find(spec.type) == std::string_view::npos) {
        raise("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
      }
      const bool integer_code = std::string_view("dxXob").find(spec.type) != std::string_view::npos;
      if (integer_code && spec.type != 0 && !as_integer(value)) {
        raise("Unknown format code '{}' for object of type 'float'", spec.type);
      }
      const MarkedText text(number_text(value, spec), true);
      return append_padded(context_, out, text, spec, spec.align == 0 ? '>' : spec.align);
    }
    if (!format.empty() && as_text(value) == nullptr && !is_undefined(value)) {
      raise("unsupported format string passed to {}.__format__", type_name(value));
    }
    if (spec.type != 0 && spec.type != 's') raise("Unknown format code '{}' for object of type 'str'", spec.type);
    if (spec.align == '=' && spec.fill != "0") raise("'=' alignment not allowed in string format specifier");
    const MarkedText text = limited(*to_text(context_, value), spec);
    append_padded(context_, out, text, spec, spec.align == 0 || spec.align == '=' ? '<' : spec.align);
  }

  Context& context_;
  const MarkedText& format_;
  const std::string& bytes_;
  const Arguments& arguments_;
  size_t next_ = 0;  // automatic number
  bool has_automatic_ = false, has_manual_ = false;
  size_t depth_ = 0;  // of formats in formats
  MarkedText out_;
};

}  // namespace

Value format_percent(Context& context, const MarkedText& format, const Value& values) {
  const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&values);
  const bool tuple = sequence != nullptr && (*sequence)->kind == SequenceKind::tuple;
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&values);
  size_t next = 0;
  const size_t count = tuple ? (*sequence)->items.size() : 1;
  const auto take = [&]() -> const Value& {
    if (next >= count) raise("not enough arguments for format string");
    return tuple ? (*sequence)->items[next++] : (++next, values);
  };
  const std::string& bytes = format.bytes();
  context.charge_text(bytes.size());
  MarkedText out;
  bool named = false;
  size_t plain = 0;
  for (size_t at = bytes.find('%'); at != std::string::npos; at = bytes.find('%', plain)) {
    out.append_slice(format, plain, at++);
    Spec spec;
    const Value* value = nullptr;
    if (at < bytes.size() && bytes[at] == '(') {
      const size_t close = bytes.find(')', at);
      if (dict == nullptr || close == std::string::npos) raise("format requires a mapping");
      value = find_key(context, **dict, std::string_view(bytes).substr(at + 1, close - at - 1));
      if (value == nullptr)
        raise("the format string names '{}', which is not given", bytes.substr(at + 1, close - at - 1));
      named = true;
      at = close + 1;
    }
    for (; at < bytes.size() && std::string_view("-+ #0").find(bytes[at]) != std::string_view::npos; ++at) {
      if (bytes[at] == '-') spec.align = '<';
      if (bytes[at] == '0') spec.fill = "0";
      spec.plus |= bytes[at] == '+';
      spec.blank |= bytes[at] == ' ';
      spec.alternate |= bytes[at] == '#';
    }
    spec.width = read_width(bytes, at);
    read_precision(bytes, at, spec);
    if (at >= bytes.size()) raise("incomplete format");
    spec.type = bytes[at++];
    if (spec.type == '%') {
      out.append("%", true);
    } else {
      percent_item(context, out, spec, value != nullptr ? *value : take(), format.is_markup());
    }
    plain = at;
  }
  out.append_slice(format, plain, bytes.size());
  const bool mapping = named || dict != nullptr || is_undefined(values) || (sequence != nullptr && !tuple);
  if (next < count && !mapping) raise("not all arguments converted during string formatting");
  return make_text(context, std::move(out).with_markup(format.is_markup()));
}

Value format_braces(Context& context, const MarkedText& format, const Arguments& arguments) {
  return make_text(context, BraceFormatter(context, format, arguments).run().with_markup(format.is_markup()));
}

}  // namespace gale::text::jinja
