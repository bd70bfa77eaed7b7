// Filters on lists and dicts: map, select, sort, join and their kind.
#include <map>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

Value lowered(Context& context, const Value& value) {
  const MarkedText* text = as_text(value);
  return text == nullptr ? value : make_text(context, change_case(*text, Case::lower));
}

// A dotted path or a number, as jinja2's attribute arguments are.
Value attribute_path(Context& context, Value item, const Value& path, const Value* fallback = nullptr) {
  const MarkedText* text = as_text(path);
  if (text == nullptr) {
    item = get_item(context, item, path);
    return is_undefined(item) && fallback != nullptr ? *fallback : item;
  }
  const std::string& bytes = text->bytes();
  for (size_t begin = 0; begin <= bytes.size();) {
    const size_t end = std::min(bytes.find('.', begin), bytes.size());
    const std::string part = bytes.substr(begin, end - begin);
    const bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    item = get_item(context, item, number ? Value(int64_t{std::stoi(part)}) : make_text(context, part));
    if (is_undefined(item) && fallback != nullptr) item = *fallback;
    begin = end + 1;
  }
  return item;
}

// What items are compared by: an attribute or the item, without case unless asked for.
Value sort_key(Context& context, const Value& item, const Value* attribute, bool case_sensitive) {
  const bool whole = attribute == nullptr || is_none(*attribute);
  const Value key = whole ? item : attribute_path(context, item, *attribute);
  return case_sensitive ? key : lowered(context, key);
}

// Stable; charges as it compares, so that the limits hold.
void sort_by_keys(Context& context, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(context, b.first, a.first) : less(context, a.first, b.first);
  });
}

Value iterator(Context& context, std::vector<Value> items) {
  return make_sequence(context, std::move(items), SequenceKind::iterator);
}

Value filter_sort(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  // Keys are lists, one entry per attribute ("a,b"): lists of undefined values can be compared, they are equal.
  std::vector<Value> attributes;
  const MarkedText* names = given[2] == nullptr ? nullptr : as_text(*given[2]);
  if (names == nullptr) attributes.push_back(given.value(2, None{}));
  for (size_t begin = 0; names != nullptr && begin <= names->size();) {
    const size_t end = std::min(names->bytes().find(',', begin), names->size());
    attributes.push_back(make_text(context, names->slice(begin, end)));
    begin = end + 1;
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto walked = iterate(context, value); const Value& item : walked->items) {
    std::vector<Value> keys;
    for (const Value& attribute : attributes) keys.push_back(sort_key(context, item, &attribute, given.flag(1, false)));
    keyed.emplace_back(make_sequence(context, std::move(keys)), item);
  }
  sort_by_keys(context, keyed, given.flag(0, false));
  std::vector<Value> out;
  for (auto& entry : keyed) out.push_back(std::move(entry.second));
  return make_sequence(context, std::move(out));
}

Value filter_dictsort(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  require_defined(value);
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value);
  if (dict == nullptr) raise("dictsort needs a dict, got '{}'", type_name(value));
  const std::string by = given.text(1) == nullptr ? "key" : given.text(1)->bytes();
  if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, item] : (*dict)->entries) {
    const Value& chosen = by == "key" ? key : item;
    keyed.emplace_back(given.flag(0, false) ? chosen : lowered(context, chosen),
                       make_sequence(context, {key, item}, SequenceKind::tuple));
  }
  sort_by_keys(context, keyed, given.flag(2, false));
  std::vector<Value> out;
  for (auto& entry : keyed) out.push_back(std::move(entry.second));
  return make_sequence(context, std::move(out));
}

Value filter_unique(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> out;
  std::unordered_multimap<std::string, Value> texts;
  for (const auto walked = iterate(context, value); const Value& item : walked->items) {
    const Value key = sort_key(context, item, given[1], given.flag(0, false));
    make_dict(context, {{key, None{}}});  // rejects keys that Python cannot hash
    const std::string label = to_repr(context, as_number(key) ? Value(*as_number(key)) : key)->bytes();
    const auto [first, last] = texts.equal_range(label);
    if (std::any_of(first, last, [&](const auto& entry) { return equal(context, entry.second, key); })) continue;
    texts.emplace(label, key);
    out.push_back(item);
  }
  return iterator(context, std::move(out));
}

