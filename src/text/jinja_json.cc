// The tojson filter as transformers defines it: json.dumps without HTML escapes, keys in order, raw UTF-8.
#include <cmath>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

class JsonWriter {
 public:
  JsonWriter(Context& context, const JsonOptions& options) : context_(context), options_(options) {}

  void write(const Value& value, size_t level) {
    context_.charge_steps();
    if (out_.size() > context_.limits.text_bytes) context_.charge_text(out_.size());
    if (const MarkedText* text = as_text(value)) return string(*text);
    if (is_none(value)) return put("null");
    if (const bool* flag = std::get_if<bool>(&value)) return put(*flag ? "true" : "false");
    if (const int64_t* number = std::get_if<int64_t>(&value)) return put(std::to_string(*number));
    if (const double* number = std::get_if<double>(&value)) return put(real(*number));
    if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value)) return object(**dict, level);
    const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value);
    const bool listing =
        sequence != nullptr && ((*sequence)->kind == SequenceKind::list || (*sequence)->kind == SequenceKind::tuple);
    if (listing) return array((*sequence)->items, level);
    raise("Object of type {} is not JSON serializable", type_name(value));
  }

  MarkedText take() { return std::move(out_); }

 private:
  void put(std::string_view text) { out_.append(text, true); }

  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
  }

  void line(size_t level) {
    if (!options_.indent) return;
    context_.charge_text(1 + level * options_.indent->size());
    std::string text = "\n";
    for (size_t i = 0; i < level; ++i) text += *options_.indent;
    put(text);
  }

  void array(const std::vector<Value>& items, size_t level) {
    if (items.empty()) return put("[]");
    put("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(options_.item_separator);
      line(level + 1);
      write(items[i], level + 1);
    }
    line(level);
    put("]");
  }

  void object(const Dict& dict, size_t level) {
    if (dict.entries.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (options_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(context_, a->first, b->first); });
    }
    put("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(options_.item_separator);
      line(level + 1);
      key(entries[i]->first);
      put(options_.key_separator);
      write(entries[i]->second, level + 1);
    }
    line(level);
    put("}");
  }

  void key(const Value& value) {
    if (as_text(value) != nullptr) return string(*as_text(value));
    if (!as_number(value) && !is_none(value)) {
      raise("keys must be str, int, float, bool or None, not {}", type_name(value));
    }
    put("\"");
    write(value, 0);
    put("\"");
  }

  void string(const MarkedText& text) {
    context_.charge_text(text.size() + 2);
    put("\"");
    append_escaped(context_, text, out_, [&](char32_t code, size_t) { return escape_of(code); });
    put("\"");
  }

  std::string escape_of(char32_t code) const {
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    const auto number = static_cast<uint32_t>(code);
    if (code >= 0x20 && (code < 0x7F || !options_.ensure_ascii)) return {};
    if (code < 0x10000) return fmt::format("\\u{:04x}", number);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((number - 0x10000) >> 10),
                       0xDC00 + ((number - 0x10000) & 0x3FF));
  }

  Context& context_;
  const JsonOptions& options_;
  MarkedText out_;
};

}  // namespace

Value to_json(Context& context, const Value& value, const JsonOptions& options) {
  JsonWriter writer(context, options);
  writer.write(value, 0);
  return make_text(context, writer.take());
}

}  // namespace gale::text::jinja
