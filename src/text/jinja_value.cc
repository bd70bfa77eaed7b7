// Making, comparing and printing the values of a template as Python does.
#include "text/jinja_value.h"

#include <charconv>
#include <cmath>

namespace gale::text::jinja {

namespace {

constexpr size_t kIndexedDict = 8;  // more entries than this get a hash index

size_t depth_of(const Value& value) {
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) return (*sequence)->depth;
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value)) return (*dict)->depth;
  if (const auto* function = std::get_if<std::shared_ptr<const Function>>(&value)) return (*function)->depth;
  if (const auto* loop = std::get_if<std::shared_ptr<Loop>>(&value)) return (*loop)->items->depth + 1;
  return 0;
}

void check_depth(const Context& context, size_t depth) {
  if (depth > context.limits.value_depth) {
    throw Failure{ErrorKind::limit,
                  fmt::format("lists or dicts nested {} deep, the limit is {}", depth, context.limits.value_depth)};
  }
}

size_t hash_key(const Value& value) {
  if (const MarkedText* text = as_text(value)) return std::hash<std::string>{}(text->bytes());
  if (const auto number = as_number(value)) return std::hash<double>{}(*number);
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) {
    if ((*sequence)->kind != SequenceKind::tuple) raise("unhashable type: '{}'", type_name(value));
    size_t hash = 7;
    for (const Value& item : (*sequence)->items) hash = hash * 31 + hash_key(item);
    return hash;
  }
  if (std::holds_alternative<std::shared_ptr<const Dict>>(value)) raise("unhashable type: 'dict'");
  return value.index();
}

std::optional<size_t> find_entry(Context& context, const Dict& dict, const Value& key) {
  const size_t hash = hash_key(key);  // also rejects keys that Python cannot hash
  if (dict.index.empty()) {
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (equal(context, dict.entries[i].first, key)) return i;
    }
    return std::nullopt;
  }
  const auto [first, last] = dict.index.equal_range(hash);
  for (auto i = first; i != last; ++i) {
    if (equal(context, dict.entries[i->second].first, key)) return i->second;
  }
  return std::nullopt;
}

bool equal_items(Context& context, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(context, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Context& context, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = find_key(context, b, key);
    if (other == nullptr || !equal(context, value, *other)) return false;
  }
  return true;
}

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
    check_depth(context_, depth);
    if (out_.size() > context_.limits.text_bytes) context_.charge_text(out_.size());
    if (is_undefined(value)) return put("Undefined");
    if (is_none(value)) return put("None");
    if (const bool* flag = std::get_if<bool>(&value)) return put(*flag ? "True" : "False");
    if (const int64_t* number = std::get_if<int64_t>(&value)) return put(std::to_string(*number));
    if (const double* number = std::get_if<double>(&value)) return put(float_text(*number));
    if (const MarkedText* text = as_text(value)) return quote(*text);
    if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) return repr(**sequence, depth);
    if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value)) return repr((*dict)->entries, depth);
    if (const auto* space = std::get_if<std::shared_ptr<Namespace>>(&value)) return repr(**space, depth);
    if (const auto* function = std::get_if<std::shared_ptr<const Function>>(&value)) {
      return put((*function)->is_macro ? "<Macro '" + (*function)->name + "'>"
                                       : "<function " + (*function)->name + ">");
    }
    const Loop& loop = *std::get<std::shared_ptr<Loop>>(value);
    put(fmt::format("<LoopContext {}/{}>", loop.index + 1, loop.items->items.size()));
  }

  MarkedText take() { return std::move(out_); }

 private:
  void put(std::string_view text) { out_.append(text, true); }

  void repr(const Sequence& sequence, size_t depth) {
    if (sequence.kind == SequenceKind::range) return put(sequence.label);
    if (sequence.kind == SequenceKind::iterator) return put("<generator object>");
    const bool view = sequence.kind == SequenceKind::view, tuple = sequence.kind == SequenceKind::tuple;
    if (view) put(sequence.label + "(");
    put(tuple ? "(" : "[");
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) put(", ");
      repr(sequence.items[i], depth + 1);
    }
    if (tuple && sequence.items.size() == 1) put(",");
    put(tuple ? ")" : "]");
    if (view) put(")");
  }

  void repr(const std::vector<std::pair<Value, Value>>& entries, size_t depth) {
    put("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(", ");
      repr(entries[i].first, depth + 1);
      put(": ");
      repr(entries[i].second, depth + 1);
    }
    put("}");
  }

  void repr(const Namespace& space, size_t depth) {
    put("<Namespace {");
    for (size_t i = 0; i < space.attributes.size(); ++i) {
      if (i > 0) put(", ");
      quote(MarkedText(space.attributes[i].first, true));
      put(": ");
      repr(space.attributes[i].second, depth + 1);
    }
    put("}>");
  }

  void quote(const MarkedText& text) {
    const std::string& bytes = text.bytes();
    context_.charge_text(bytes.size() + 2);
    const bool has_single = bytes.find('\'') != std::string::npos, has_double = bytes.find('"') != std::string::npos;
    const char mark = has_single && !has_double ? '"' : '\'';
    out_.append({&mark, 1}, true);
    text.for_each_run(0, text.size(), [&](std::string_view run, bool from_template) {
      size_t plain = 0;  // everything before it is written
      for (size_t i = 0, size = 1; i < run.size(); i += size) {
        const char32_t code = code_point_at(run, i, &size);
        const std::string escape = escape_of(code, mark, size);
        if (escape.empty()) continue;
        out_.append(run.substr(plain, i - plain), from_template);
        out_.append(escape, from_template);
        plain = i + size;
      }
      out_.append(run.substr(plain), from_template);
    });
    out_.append({&mark, 1}, true);
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
};

}  // namespace

