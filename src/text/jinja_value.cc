// Making, comparing and printing the values of a template as Python does.
#include "text/jinja_value.h"

#include <cmath>

namespace gale::text::jinja {

namespace {

// What a short text takes beside its bytes: the object, its shared count and the allocator's headers.
constexpr uint64_t kTextOverheadBytes = 96;
constexpr size_t kIndexedDict = 8;  // more entries than this get a hash index

size_t depth_of(const Value& value) {
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) return (*sequence)->depth;
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value)) return (*dict)->depth;
  if (const auto* function = std::get_if<std::shared_ptr<const Function>>(&value)) return (*function)->depth;
  if (const auto* loop = std::get_if<std::shared_ptr<Loop>>(&value)) return (*loop)->items->depth + 1;
  return 0;
}

size_t hash_key(Context& context, const Value& value) {
  if (const MarkedText* text = as_text(value)) {
    context.charge_steps(text->size() / 256);
    return std::hash<std::string>{}(text->bytes());
  }
  if (const auto number = as_number(value)) return std::hash<double>{}(*number);
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) {
    if ((*sequence)->kind == SequenceKind::range) return (*sequence)->items.size();
    if ((*sequence)->kind != SequenceKind::tuple) raise("unhashable type: '{}'", type_name(value));
    size_t hash = 7;
    for (const Value& item : (*sequence)->items) hash = hash * 31 + hash_key(context, item);
    return hash;
  }
  if (std::holds_alternative<std::shared_ptr<const Dict>>(value)) raise("unhashable type: 'dict'");
  return value.index();
}

std::optional<size_t> find_entry(Context& context, const Dict& dict, const Value& key) {
  const size_t hash = hash_key(context, key);  // also rejects keys that Python cannot hash
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

}  // namespace

void Context::charge_text(uint64_t size) {
  if (size > limits.text_bytes) {
    throw Failure{ErrorKind::limit, fmt::format("a text of {} bytes, the limit is {}", size, limits.text_bytes)};
  }
  bytes += kTextOverheadBytes + size;
  if (bytes > limits.total_bytes) {
    throw Failure{ErrorKind::limit, fmt::format("{} bytes of text made, the limit is {}", bytes, limits.total_bytes)};
  }
  charge_steps(size / 256);
}

void Context::check_depth(size_t depth) const {
  if (depth > limits.value_depth) {
    throw Failure{ErrorKind::limit,
                  fmt::format("lists or dicts nested {} deep, the limit is {}", depth, limits.value_depth)};
  }
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
  context.check_depth(depth + 1);
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  sequence->items = std::move(items);
  sequence->label = std::move(label);
  sequence->depth = depth + 1;
  return sequence;
}

Value make_range(Context& context, int64_t start, int64_t stop, int64_t step) {
  auto range = std::make_shared<Sequence>();
  range->kind = SequenceKind::range;
  range->start = start;
  range->stop = stop;
  range->step = step;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(range->items.size()) >= context.limits.range_items) {
      throw Failure{ErrorKind::limit,
                    fmt::format("a range of more than {} items, the limit", context.limits.range_items)};
    }
    range->items.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  context.charge_steps(range->items.size() + 1);
  return range;
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
      for (size_t i = 0; i < dict->entries.size(); ++i)
        dict->index.emplace(hash_key(context, dict->entries[i].first), i);
    } else if (dict->entries.size() > kIndexedDict) {
      dict->index.emplace(hash_key(context, dict->entries.back().first), dict->entries.size() - 1);
    }
  }
  context.check_depth(depth + 1);
  dict->depth = depth + 1;
  return std::shared_ptr<const Dict>(std::move(dict));
}

Value make_function(Context& context, const Value& holds, std::string name,
                    std::function<Value(Context&, const Arguments&)> call) {
  const size_t depth = depth_of(holds) + 1;
  context.check_depth(depth);
  return std::make_shared<const Function>(Function{std::move(name), std::move(call), nullptr, depth});
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
      return function->macro != nullptr ? "Macro" : "function";
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

void require_hashable(Context& context, const Value& value) {
  hash_key(context, value);
}

bool has_item(const Loop& loop, size_t number) {
  while (loop.items->items.size() <= number) {
    if (!loop.more || !loop.more()) return false;
  }
  return true;
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
    if (text == nullptr || other_text == nullptr || text->size() != other_text->size()) return false;
    context.charge_steps(text->size() / 256);
    return text->bytes() == other_text->bytes();
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
  if (text != nullptr && other_text != nullptr) {
    context.charge_steps(std::min(text->size(), other_text->size()) / 256);
    return text->bytes() < other_text->bytes();
  }
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
      context.charge_steps(4);  // each becomes an object of a hundred bytes
      const size_t size = character_size(text->bytes(), i);
      items->items.push_back(make_text(context, text->slice(i, i + size)));
      i += size;
    }
    return items;
  }
  if (const auto* found = std::get_if<std::shared_ptr<Loop>>(&value)) {
    // What is left of the loop, which is over then; jinja2 gives pairs of item and loop.
    Loop& loop = **found;
    for (; has_item(loop, loop.index + 1); ++loop.index) {
      items->items.push_back(make_sequence(context, {loop.items->items[loop.index + 1], value}, SequenceKind::tuple));
    }
    items->depth = loop.items->depth + 2;
    return items;
  }
  raise("'{}' object is not iterable", type_name(value));
}

size_t length_of(const Value& value) {
  if (is_undefined(value)) return 0;
  if (const MarkedText* text = as_text(value)) return count_characters(text->bytes());
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) {
    if ((*sequence)->kind != SequenceKind::iterator) return (*sequence)->items.size();
  }
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value)) return (*dict)->entries.size();
  if (const auto* loop = std::get_if<std::shared_ptr<Loop>>(&value)) {
    has_item(**loop, SIZE_MAX);
    return (*loop)->items->items.size();
  }
  raise("object of type '{}' has no len()", type_name(value));
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
