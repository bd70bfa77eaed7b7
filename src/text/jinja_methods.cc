// Methods of strings that a sandboxed template may call; marks of origin survive all of them.
#include <map>
#include <tuple>

#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

using Method = Value (*)(Context& context, const MarkedText& self, const Arguments& arguments);

Value text_value(Context& context, MarkedText text) {
  return make_text(context, std::move(text));
}

template <bool kLeft, bool kRight>
Value strip(Context& context, const MarkedText& self, const Arguments& arguments) {
  return text_value(context, stripped(self, Parameters("strip", arguments, {"chars"}).text(0), kLeft, kRight));
}

// The pieces between separators (white space when nullptr), at most `limit` cuts, from the left or the right.
std::vector<Value> split(Context& context, const MarkedText& self, const MarkedText* separator, int64_t limit,
                         bool right) {
  const std::string& bytes = self.bytes();
  context.charge_steps(bytes.size() / 16 + 1);
  std::vector<std::pair<size_t, size_t>> pieces;
  auto cuts_left = [&, made = int64_t{0}]() mutable { return limit < 0 || made++ < limit; };
  if (separator != nullptr) {
    if (separator->empty()) raise("empty separator");
    // From the right is from the left of the reversed text.
    const std::string reversed = right ? std::string(bytes.rbegin(), bytes.rend()) : std::string();
    const std::string reversed_separator(separator->bytes().rbegin(), separator->bytes().rend());
    const std::string_view text = right ? reversed : bytes;
    size_t begin = 0;
    while (cuts_left()) {
      const size_t found = find_bytes(text, right ? reversed_separator : separator->bytes(), begin);
      if (found == std::string_view::npos) break;
      pieces.emplace_back(begin, found);
      begin = found + separator->size();
    }
    pieces.emplace_back(begin, text.size());
    for (auto& [from, to] : pieces) {
      if (right) std::tie(from, to) = std::pair(text.size() - to, text.size() - from);
    }
  } else {
    std::vector<std::pair<size_t, size_t>> words;
    bool inside = false;
    for (size_t i = 0, size = 1; i < bytes.size(); i += size) {
      const bool space = is_space(code_point_at(bytes, i, &size));
      if (!space && !inside) words.emplace_back(i, i);
      if (!space) words.back().second = i + size;
      inside = !space;
    }
    const size_t most = limit < 0 ? words.size() : static_cast<size_t>(limit) + 1;
    if (words.size() <= most) {
      pieces = words;
    } else if (right) {  // the rest is on the left and keeps its inner and leading blanks
      const size_t rest = words.size() - most;
      pieces.assign(words.begin() + static_cast<std::ptrdiff_t>(rest) + 1, words.end());
      pieces.emplace(pieces.begin(), 0, words[rest].second);
    } else {
      pieces.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(most) - 1);
      pieces.emplace_back(words[most - 1].first, bytes.size());
    }
  }
  if (right && separator != nullptr) std::reverse(pieces.begin(), pieces.end());
  std::vector<Value> out;
  for (const auto& [begin, end] : pieces) out.push_back(make_text(context, self.slice(begin, end)));
  return out;
}

template <bool kRight>
Value split_method(Context& context, const MarkedText& self, const Arguments& arguments) {
  const Parameters given("split", arguments, {"sep", "maxsplit"});
  return make_sequence(context, split(context, self, given.text(0), given.integer(1, -1), kRight));
}

// Byte range of self[start:end] in characters; false when the range starts after the text or after its own end.
bool byte_range(const MarkedText& self, const Parameters& given, size_t first, size_t* begin, size_t* end) {
  const auto size = static_cast<int64_t>(count_characters(self.bytes()));
  const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
  const int64_t start = given.integer(first, 0);
  if (start > size) return false;
  const int64_t from = clamp(std::max(start, -size)), to = clamp(std::max(given.integer(first + 1, size), -size));
  *begin = character_offset(self.bytes(), static_cast<size_t>(from));
  *end = character_offset(self.bytes(), static_cast<size_t>(to));
  return from <= to;
}