void Context::charge_text(uint64_t size) {
  if (size > limits.text_bytes) {
    throw Failure{ErrorKind::limit, fmt::format("a text of {} bytes, the limit is {}", size, limits.text_bytes)};
  }
  bytes += size;
  if (bytes > limits.total_bytes) {
    throw Failure{ErrorKind::limit, fmt::format("{} bytes of text made, the limit is {}", bytes, limits.total_bytes)};
  }
  charge_steps(size / 256);
}

void Context::fail_steps() const {
  throw Failure{ErrorKind::limit, fmt::format("the template needs more than {} steps, the limit", limits.steps)};
}

Nested::Nested(Context& context) : context_(context) {
  if (context.recursion >= context.limits.recursion) {
    throw Failure{ErrorKind::limit, fmt::format("calls and expressions nested {} deep, the limit is {}",
                                                context.recursion + 1, context.limits.recursion)};
  }
  ++context.recursion;
}

Value undefined(std::string reason) {
  return Undefined{std::make_shared<const std::string>(std::move(reason))};
}

Value make_text(Context& context, MarkedText text) {
  context.charge_text(text.size());
  return std::make_shared<const MarkedText>(std::move(text));
}

Value make_text(Context& context, std::string text, bool from_template) {
  return make_text(context, MarkedText(std::move(text), from_template));
}

Value make_sequence(Context& context, std::vector<Value> items, SequenceKind kind, std::string label) {
  context.charge_steps(items.size() + 1);
  size_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  check_depth(context, depth + 1);
  return std::make_shared<Sequence>(Sequence{kind, std::move(items), std::move(label), depth + 1});
}

Value make_dict(Context& context, std::vector<std::pair<Value, Value>> entries) {
  context.charge_steps(entries.size() + 1);
  auto dict = std::make_shared<Dict>();
  size_t depth = 0;
  for (auto& [key, value] : entries) {
    depth = std::max({depth, depth_of(key), depth_of(value)});
    if (const auto found = find_entry(context, *dict, key)) {
      dict->entries[*found].second = std::move(value);
      continue;
    }
    dict->entries.emplace_back(std::move(key), std::move(value));
    if (dict->entries.size() == kIndexedDict + 1) {
      for (size_t i = 0; i < dict->entries.size(); ++i) dict->index.emplace(hash_key(dict->entries[i].first), i);
    } else if (dict->entries.size() > kIndexedDict) {
      dict->index.emplace(hash_key(dict->entries.back().first), dict->entries.size() - 1);
    }
  }
  check_depth(context, depth + 1);
  dict->depth = depth + 1;
  return std::shared_ptr<const Dict>(std::move(dict));
}

