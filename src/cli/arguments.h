// Command-line arguments: tables of options, parsed and checked, and the help that is printed from the same tables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gale::cli {

struct Option {
  std::string_view name;   // "--threads"
  std::string_view value;  // "N": what follows; empty: a flag
  std::string_view help;
  std::string_view choices = {};  // "cpu|reference": the values there are, in lower case; text() gives one of these
};

struct Command {
  std::string_view name;      // "run"
  std::string_view operands;  // "MODEL [PROMPT]"
  std::string_view summary;   // one line
  std::string_view details;   // paragraphs for --help
  std::span<const Option> options;
  int (*run)(const class Arguments& arguments);
};

class Arguments {
 public:
  // Options may stand anywhere; `--name value` and `--name=value`; everything behind `--` is an operand.
  // Errors name the option and what was expected.
  static Result<Arguments> parse(const Command& command, std::span<char* const> words);

  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  std::optional<std::string> text(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;  // an option that may be repeated
  // Absent: `fallback`. Errors: not a number, out of range.
  Result<uint64_t> integer(std::string_view name, uint64_t fallback, uint64_t least, uint64_t most) const;
  Result<double> number(std::string_view name, double fallback, double least, double most) const;
  const std::vector<std::string>& operands() const { return operands_; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> operands_;
};

// "0,17,3" and "1-4"; errors name the part that isn't a number.
Result<std::vector<int32_t>> parse_token_list(std::string_view text);
// "0,1k,4096"
Result<std::vector<uint32_t>> parse_number_list(std::string_view text);

std::string help(const Command& command);

}  // namespace gale::cli