template <bool kMaximum>
Value filter_extreme(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given(kMaximum ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const auto items = iterate(context, value);
  if (items->items.empty()) return undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) { return sort_key(context, item, given[1], given.flag(0, false)); };
  size_t best = 0;
  Value best_key = key_of(items->items[0]);
  for (size_t i = 1; i < items->items.size(); ++i) {
    Value key = key_of(items->items[i]);
    if (kMaximum ? !less(context, best_key, key) : !less(context, key, best_key)) continue;
    best = i;
    best_key = std::move(key);
  }
  return items->items[best];
}

Value filter_sum(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("sum", arguments, {"attribute", "start"});
  Value total = given.value(1, int64_t{0});
  if (as_text(total) != nullptr) raise("sum() can't sum strings [use ''.join(seq) instead]");
  for (const auto walked = iterate(context, value); const Value& item : walked->items) {
    const bool whole = given[0] == nullptr || is_none(*given[0]);
    total = binary(context, Operator::add, total, whole ? item : attribute_path(context, item, *given[0]));
  }
  return total;
}

Value filter_join(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("join", arguments, {"d", "attribute"});
  const Text separator = given[0] == nullptr ? std::make_shared<const MarkedText>() : to_text(context, *given[0]);
  MarkedText out;
  bool first = true;
  for (const auto walked = iterate(context, value); const Value& item : walked->items) {
    const bool whole = given[1] == nullptr || is_none(*given[1]);
    const Text text = to_text(context, whole ? item : attribute_path(context, item, *given[1]));
    context.charge_text(text->size() + separator->size());
    if (out.size() > context.limits.text_bytes) context.charge_text(out.size());
    if (!first) out.append(*separator);
    first = false;
    out.append(*text);
  }
  return make_text(context, std::move(out));
}

Value filter_first(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("first", arguments, {});
  if (const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value)) {
    Sequence& items = **sequence;
    if (items.cursor >= items.items.size()) return undefined("No first item, sequence was empty.");
    return items.items[items.kind == SequenceKind::iterator ? items.cursor++ : 0];
  }
  if (const MarkedText* text = as_text(value); text != nullptr && !text->empty()) {
    return make_text(context, text->slice(0, character_size(text->bytes(), 0)));
  }
  const auto items = iterate(context, value);
  return items->items.empty() ? undefined("No first item, sequence was empty.") : items->items[0];
}

Value filter_last(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("last", arguments, {});
  const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&value);
  if (sequence != nullptr && (*sequence)->kind == SequenceKind::iterator) raise("'generator' object is not reversible");
  const auto items = iterate(context, value);
  return items->items.empty() ? undefined("No last item, sequence was empty.") : items->items.back();
}

Value filter_list(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("list", arguments, {});
  return make_sequence(context, iterate(context, value)->items);
}

Value filter_reverse(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("reverse", arguments, {});
  std::vector<Value> items = iterate(context, value)->items;
  std::reverse(items.begin(), items.end());
  if (as_text(value) == nullptr) return iterator(context, std::move(items));
  MarkedText out;
  for (const Value& item : items) out.append(*as_text(item));
  return make_text(context, std::move(out).with_markup(as_text(value)->is_markup()));
}

Value filter_items(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("items", arguments, {});
  if (is_undefined(value)) return iterator(context, {});
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value);
  if (dict == nullptr) raise("Can only get item pairs from a mapping.");
  std::vector<Value> out;
  for (const auto& [key, item] : (*dict)->entries)
    out.push_back(make_sequence(context, {key, item}, SequenceKind::tuple));
  return iterator(context, std::move(out));
}

Value filter_map(Context& context, const Value& value, const Arguments& arguments) {
  std::vector<Value> out;
  if (!is_true(value)) return iterator(context, {});
  if (arguments.positional.empty()) {
    const Parameters given("map", arguments, {"attribute", "default"}, 1);
    for (const auto walked = iterate(context, value); const Value& item : walked->items) {
      out.push_back(attribute_path(context, item, *given[0], given[1]));
    }
    return iterator(context, std::move(out));
  }
  Arguments rest = arguments;
  const Text name = to_text(context, rest.positional[0]);
  rest.positional.erase(rest.positional.begin());
  if (!has_filter(name->bytes())) raise("No filter named '{}'.", name->bytes());
  for (const auto walked = iterate(context, value); const Value& item : walked->items) {
    out.push_back(apply_filter(context, name->bytes(), item, rest));
  }
  return iterator(context, std::move(out));
}

