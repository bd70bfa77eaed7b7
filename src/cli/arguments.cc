// Parsing of command lines, number lists, and help texts.
#include "cli/arguments.h"

#include <algorithm>
#include <charconv>

namespace gale::cli {
namespace {

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Choices are written in lower case, but found in any: Q8_0 is how types are called elsewhere.
std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// The option that a user probably meant: one that begins like the given word.
std::string suggestion(const Command& command, std::string_view word) {
  for (size_t length = word.size(); length > 3; --length) {
    for (const Option& option : command.options) {
      if (option.name.substr(0, length) == word.substr(0, length))
        return fmt::format("; did you mean {}?", option.name);
    }
  }
  return fmt::format("; 'gale {} --help' lists the options", command.name);
}

}  // namespace

Result<Arguments> Arguments::parse(const Command& command, std::span<char* const> words) {
  Arguments out;
  bool options_end = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (options_end || word.size() < 2 || word[0] != '-') {
      out.operands_.emplace_back(word);
      continue;
    }
    if (word == "--") {
      options_end = true;
      continue;
    }
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const auto option =
        std::find_if(command.options.begin(), command.options.end(), [&](const Option& o) { return o.name == name; });
    if (option == command.options.end()) {
      return fail(ErrorKind::invalid_input, "unknown option '{}'{}", name, suggestion(command, name));
    }
    std::string value;
    if (option->value.empty()) {
      if (equals != std::string_view::npos) return fail(ErrorKind::invalid_input, "option {} takes no value", name);
    } else if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < words.size()) {
      value = words[++i];
    } else {
      return fail(ErrorKind::invalid_input, "option {} needs a value: {} {}", name, name, option->value);
    }
    if (!option->choices.empty()) {
      const auto choices = split(option->choices, '|');
      const auto choice = std::find(choices.begin(), choices.end(), lower_case(value));
      if (choice == choices.end()) {
        return fail(ErrorKind::invalid_input, "option {} is '{}', but must be one of {}", name, value, option->choices);
      }
      value = *choice;
    }
    out.values_[std::string(name)].push_back(std::move(value));
  }
  return out;
}

std::optional<std::string> Arguments::text(std::string_view name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return std::nullopt;
  return it->second.back();
}

std::vector<std::string> Arguments::texts(std::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::vector<std::string>{} : it->second;
}

Result<uint64_t> Arguments::integer(std::string_view name, uint64_t fallback, uint64_t least, uint64_t most) const {
  const auto word = text(name);
  if (!word) return fallback;
  const auto value = parse_whole<uint64_t>(*word);
  if (!value || *value < least || *value > most) {
    return fail(ErrorKind::invalid_input, "option {} is '{}', but must be a whole number from {} to {}", name, *word,
                least, most);
  }
  return *value;
}

Result<double> Arguments::number(std::string_view name, double fallback, double least, double most) const {
  const auto word = text(name);
  if (!word) return fallback;
  const auto value = parse_whole<double>(*word);
  if (!value || !(*value >= least && *value <= most)) {
    return fail(ErrorKind::invalid_input, "option {} is '{}', but must be a number from {} to {}", name, *word, least,
                most);
  }
  return *value;
}

Result<std::vector<int32_t>> parse_token_list(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-', 1);
    const auto first = parse_whole<int32_t>(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_whole<int32_t>(part.substr(dash + 1));
    if (!first || !last || *last < *first || int64_t{*last} - *first > 1 << 20) {
      return fail(ErrorKind::invalid_input, "'{}' is not a token id or a range of them; write for example 1,2,3 or 5-9",
                  part);
    }
    for (int32_t token = *first;; ++token) {
      tokens.push_back(token);
      if (token == *last) break;
    }
  }
  return tokens;
}

Result<std::vector<uint32_t>> parse_number_list(std::string_view text) {
  std::vector<uint32_t> numbers;
  for (std::string_view part : split(text, ',')) {
    const std::string_view whole = part;
    const bool thousands = !part.empty() && (part.back() == 'k' || part.back() == 'K');
    if (thousands) part.remove_suffix(1);
    const auto value = parse_whole<uint32_t>(part);
    if (!value || *value > (thousands ? 1u << 20 : 1u << 22))
      return fail(ErrorKind::invalid_input, "'{}' is not a whole number like 0, 512 or 4k", whole);
    numbers.push_back(thousands ? *value * 1024 : *value);
  }
  return numbers;
}

std::string help(const Command& command) {
  std::string out = fmt::format("{}\n\nusage: gale {} {}\n", command.summary, command.name, command.operands);
  if (!command.details.empty()) out += fmt::format("\n{}\n", command.details);
  if (command.options.empty()) return out;
  size_t width = 0;
  for (const Option& o : command.options) width = std::max(width, o.name.size() + 1 + o.value.size());
  out += "\noptions:\n";
  for (const Option& o : command.options) {
    const std::string left = o.value.empty() ? std::string(o.name) : fmt::format("{} {}", o.name, o.value);
    out +=
        fmt::format("  {:<{}}  {}{}\n", left, width, o.help, o.choices.empty() ? "" : fmt::format(" ({})", o.choices));
  }
  return out;
}

}  // namespace gale::cli
