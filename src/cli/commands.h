// The commands of the program, one file each.
#pragma once

#include "cli/arguments.h"
#include "engine/engine.h"

namespace gale::cli {

extern const Command kRunCommand;
extern const Command kBenchCommand;
extern const Command kInspectCommand;
extern const Command kLogitsCommand;
extern const Command kCompletionCommand;

// All of them, in the order of the help.
std::span<const Command* const> all_commands();

// Options that every command that loads a model has, and their meaning.
#define GALE_ENGINE_OPTIONS                                                                                          \
  {"--threads", "N", "threads (default: the physical cores that this process may use)"},                             \
      {"--context", "N", "positions of a session (default: what the model was trained for, as far as memory goes)"}, \
      {"--cache-type", "TYPE", "type of cached keys and values (default f16)", "f16|f32|q8_0"},                      \
      {"--executor", "NAME", "who computes (default cpu)", "cpu|reference"}, {                                       \
    "--isa", "NAME", "instruction set (default: the best there is)", "scalar|avx2|avx512"                            \
  }
Result<engine::EngineOptions> engine_options(const Arguments& arguments);

// Prints the error and gives the exit status.
int report(const Error& error);

// The whole program: argv[0] is its name.
int run_program(std::span<char* const> words);

}  // namespace gale::cli