template <bool kStart>
Value starts_or_ends(Context& context, const MarkedText& self, const Arguments& arguments) {
  const Parameters given(kStart ? "startswith" : "endswith", arguments, {"prefix", "start", "end"}, 1);
  size_t begin = 0, end = 0;
  if (!byte_range(self, given, 1, &begin, &end)) return false;
  const std::string_view part = std::string_view(self.bytes()).substr(begin, end - begin);
  const auto matches = [&](const Value& value) {
    require_defined(value);
    const MarkedText* text = as_text(value);
    if (text == nullptr) raise("{} needs a string or a tuple of strings", kStart ? "startswith" : "endswith");
    return kStart ? part.starts_with(text->bytes()) : part.ends_with(text->bytes());
  };
  const auto* tuple = std::get_if<std::shared_ptr<Sequence>>(given[0]);
  if (tuple == nullptr || (*tuple)->kind != SequenceKind::tuple) return matches(*given[0]);
  context.charge_steps((*tuple)->items.size());
  return std::any_of((*tuple)->items.begin(), (*tuple)->items.end(), matches);
}

template <bool kRight, bool kMustExist>
Value find(Context& context, const MarkedText& self, const Arguments& arguments) {
  const Parameters given("find", arguments, {"sub", "start", "end"}, 1);
  const MarkedText* part = given.text(0);
  if (part == nullptr) raise("find() needs a string, got 'NoneType'");
  context.charge_steps(self.size() / 64);
  size_t begin = 0, end = 0;
  size_t found = std::string::npos;
  if (byte_range(self, given, 1, &begin, &end)) {
    const std::string_view range = std::string_view(self.bytes()).substr(begin, end - begin);
    found = kRight ? rfind_bytes(range, part->bytes()) : find_bytes(range, part->bytes());
  }
  if (found == std::string::npos) {
    if (kMustExist) raise("substring not found");
    return int64_t{-1};
  }
  return static_cast<int64_t>(count_characters(std::string_view(self.bytes()).substr(0, begin + found)));
}

Value count(Context& context, const MarkedText& self, const Arguments& arguments) {
  const Parameters given("count", arguments, {"sub", "start", "end"}, 1);
  const MarkedText* part = given.text(0);
  if (part == nullptr) raise("count() needs a string, got 'NoneType'");
  context.charge_steps(self.size() / 64);
  size_t begin = 0, end = 0;
  if (!byte_range(self, given, 1, &begin, &end)) return int64_t{0};
  const std::string_view range = std::string_view(self.bytes()).substr(begin, end - begin);
  if (part->empty()) return static_cast<int64_t>(count_characters(range)) + 1;
  int64_t number = 0;
  for (size_t at = find_bytes(range, part->bytes()); at != std::string_view::npos;
       at = find_bytes(range, part->bytes(), at + part->size())) {
    ++number;
  }
  return number;
}

Value replace(Context& context, const MarkedText& self, const Arguments& arguments) {
  const Parameters given("replace", arguments, {"old", "new", "count"}, 2);
  const MarkedText* from = given.text(0);
  const MarkedText* to = given.text(1);
  if (from == nullptr || to == nullptr) raise("replace() needs strings, got 'NoneType'");
  return text_value(context, replaced(context, self, from->bytes(), *to, given.integer(2, -1)));
}

Value join(Context& context, const MarkedText& self, const Arguments& arguments) {
  const Parameters given("join", arguments, {"iterable"}, 1);
  const auto items = iterate(context, *given[0]);
  MarkedText out;
  for (size_t i = 0; i < items->items.size(); ++i) {
    const MarkedText* text = as_text(items->items[i]);
    if (text == nullptr) raise("sequence item {}: expected str instance, {} found", i, type_name(items->items[i]));
    context.charge_text(text->size() + self.size());
    if (out.size() > context.limits.text_bytes) context.charge_text(out.size());
    if (i > 0) out.append(self);
    out.append(*text);
  }
  return text_value(context, std::move(out));
}

