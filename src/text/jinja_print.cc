// Values as text: str(), repr() and the shortest digits of a number, as Python has them.
#include <charconv>
#include <cmath>

#include "text/jinja_value.h"

namespace gale::text::jinja {

namespace {

// Appends with the limits of the context, so that a small value that prints long cannot take all memory.
class Printer {
 public:
  explicit Printer(Context& context) : context_(context) {}

  void str(const Value& value) {
    if (const MarkedText* text = as_text(value)) {
      context_.charge_text(text->size());
      out_.append(*text);
    } else if (!is_undefined(value)) {
      repr(value, 0);
    }
  }

  void repr(const Value& value, size_t depth) {
    context_.charge_steps();
    context_.check_depth(depth);
    if (out_.size() > context_.limits.text_bytes) context_.charge_text(out_.size());
    if (is_undefined(value)) return put("Undefined");
    if (is_none(value)) return put("None");
    if (const bool* flag = std::get_if<bool>(&value)) return put(*flag ? "True" : "False");
    if (const int64_t* number = std::get_if<int64_t>(&value)) return put(std::to_string(*number));
    if (const double* number = std::get_if<double>(&value)) return put(float_text(*number));
    if (const MarkedText* text = as_text(value)) return quote(*text);
    if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) return repr(**sequence, depth);
    if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value)) return repr(**dict, depth);
    if (const auto* space = std::get_if<std::shared_ptr<Namespace>>(&value)) return repr(**space, depth);
    if (const auto* function = std::get_if<std::shared_ptr<const Function>>(&value)) {
      const Function& callee = **function;
      if (callee.macro == nullptr) return put("<function " + callee.name + ">");
      return put(callee.name.empty() ? "<Macro anonymous>" : "<Macro '" + callee.name + "'>");
    }
    const Loop& loop = *std::get<std::shared_ptr<Loop>>(value);
    put(fmt::format("<LoopContext {}/{}>", loop.index + 1, length_of(value)));
  }

  MarkedText take() { return std::move(out_); }

 private:
  void put(std::string_view text) { out_.append(text, true); }
  bool is_open(const void* object) const { return std::find(open_.begin(), open_.end(), object) != open_.end(); }

  void repr(const Sequence& sequence, size_t depth) {
    if (sequence.kind == SequenceKind::range) {
      const std::string step = sequence.step == 1 ? "" : fmt::format(", {}", sequence.step);
      return put(fmt::format("range({}, {}{})", sequence.start, sequence.stop, step));
    }
    if (sequence.kind == SequenceKind::iterator) return put("<generator object>");
    const bool view = sequence.kind == SequenceKind::view, tuple = sequence.kind == SequenceKind::tuple;
    if (is_open(&sequence)) return put(tuple ? "(...)" : "[...]");
    open_.push_back(&sequence);
    if (view) put(sequence.label + "(");
    put(tuple ? "(" : "[");
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) put(", ");
      repr(sequence.items[i], depth + 1);
    }
    if (tuple && sequence.items.size() == 1) put(",");
    put(tuple ? ")" : "]");
    if (view) put(")");
    open_.pop_back();
  }

  void repr(const Dict& dict, size_t depth) {
    if (is_open(&dict)) return put("{...}");
    open_.push_back(&dict);
    put("{");
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) put(", ");
      repr(dict.entries[i].first, depth + 1);
      put(": ");
      repr(dict.entries[i].second, depth + 1);
    }
    put("}");
    open_.pop_back();
  }

  void repr(const Namespace& space, size_t depth) {
    if (is_open(&space)) return put("<Namespace {...}>");
    open_.push_back(&space);
    put("<Namespace {");
    for (size_t i = 0; i < space.attributes.size(); ++i) {
      if (i > 0) put(", ");
      quote(MarkedText(space.attributes[i].first, true));
      put(": ");
      repr(space.attributes[i].second, depth + 1);
    }
    put("}>");
    open_.pop_back();
  }

  void quote(const MarkedText& text) {
    const std::string& bytes = text.bytes();
    context_.charge_text(bytes.size() + 2);
    const bool has_single = bytes.find('\'') != std::string::npos, has_double = bytes.find('"') != std::string::npos;
    const char mark = has_single && !has_double ? '"' : '\'';
    if (text.is_markup()) put("Markup(");
    out_.append({&mark, 1}, true);
    append_escaped(context_, text, out_, [&](char32_t code, size_t size) { return escape_of(code, mark, size); });
    out_.append({&mark, 1}, true);
    if (text.is_markup()) put(")");
  }

  static std::string escape_of(char32_t code, char mark, size_t size) {
    if (code == '\\') return "\\\\";
    if (code == static_cast<char32_t>(mark)) return {'\\', mark};
    if (code == '\n') return "\\n";
    if (code == '\r') return "\\r";
    if (code == '\t') return "\\t";
    if (is_printable(code) || (size == 1 && code >= 0x80)) return {};
    if (code < 0x100) return fmt::format("\\x{:02x}", static_cast<uint32_t>(code));
    if (code < 0x10000) return fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    return fmt::format("\\U{:08x}", static_cast<uint32_t>(code));
  }

  Context& context_;
  MarkedText out_;
  std::vector<const void*> open_;  // what is being written: a namespace may hold itself
};

}  // namespace

Text to_text(Context& context, const Value& value) {
  if (const Text* text = std::get_if<Text>(&value)) return *text;
  Printer printer(context);
  printer.str(value);
  return std::make_shared<const MarkedText>(printer.take());
}

Text to_repr(Context& context, const Value& value) {
  Printer printer(context);
  printer.repr(value, 0);
  return std::make_shared<const MarkedText>(printer.take());
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = shortest.find('e');
  int exponent = 0;
  const size_t sign = shortest[e + 1] == '+' ? 1 : 0;
  std::from_chars(shortest.data() + e + 1 + sign, shortest.data() + shortest.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  const auto plain = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string out(buffer, plain.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

}  // namespace gale::text::jinja
