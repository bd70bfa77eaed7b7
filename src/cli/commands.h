// The commands of the program, one file each.
#pragma once

#include <algorithm>
#include <array>

#include "cli/arguments.h"
#include "engine/engine.h"

namespace gale::cli {

extern const Command kRunCommand;
extern const Command kBenchCommand;
extern const Command kInspectCommand;
extern const Command kTokenizeCommand;
extern const Command kLogitsCommand;
extern const Command kConvertCommand;
extern const Command kCompletionCommand;

// All of them, in the order of the help.
std::span<const Command* const> all_commands();

// Options that every command that loads a model has, and their meaning.
inline constexpr Option kEngineOptions[] = {
    {"--threads", "N", "threads (default: the physical cores that this process may use)"},
    {"--context", "N", "positions of a session (default: what the model was trained for, as far as memory goes)"},
    {"--cache-type", "TYPE", "type of cached keys and values (default f16)", "f16|f32|q8_0"},
    {"--executor", "NAME", "who computes (default cpu)", "cpu|reference"},
    {"--isa", "NAME", "instruction set (default: the best there is)", "scalar|avx2|avx512"},
};
// A command's own options and behind them these.
template <size_t N>
constexpr auto with_engine_options(const Option (&own)[N]) {
  std::array<Option, N + std::size(kEngineOptions)> all{};
  std::copy(std::begin(kEngineOptions), std::end(kEngineOptions),
            std::copy(std::begin(own), std::end(own), all.begin()));
  return all;
}
Result<engine::EngineOptions> engine_options(const Arguments& arguments);

// Prints the error and gives the exit status.
int report(const Error& error);
// The same for what is wrong with the command line.
int usage_error(std::string_view message);
// Whether there are as many operands as the command takes; else the message for usage_error, `question` if there are
// too few.
Status check_operands(const Arguments& arguments, const Command& command, size_t least, size_t most,
                      std::string_view question = "which model?");
// Says how many bytes of a prompt could not be spelled; nothing if it is none.
void note_lost(size_t bytes);

// The whole program: argv[0] is its name.
int run_program(std::span<char* const> words);

}  // namespace gale::cli