// `fits` of every character, and at least one.
template <bool (*kFits)(char32_t)>
Value all_are(Context& context, const MarkedText& self, const Arguments&) {
  context.charge_steps(self.size() / 64);
  for (size_t i = 0, size = 1; i < self.size(); i += size) {
    if (!kFits(code_point_at(self.bytes(), i, &size))) return false;
  }
  return !self.empty();
}

// str.expandtabs: columns count from the last line break.
Value expand_tabs(Context& context, const MarkedText& self, const Arguments& arguments) {
  const int64_t width = Parameters("expandtabs", arguments, {"tabsize"}).integer(0, 8);
  MarkedText out;
  int64_t column = 0;
  for (size_t i = 0, size = 1; i < self.size(); i += size) {
    const char32_t code = code_point_at(self.bytes(), i, &size);
    if (code == '\t') {
      const int64_t blanks = width > 0 ? width - column % width : 0;
      context.charge_text(out.size() + static_cast<uint64_t>(blanks));
      out.append(std::string(static_cast<size_t>(blanks), ' '), self.from_template_at(i));
      column += blanks;
    } else {
      out.append_slice(self, i, i + size);
      column = code == '\n' || code == '\r' ? 0 : column + 1;
    }
  }
  return text_value(context, std::move(out));
}

// str.translate with a dict: code points to code points, texts or None.
Value translate(Context& context, const MarkedText& self, const Arguments& arguments) {
  const Value table = *Parameters("translate", arguments, {"table"}, 1)[0];
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&table);
  if (dict == nullptr) raise("translate() needs a dict, got '{}'", type_name(table));
  MarkedText out;
  for (size_t i = 0, size = 1; i < self.size(); i += size) {
    const char32_t code = code_point_at(self.bytes(), i, &size);
    const Value* to = find_key(context, **dict, Value(static_cast<int64_t>(code)));
    if (to == nullptr) {
      out.append_slice(self, i, i + size);
    } else if (const MarkedText* text = as_text(*to)) {
      context.charge_text(text->size());
      if (out.size() > context.limits.text_bytes) context.charge_text(out.size());
      out.append(*text);
    } else if (const auto number = as_integer(*to); number && *number >= 0 && *number <= 0x10FFFF) {
      std::string character;
      append_code_point(character, static_cast<char32_t>(*number));
      out.append(character, self.from_template_at(i));
    } else if (!is_none(*to)) {
      raise("character mapping must be in range(0x110000), return None or str");
    }
  }
  return text_value(context, std::move(out));
}

// Upper case begins each word and nothing else is upper case; at least one word.
Value is_title(Context&, const MarkedText& self, const Arguments&) {
  bool any = false, inside = false;
  for (size_t i = 0, size = 1; i < self.size(); i += size) {
    const char32_t code = code_point_at(self.bytes(), i, &size);
    const bool upper = is_upper(code), lower = is_lower(code);
    if ((upper && inside) || (lower && !inside)) return false;
    inside = upper || lower;
    any |= inside;
  }
  return any;
}

Value is_identifier(Context&, const MarkedText& self, const Arguments&) {
  for (size_t i = 0, size = 1; i < self.size(); i += size) {
    const char32_t code = code_point_at(self.bytes(), i, &size);
    if (code != '_' && !is_letter(code) && !(i > 0 && is_decimal(code))) return false;
  }
  return !self.empty();
}

bool is_ascii(char32_t code) {
  return code < 0x80;
}

// The same of every character; true of the empty text.
template <bool (*kFits)(char32_t)>
Value none_is_not(Context& context, const MarkedText& self, const Arguments& arguments) {
  return self.empty() || is_true(all_are<kFits>(context, self, arguments));
}

bool is_letter_or_number(char32_t code) {
  return is_letter(code) || is_numeric(code);
}

