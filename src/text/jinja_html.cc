// Markup: escape and safe as the sandbox has them, texts that are markup, and the filters that write HTML or URLs.
#include <map>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

std::string_view escape_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

MarkedText escape_html(Context& context, const MarkedText& text) {
  size_t size = text.size();
  for (const char c : text.bytes()) size += escape_of(c).size();  // at most
  context.charge_text(size);
  MarkedText out;
  text.for_each_run(0, text.size(), [&](std::string_view run, bool from_template) {
    std::string bytes;
    for (const char c : run) {
      const std::string_view escape = escape_of(c);
      if (escape.empty()) {
        bytes += c;
      } else {
        bytes += escape;
      }
    }
    out.append(bytes, from_template);
  });
  return out;
}

Value markup(Context& context, const MarkedText& text) {
  return make_text(context, MarkedText(text).with_markup(true));
}

Value filter_escape(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("escape", arguments, {});
  return escaped(context, value);
}

Value filter_force_escape(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("forceescape", arguments, {});
  return markup(context, escape_html(context, *to_text(context, value)));
}

Value filter_safe(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("safe", arguments, {});
  return markup(context, *to_text(context, value));
}

// Percent-encoded; in a query string '/' too, and '+' stands for a blank.
MarkedText quote_url(const MarkedText& text, bool query) {
  constexpr std::string_view kPlain = "_.-~";
  MarkedText out;
  text.for_each_run(0, text.size(), [&](std::string_view run, bool from_template) {
    std::string bytes;
    for (const char c : run) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (letter || kPlain.find(c) != std::string_view::npos || (c == '/' && !query)) {
        bytes += c;
      } else if (c == ' ' && query) {
        bytes += '+';
      } else {
        bytes += fmt::format("%{:02X}", static_cast<unsigned char>(c));
      }
    }
    out.append(bytes, from_template);
  });
  return out;
}

Value filter_urlencode(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters none("urlencode", arguments, {});
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value);
  const bool listing = std::holds_alternative<std::shared_ptr<Sequence>>(value) || is_undefined(value);
  if (dict == nullptr && !listing) return make_text(context, quote_url(*to_text(context, value), false));
  MarkedText out;
  const auto put = [&](const Value& key, const Value& item) {
    if (!out.empty()) out.append("&", true);
    out.append(quote_url(*to_text(context, key), true));
    out.append("=", true);
    out.append(quote_url(*to_text(context, item), true));
    context.charge_text(out.size());
  };
  if (dict != nullptr) {
    for (const auto& [key, item] : (*dict)->entries) put(key, item);
  } else {
    for (const auto walked = iterate(context, value); const Value& pair : walked->items) {
      const auto items = iterate(context, pair);
      if (items->items.size() != 2) raise("urlencode needs pairs, got {} values", items->items.size());
      put(items->items[0], items->items[1]);
    }
  }
  return make_text(context, std::move(out));
}

Value filter_xmlattr(Context& context, const Value& value, const Arguments& arguments) {
  const Parameters given("xmlattr", arguments, {"autospace"});
  require_defined(value);
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value);
  if (dict == nullptr) raise("xmlattr needs a dict, got '{}'", type_name(value));
  MarkedText out;
  for (const auto& [key, item] : (*dict)->entries) {
    if (is_none(item) || is_undefined(item)) continue;
    const MarkedText* name = as_text(key);
    if (name == nullptr) raise("xmlattr needs names of attributes, got '{}'", type_name(key));
    for (size_t i = 0, size = 1; i < name->size(); i += size) {
      const char32_t code = code_point_at(name->bytes(), i, &size);
      if (is_space(code) || code == '/' || code == '>' || code == '=') {
        raise("Invalid character in attribute name: {}", to_repr(context, key)->bytes());
      }
    }
    if (!out.empty() || given.flag(0, true)) out.append(" ", true);
    out.append(*as_text(escaped(context, key)));
    out.append("=\"", true);
    out.append(*as_text(escaped(context, item)));
    out.append("\"", true);
    context.charge_text(out.size());
  }
  return make_text(context, std::move(out));
}

}  // namespace

Value escaped(Context& context, const Value& value) {
  const MarkedText* text = as_text(value);
  if (text != nullptr && text->is_markup()) return value;
  return markup(context, escape_html(context, *to_text(context, value)));
}

Arguments markup_arguments(Context& context, std::string_view method, Arguments arguments) {
  auto& values = arguments.positional;
  const bool second = method == "replace" || method == "ljust" || method == "rjust" || method == "center";
  if (second && values.size() > 1 && as_text(values[1]) != nullptr) values[1] = escaped(context, values[1]);
  if (method == "join" && values.size() == 1) {
    std::vector<Value> items;
    for (const auto walked = iterate(context, values[0]); const Value& item : walked->items) {
      items.push_back(escaped(context, item));
    }
    values[0] = make_sequence(context, std::move(items));
  }
  return arguments;
}

Value markup_result(Context& context, const Value& result) {
  if (const MarkedText* text = as_text(result)) return markup(context, *text);
  const auto* sequence = std::get_if<std::shared_ptr<Sequence>>(&result);
  if (sequence == nullptr) return result;
  std::vector<Value> items;
  for (const Value& item : (*sequence)->items) items.push_back(markup_result(context, item));
  return make_sequence(context, std::move(items), (*sequence)->kind);
}

Filter find_html_filter(std::string_view name) {
  static const std::map<std::string_view, Filter> table = {
      {"escape", filter_escape}, {"e", filter_escape},        {"forceescape", filter_force_escape},
      {"safe", filter_safe},     {"xmlattr", filter_xmlattr}, {"urlencode", filter_urlencode},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace gale::text::jinja