template <bool kKeep, bool kAttribute>
Value filter_select(Context& context, const Value& value, const Arguments& arguments) {
  if (!is_true(value)) return iterator(context, {});
  Arguments rest = arguments;
  const auto take = [&] {
    const Value first = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return first;
  };
  if (kAttribute && rest.positional.empty()) raise("Missing parameter for attribute name");
  const Value attribute = kAttribute ? take() : Value(None{});
  const bool tested = !rest.positional.empty();
  const Text test = tested ? to_text(context, take()) : nullptr;
  if (tested && !has_test(test->bytes())) raise("No test named '{}'.", test->bytes());
  std::vector<Value> out;
  for (const auto walked = iterate(context, value); const Value& item : walked->items) {
    const Value subject = kAttribute ? attribute_path(context, item, attribute) : item;
    const bool holds = tested ? apply_test(context, test->bytes(), subject, rest) : is_true(subject);
    if (holds == kKeep) out.push_back(item);
  }
  return iterator(context, std::move(out));
}

Value filter_batch(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = given.integer(0, 0);
  std::vector<Value> out, row;
  for (const auto walked = iterate(context, value); const Value& item : walked->items) {
    if (static_cast<int64_t>(row.size()) == size) out.push_back(make_sequence(context, std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    const bool fill = given[1] != nullptr && !is_none(*given[1]);
    if (fill && size > static_cast<int64_t>(row.size())) {
      context.charge_steps(static_cast<uint64_t>(size));
      row.resize(static_cast<size_t>(size), *given[1]);
    }
    out.push_back(make_sequence(context, std::move(row)));
  }
  return iterator(context, std::move(out));
}

Value filter_slice(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("slice", arguments, {"slices", "fill_with"}, 1);
  const auto items = iterate(context, value);
  const int64_t slices = given.integer(0, 0);
  if (slices == 0) raise("integer division or modulo by zero");
  if (slices > 0) context.charge_steps(static_cast<uint64_t>(slices));
  const auto size = static_cast<int64_t>(items->items.size());
  std::vector<Value> out;
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < size % slices;
    const int64_t end = begin + size / slices + (extra ? 1 : 0);
    std::vector<Value> part(items->items.begin() + begin, items->items.begin() + end);
    if (given[1] != nullptr && !is_none(*given[1]) && !extra) part.push_back(*given[1]);
    out.push_back(make_sequence(context, std::move(part)));
    begin = end;
  }
  return iterator(context, std::move(out));
}

Value filter_groupby(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto walked = iterate(context, value); const Value& item : walked->items) {
    const Value key = attribute_path(context, item, *given[0], given[1]);
    keyed.emplace_back(given.flag(2, false) ? key : lowered(context, key), item);
  }
  sort_by_keys(context, keyed, false);
  std::vector<Value> out;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> group;
    size_t end = begin;
    for (; end < keyed.size() && equal(context, keyed[end].first, keyed[begin].first); ++end) {
      group.push_back(keyed[end].second);
    }
    if (end == begin) ++end;  // a key that does not equal itself (nan)
    const Value key = attribute_path(context, keyed[begin].second, *given[0], given[1]);
    out.push_back(make_sequence(context, {key, make_sequence(context, std::move(group))}, SequenceKind::tuple));
    begin = end;
  }
  return make_sequence(context, std::move(out));
}

Value filter_attr(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("attr", arguments, {"name"}, 1);
  const Text name = to_text(context, *given[0]);
  if (!std::holds_alternative<std::shared_ptr<const Dict>>(value)) return get_attribute(context, value, name->bytes());
  auto method = find_method(context, value, name->bytes());
  return method ? *std::move(method) : undefined(fmt::format("'dict object' has no attribute '{}'", name->bytes()));
}

}  // namespace

Filter find_list_filter(std::string_view name) {
  static const std::map<std::string_view, Filter> table = {
      {"sort", filter_sort},
      {"dictsort", filter_dictsort},
      {"unique", filter_unique},
      {"min", filter_extreme<false>},
      {"max", filter_extreme<true>},
      {"sum", filter_sum},
      {"join", filter_join},
      {"first", filter_first},
      {"last", filter_last},
      {"list", filter_list},
      {"reverse", filter_reverse},
      {"items", filter_items},
      {"map", filter_map},
      {"select", filter_select<true, false>},
      {"reject", filter_select<false, false>},
      {"selectattr", filter_select<true, true>},
      {"rejectattr", filter_select<false, true>},
      {"batch", filter_batch},
      {"slice", filter_slice},
      {"groupby", filter_groupby},
      {"attr", filter_attr},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace gale::text::jinja