// At least one letter with case, and none of the other case.
template <bool kUpper>
Value has_case(Context& context, const MarkedText& self, const Arguments&) {
  context.charge_steps(self.size() / 64);
  bool any = false;
  for (size_t i = 0, size = 1; i < self.size(); i += size) {
    const char32_t code = code_point_at(self.bytes(), i, &size);
    if (kUpper ? is_lower(code) : is_upper(code)) return false;
    any |= kUpper ? is_upper(code) : is_lower(code);
  }
  return any;
}

// Fills up to `width` characters: with `left` fillers before and the rest after.
template <int kSide>  // -1: text at the left, 0: centre, 1: text at the right
Value justify(Context& context, const MarkedText& self, const Arguments& arguments) {
  const Parameters given("justify", arguments, {"width", "fillchar"}, 1);
  const int64_t missing = given.integer(0, 0) - static_cast<int64_t>(count_characters(self.bytes()));
  const MarkedText space(" ", true);
  const MarkedText* fill = given.text(1) == nullptr ? &space : given.text(1);
  if (count_characters(fill->bytes()) != 1) raise("The fill character must be exactly one character long");
  if (missing <= 0) return text_value(context, self);
  const auto total = static_cast<uint64_t>(missing);
  context.charge_text(total > context.limits.text_bytes ? total : self.size() + total * fill->size());
  // Python puts the odd filler of centred text left when width is odd.
  const uint64_t odd = total % 2 & static_cast<uint64_t>(given.integer(0, 0)) % 2;
  const uint64_t left = kSide < 0 ? 0 : kSide > 0 ? total : total / 2 + odd;
  MarkedText out;
  for (uint64_t i = 0; i < left; ++i) out.append(*fill);
  out.append(self);
  for (uint64_t i = left; i < total; ++i) out.append(*fill);
  return text_value(context, std::move(out));
}

Value zero_fill(Context& context, const MarkedText& self, const Arguments& arguments) {
  const int64_t width = Parameters("zfill", arguments, {"width"}, 1).integer(0, 0);
  const int64_t missing = width - static_cast<int64_t>(count_characters(self.bytes()));
  if (missing <= 0) return text_value(context, self);
  context.charge_text(static_cast<uint64_t>(missing) + self.size());
  const size_t sign = !self.empty() && (self.bytes()[0] == '-' || self.bytes()[0] == '+') ? 1 : 0;
  MarkedText out = self.slice(0, sign);
  out.append(std::string(static_cast<size_t>(missing), '0'), true);
  out.append_slice(self, sign, self.size());
  return text_value(context, std::move(out));
}

template <bool kPrefix>
Value remove_part(Context& context, const MarkedText& self, const Arguments& arguments) {
  const MarkedText* part = Parameters("remove", arguments, {"part"}, 1).text(0);
  if (part == nullptr) raise("a string is needed, got 'NoneType'");
  const bool has = kPrefix ? self.bytes().starts_with(part->bytes()) : self.bytes().ends_with(part->bytes());
  if (!has) return text_value(context, self);
  return text_value(context,
                    kPrefix ? self.slice(part->size(), self.size()) : self.slice(0, self.size() - part->size()));
}

template <bool kRight>
Value partition(Context& context, const MarkedText& self, const Arguments& arguments) {
  const MarkedText* part = Parameters("partition", arguments, {"sep"}, 1).text(0);
  if (part == nullptr || part->empty()) raise("partition() needs a separator that is not empty");
  const size_t found = kRight ? rfind_bytes(self.bytes(), part->bytes()) : find_bytes(self.bytes(), part->bytes());
  const size_t begin = found != std::string::npos ? found : kRight ? 0 : self.size();
  const size_t end = found != std::string::npos ? found + part->size() : begin;
  return make_sequence(context,
                       {make_text(context, self.slice(0, begin)), make_text(context, self.slice(begin, end)),
                        make_text(context, self.slice(end, self.size()))},
                       SequenceKind::tuple);
}

bool has_any_case(char32_t code) {
  return is_upper(code) || is_lower(code);
}

