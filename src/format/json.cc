// Builds trees of JSON values from the events of the parser, with checks that it lacks.
#include "format/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_reason.h"

namespace gale::format {
namespace {

constexpr size_t kMostBytes = 64u << 20;  // the index of a model with 500,000 tensors
constexpr size_t kDeepest = 64;

class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Json root;
  std::string error;

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add({value}); }
  bool number_integer(number_integer_t value) override { return add({value}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (std::in_range<int64_t>(value)) return add({static_cast<int64_t>(value)});
    return add({value});
  }
  bool number_float(number_float_t value, const string_t&) override { return add({value}); }
  bool string(string_t& value) override { return add({std::move(value)}); }
  bool binary(binary_t&) override { return false; }  // not in JSON text
  bool key(string_t& value) override {
    std::get<Json::Object>(open_.back()->value).push_back({std::move(value), Json{}});
    return true;
  }
  bool start_object(std::size_t) override { return begin({Json::Object{}}); }
  bool start_array(std::size_t) override { return begin({Json::Array{}}); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool end_object() override {
    const auto& members = std::get<Json::Object>(open_.back()->value);
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const auto& [key, value] : members) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end()) {
      error = fmt::format("the key \"{}\" is there twice", *twice);
      return false;
    }
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& what) override {
    error = "no valid JSON: " + json_reason(what.what());
    return false;
  }

 private:
  // Puts a value where the next one belongs.
  Json& place(Json value) {
    if (open_.empty()) return root = std::move(value);
    if (auto* array = std::get_if<Json::Array>(&open_.back()->value)) return array->emplace_back(std::move(value));
    return std::get<Json::Object>(open_.back()->value).back().value = std::move(value);
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool begin(Json value) {
    if (open_.size() == kDeepest) {
      error = fmt::format("nested more than {} deep", kDeepest);
      return false;
    }
    open_.push_back(&place(std::move(value)));  // stays where it is: nothing is added beside it while it is open
    return true;
  }

  std::vector<Json*> open_;  // from the root to the innermost array or object that is not closed yet
};

}  // namespace

const Json* Json::find(std::string_view key) const {
  const auto* members = get<Object>();
  if (!members) return nullptr;
  const auto at = std::find_if(members->begin(), members->end(), [&](const auto& member) { return member.key == key; });
  return at == members->end() ? nullptr : &at->value;
}

std::string_view kind_name(const Json& json) {
  constexpr std::string_view names[] = {"null",     "a bool",   "an integer", "a large integer",
                                        "a number", "a string", "an array",   "an object"};
  return names[json.value.index()];
}

Result<Json> parse_json(std::string_view text, const std::string& name) {
  if (text.size() > kMostBytes)
    return fail(ErrorKind::limit, "{}: it has {} bytes, at most {} are possible", name, text.size(), kMostBytes);
  TreeBuilder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder))
    return fail(ErrorKind::invalid_input, "{}: {}", name, builder.error);
  return std::move(builder.root);
}

}  // namespace gale::format
