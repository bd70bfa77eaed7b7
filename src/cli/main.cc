// The `gale` program.
#include "cli/commands.h"

int main(int argc, char** argv) {
  return gale::cli::run_program({argv, static_cast<size_t>(argc)});
}
