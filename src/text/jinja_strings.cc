// Whole-string operations that methods and filters share; every one keeps the marks of origin.
#include "text/jinja_operations.h"

namespace gale::text::jinja {

namespace {

void append_case(std::string& out, std::string_view bytes, char32_t code, Case wanted) {
  constexpr char32_t kSharpS = 0xDF;
  if (code == kSharpS && wanted != Case::lower) {
    out += wanted == Case::upper ? "SS" : wanted == Case::title ? "Ss" : "ss";
    return;
  }
  const char32_t changed = wanted == Case::upper   ? to_upper(code)
                           : wanted == Case::title ? to_title(code)
                                                   : to_lower(code);
  if (changed == code) {
    out.append(bytes);  // also keeps bytes that are not UTF-8
  } else {
    append_code_point(out, changed);
  }
}

}  // namespace

MarkedText map_case(const MarkedText& text, const std::function<Case(char32_t)>& wanted) {
  MarkedText out;
  text.for_each_run(0, text.size(), [&](std::string_view run, bool from_template) {
    std::string bytes;
    for (size_t i = 0, size = 1; i < run.size(); i += size) {
      const char32_t code = code_point_at(run, i, &size);
      append_case(bytes, run.substr(i, size), code, wanted(code));
    }
    out.append(bytes, from_template);
  });
  return out;
}

MarkedText change_case(const MarkedText& text, Case wanted) {
  return map_case(text, [wanted](char32_t) { return wanted; });
}

MarkedText capitalized(const MarkedText& text) {
  return map_case(text,
                  [first = true](char32_t) mutable { return std::exchange(first, false) ? Case::title : Case::lower; });
}

MarkedText title_case(const MarkedText& text) {
  return map_case(text, [first = true](char32_t code) mutable {
    const bool begins = first;
    first = is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    return begins ? Case::upper : Case::lower;
  });
}

MarkedText replaced(Context& context, const MarkedText& text, std::string_view from, const MarkedText& to,
                    int64_t count) {
  const std::string& bytes = text.bytes();
  context.charge_text(bytes.size());
  MarkedText out;
  size_t copied = 0, at = 0;
  while (count != 0) {
    size_t found = at;
    if (from.empty()) {  // before every character and at the end
      if (at > bytes.size()) break;
    } else {
      found = find_bytes(bytes, from, at);
      if (found == std::string::npos) break;
    }
    out.append_slice(text, copied, found);
    if (out.size() + to.size() > context.limits.text_bytes) context.charge_text(out.size() + to.size());
    context.charge_steps(1 + to.size() / 256);
    out.append(to);
    copied = found + from.size();
    at = !from.empty() ? copied : found < bytes.size() ? found + character_size(bytes, found) : found + 1;
    if (count > 0) --count;
  }
  out.append_slice(text, std::min(copied, bytes.size()), bytes.size());
  return out;
}

MarkedText stripped(const MarkedText& text, const MarkedText* characters, bool left, bool right) {
  const std::string& bytes = text.bytes();
  std::u32string set;
  if (characters != nullptr) {
    for (size_t i = 0, size = 1; i < characters->size(); i += size) {
      set += code_point_at(characters->bytes(), i, &size);
    }
  }
  const auto goes = [&](char32_t code) {
    return characters == nullptr ? is_space(code) : set.find(code) != std::u32string::npos;
  };
  size_t begin = 0;
  for (size_t size = 1; left && begin < bytes.size() && goes(code_point_at(bytes, begin, &size)); begin += size) {
  }
  size_t end = bytes.size();
  while (right && end > begin) {
    size_t last = end - 1;  // start of the last character
    while (last > begin && end - last < 4 && (static_cast<unsigned char>(bytes[last]) & 0xC0) == 0x80) --last;
    size_t size = 1;
    if (last + character_size(bytes, last) != end) last = end - 1;
    if (!goes(code_point_at(bytes, last, &size))) break;
    end = last;
  }
  return text.slice(begin, end);
}

std::vector<Value> split_lines(Context& context, const MarkedText& text, bool keep_ends) {
  const std::string& bytes = text.bytes();
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t i = 0, size = 1; i < bytes.size();) {
    const char32_t code = code_point_at(bytes, i, &size);
    const bool ends = (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
                      code == 0x2028 || code == 0x2029;
    size_t next = i + size;
    if (ends) {
      if (code == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      lines.push_back(make_text(context, text.slice(begin, keep_ends ? next : i)));
      begin = next;
    }
    i = next;
  }
  if (begin < bytes.size()) lines.push_back(make_text(context, text.slice(begin, bytes.size())));
  context.charge_steps(lines.size());
  return lines;
}

}  // namespace gale::text::jinja