const std::map<std::string_view, Method>& text_methods() {
  static const std::map<std::string_view, Method> methods = {
      {"strip", strip<true, true>},
      {"lstrip", strip<true, false>},
      {"rstrip", strip<false, true>},
      {"split", split_method<false>},
      {"rsplit", split_method<true>},
      {"startswith", starts_or_ends<true>},
      {"endswith", starts_or_ends<false>},
      {"find", find<false, false>},
      {"rfind", find<true, false>},
      {"index", find<false, true>},
      {"rindex", find<true, true>},
      {"count", count},
      {"replace", replace},
      {"join", join},
      {"isspace", all_are<is_space>},
      {"isdigit", all_are<is_decimal>},
      {"isdecimal", all_are<is_decimal>},
      {"isnumeric", all_are<is_numeric>},
      {"isalpha", all_are<is_letter>},
      {"isalnum", all_are<is_letter_or_number>},
      {"isupper", has_case<true>},
      {"islower", has_case<false>},
      {"istitle", is_title},
      {"isascii", none_is_not<is_ascii>},
      {"isprintable", none_is_not<is_printable>},
      {"isidentifier", is_identifier},
      {"expandtabs", expand_tabs},
      {"translate", translate},
      {"ljust", justify<-1>},
      {"center", justify<0>},
      {"rjust", justify<1>},
      {"zfill", zero_fill},
      {"removeprefix", remove_part<true>},
      {"removesuffix", remove_part<false>},
      {"partition", partition<false>},
      {"rpartition", partition<true>},
      {"upper",
       [](Context& c, const MarkedText& s, const Arguments&) { return text_value(c, change_case(s, Case::upper)); }},
      {"lower",
       [](Context& c, const MarkedText& s, const Arguments&) { return text_value(c, change_case(s, Case::lower)); }},
      {"casefold",
       [](Context& c, const MarkedText& s, const Arguments&) { return text_value(c, change_case(s, Case::fold)); }},
      {"capitalize", [](Context& c, const MarkedText& s, const Arguments&) { return text_value(c, capitalized(s)); }},
      {"title",
       [](Context& c, const MarkedText& s, const Arguments&) {
         return text_value(c, map_case(s, [inside = false](char32_t code) mutable {
                             const Case wanted = inside ? Case::lower : Case::title;
                             inside = has_any_case(code);
                             return wanted;
                           }));
       }},
      {"swapcase",
       [](Context& c, const MarkedText& s, const Arguments&) {
         return text_value(c, map_case(s, [](char32_t code) { return is_upper(code) ? Case::lower : Case::upper; }));
       }},
      {"splitlines",
       [](Context& c, const MarkedText& s, const Arguments& arguments) {
         const bool keep = Parameters("splitlines", arguments, {"keepends"}).flag(0, false);
         return make_sequence(c, split_lines(c, s, keep));
       }},
      {"format",
       [](Context& c, const MarkedText& s, const Arguments& arguments) { return format_braces(c, s, arguments); }},
      {"format_map",
       [](Context& c, const MarkedText& s, const Arguments& arguments) {
         const Value given = *Parameters("format_map", arguments, {"mapping"}, 1)[0];
         const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&given);
         if (dict == nullptr) raise("format_map() needs a dict, got '{}'", type_name(given));
         Arguments named;
         for (const auto& [key, value] : (*dict)->entries) {
           if (as_text(key) != nullptr) named.named.emplace_back(as_text(key)->bytes(), value);
         }
         return format_braces(c, s, named);
       }},
  };
  return methods;
}

}  // namespace

std::optional<Value> find_method(Context& context, const Value& object, std::string_view name) {
  context.charge_steps();
  if (const Text* text = std::get_if<Text>(&object)) {
    const auto found = text_methods().find(name);
    if (found == text_methods().end()) return std::nullopt;
    return make_function(
        context, object, std::string(name), [text = *text, &method = *found](Context& c, const Arguments& arguments) {
          c.charge_steps(text->size() / 256);
          if (!text->is_markup()) return method.second(c, *text, arguments);
          return markup_result(c, method.second(c, *text, markup_arguments(c, method.first, arguments)));
        });
  }
  return find_container_method(context, object, name);
}

}  // namespace gale::text::jinja