Value make_function(Context& context, const Value& holds, std::string name,
                    std::function<Value(Context&, const Arguments&)> call) {
  const size_t depth = depth_of(holds) + 1;
  check_depth(context, depth);
  return std::make_shared<const Function>(Function{std::move(name), std::move(call), false, depth});
}

std::string_view type_name(const Value& value) {
  struct Visitor {
    std::string_view operator()(const Undefined&) { return "Undefined"; }
    std::string_view operator()(const None&) { return "NoneType"; }
    std::string_view operator()(bool) { return "bool"; }
    std::string_view operator()(int64_t) { return "int"; }
    std::string_view operator()(double) { return "float"; }
    std::string_view operator()(const Text&) { return "str"; }
    std::string_view operator()(const std::shared_ptr<Sequence>& sequence) {
      switch (sequence->kind) {
        case SequenceKind::list:
          return "list";
        case SequenceKind::tuple:
          return "tuple";
        case SequenceKind::range:
          return "range";
        case SequenceKind::view:
          return sequence->label;
        case SequenceKind::iterator:
          break;
      }
      return "generator";
    }
    std::string_view operator()(const std::shared_ptr<const Dict>&) { return "dict"; }
    std::string_view operator()(const std::shared_ptr<Namespace>&) { return "Namespace"; }
    std::string_view operator()(const std::shared_ptr<const Function>& function) {
      return function->is_macro ? "Macro" : "function";
    }
    std::string_view operator()(const std::shared_ptr<Loop>&) { return "LoopContext"; }
  };
  return std::visit(Visitor{}, value);
}

std::string describe(const Value& value) {
  if (is_none(value)) return "None";
  return fmt::format("'{} object'", type_name(value));
}

bool is_undefined(const Value& value) {
  return std::holds_alternative<Undefined>(value);
}

void require_defined(const Value& value) {
  if (const auto* missing = std::get_if<Undefined>(&value)) {
    raise("{}", missing->reason ? *missing->reason : std::string("the value is undefined"));
  }
}

bool is_true(const Value& value) {
  if (is_undefined(value) || is_none(value)) return false;
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto number = as_number(value)) return *number != 0.0;
  if (const MarkedText* text = as_text(value)) return !text->empty();
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) {
    return (*sequence)->kind == SequenceKind::iterator || !(*sequence)->items.empty();
  }
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value)) return !(*dict)->entries.empty();
  return true;
}

bool equal(Context& context, const Value& a, const Value& b) {
  context.charge_steps();
  const MarkedText* text = as_text(a);
  const MarkedText* other_text = as_text(b);
  if (text != nullptr || other_text != nullptr) {
    return text != nullptr && other_text != nullptr && text->bytes() == other_text->bytes();
  }
  const auto integer = as_integer(a), other_integer = as_integer(b);
  if (integer && other_integer) return *integer == *other_integer;
  const auto number = as_number(a), other_number = as_number(b);
  if (number && other_number) return *number == *other_number;
  if (a.index() != b.index()) return false;
  if (is_undefined(a) || is_none(a)) return true;
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&a)) {
    const auto& other = std::get<std::shared_ptr<Sequence>>(b);
    if ((*sequence)->kind != other->kind) return false;
    if ((*sequence)->kind == SequenceKind::iterator) return *sequence == other;
    return *sequence == other || equal_items(context, (*sequence)->items, other->items);
  }
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&a)) {
    const auto& other = std::get<std::shared_ptr<const Dict>>(b);
    return *dict == other || equal_dicts(context, **dict, *other);
  }
  return a == b;  // the same object
}

