// Methods of lists and dicts that a sandboxed template may call: those that change nothing.
#include <algorithm>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

std::optional<Value> dict_method(Context& context, const std::shared_ptr<const Dict>& dict, std::string_view name) {
  const auto view = [&](std::string_view label, Value (*pick)(Context&, const std::pair<Value, Value>&)) {
    return make_function(context, dict, std::string(name),
                         [dict, label, pick](Context& context, const Arguments& arguments) {
                           const Parameters none(label, arguments, {});
                           std::vector<Value> items;
                           for (const auto& entry : dict->entries) items.push_back(pick(context, entry));
                           return make_sequence(context, std::move(items), SequenceKind::view, std::string(label));
                         });
  };
  if (name == "items") {
    return view("dict_items", [](Context& context, const std::pair<Value, Value>& entry) {
      return make_sequence(context, {entry.first, entry.second}, SequenceKind::tuple);
    });
  }
  if (name == "keys")
    return view("dict_keys", [](Context&, const std::pair<Value, Value>& entry) { return entry.first; });
  if (name == "values") {
    return view("dict_values", [](Context&, const std::pair<Value, Value>& entry) { return entry.second; });
  }
  if (name == "copy") return make_function(context, dict, "copy", [dict](Context&, const Arguments&) { return dict; });
  if (name != "get") return std::nullopt;
  return make_function(context, dict, "get", [dict](Context& context, const Arguments& arguments) {
    const Parameters given("get", arguments, {"key", "default"}, 1);
    const Value* found = find_key(context, *dict, *given[0]);
    return found != nullptr ? *found : given.value(1, None{});
  });
}

std::optional<Value> sequence_method(Context& context, const std::shared_ptr<Sequence>& sequence,
                                     std::string_view name) {
  if (sequence->kind == SequenceKind::view || sequence->kind == SequenceKind::iterator) return std::nullopt;
  if (name == "copy" && sequence->kind == SequenceKind::list) {
    return make_function(context, sequence, "copy", [sequence](Context&, const Arguments&) { return sequence; });
  }
  if (name != "index" && name != "count") return std::nullopt;
  const bool index = name == "index";
  return make_function(context, sequence, std::string(name),
                       [sequence, index](Context& context, const Arguments& arguments) -> Value {
                         const Parameters given = index ? Parameters("index", arguments, {"value", "start", "stop"}, 1)
                                                        : Parameters("count", arguments, {"value"}, 1);
                         const auto size = static_cast<int64_t>(sequence->items.size());
                         const auto bound = [&](size_t which, int64_t fallback) {
                           const int64_t i = index ? given.integer(which, fallback) : fallback;
                           return static_cast<size_t>(std::clamp<int64_t>(i < 0 ? i + size : i, 0, size));
                         };
                         int64_t number = 0;
                         for (size_t i = bound(1, 0), stop = bound(2, size); i < stop; ++i) {
                           if (!equal(context, sequence->items[i], *given[0])) continue;
                           if (index) return static_cast<int64_t>(i);
                           ++number;
                         }
                         if (index) raise("the value is not in the {}", type_name(sequence));
                         return number;
                       });
}

// jinja2's immutable sandbox hides what would change a list or dict.
bool is_mutator(const Value& object, std::string_view name) {
  static constexpr std::string_view kList[] = {"append", "clear", "pop",    "reverse",
                                               "insert", "sort",  "extend", "remove"};
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (type_name(object) == "list") return std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
  if (type_name(object) == "dict") return std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
  return false;
}

}  // namespace

std::optional<Value> find_container_method(Context& context, const Value& object, std::string_view name) {
  if (is_mutator(object, name)) {
    return undefined(
        fmt::format("'{}' of a {} would change it: values in templates are immutable, use a namespace "
                    "or + to build a new one",
                    name, type_name(object)));
  }
  if (const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&object)) return dict_method(context, *dict, name);
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&object)) {
    return sequence_method(context, *sequence, name);
  }
  return std::nullopt;
}

}  // namespace gale::text::jinja