bool less(Context& context, const Value& a, const Value& b, std::string_view symbol) {
  context.charge_steps();
  require_defined(a);
  require_defined(b);
  const auto integer = as_integer(a), other_integer = as_integer(b);
  if (integer && other_integer) return *integer < *other_integer;
  const auto number = as_number(a), other_number = as_number(b);
  if (number && other_number) return *number < *other_number;
  const MarkedText* text = as_text(a);
  const MarkedText* other_text = as_text(b);
  if (text != nullptr && other_text != nullptr) return text->bytes() < other_text->bytes();
  const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&a);
  const auto* other = std::get_if<std::shared_ptr<Sequence>>(&b);
  if (sequence != nullptr && other != nullptr && (*sequence)->kind == (*other)->kind &&
      ((*sequence)->kind == SequenceKind::list || (*sequence)->kind == SequenceKind::tuple)) {
    const auto& left = (*sequence)->items;
    const auto& right = (*other)->items;
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (!equal(context, left[i], right[i])) return less(context, left[i], right[i], symbol);
    }
    return left.size() < right.size();
  }
  raise("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(a), type_name(b));
}

const Value* find_key(Context& context, const Dict& dict, const Value& key) {
  const auto found = find_entry(context, dict, key);
  return found ? &dict.entries[*found].second : nullptr;
}

const Value* find_key(Context& context, const Dict& dict, std::string_view key) {
  return find_key(context, dict, Value(std::make_shared<const MarkedText>(std::string(key), true)));
}

std::shared_ptr<const Sequence> iterate(Context& context, const Value& value) {
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) {
    if ((*sequence)->kind != SequenceKind::iterator || (*sequence)->cursor == 0) {
      if ((*sequence)->kind == SequenceKind::iterator) (*sequence)->cursor = (*sequence)->items.size();
      return *sequence;
    }
    auto rest = std::make_shared<Sequence>();
    rest->depth = (*sequence)->depth;
    rest->items.assign((*sequence)->items.begin() + static_cast<std::ptrdiff_t>((*sequence)->cursor),
                       (*sequence)->items.end());
    (*sequence)->cursor = (*sequence)->items.size();
    return rest;
  }
  auto items = std::make_shared<Sequence>();
  if (is_undefined(value)) return items;
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value)) {
    context.charge_steps((*dict)->entries.size());
    for (const auto& entry : (*dict)->entries) items->items.push_back(entry.first);
    return items;
  }
  if (const MarkedText* text = as_text(value)) {
    for (size_t i = 0; i < text->size();) {
      context.charge_steps();
      const size_t size = character_size(text->bytes(), i);
      items->items.push_back(make_text(context, text->slice(i, i + size)));
      i += size;
    }
    return items;
  }
  if (const auto* loop = std::get_if<std::shared_ptr<Loop>>(&value)) return (*loop)->items;
  raise("'{}' object is not iterable", type_name(value));
}

size_t length_of(const Value& value) {
  if (is_undefined(value)) return 0;
  if (const MarkedText* text = as_text(value)) return count_characters(text->bytes());
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) {
    if ((*sequence)->kind != SequenceKind::iterator) return (*sequence)->items.size();
  }
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value)) return (*dict)->entries.size();
  if (const auto* loop = std::get_if<std::shared_ptr<Loop>>(&value)) return (*loop)->items->items.size();
  raise("object of type '{}' has no len()", type_name(value));
}

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

const MarkedText* as_text(const Value& value) {
  const Text* text = std::get_if<Text>(&value);
  return text == nullptr ? nullptr : text->get();
}

std::optional<int64_t> as_integer(const Value& value) {
  if (const int64_t* number = std::get_if<int64_t>(&value)) return *number;
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return std::nullopt;
}

std::optional<double> as_number(const Value& value) {
  if (const double* number = std::get_if<double>(&value)) return *number;
  if (const auto integer = as_integer(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

}  // namespace gale::text::jinja
