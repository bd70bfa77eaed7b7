// Finds the command, parses its options, and reports errors.
#include <algorithm>
#include <new>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/terminal.h"

namespace gale::cli {
namespace {

constexpr const Command* kCommands[] = {&kRunCommand,     &kBenchCommand,  &kInspectCommand,   &kTokenizeCommand,
                                        &kConvertCommand, &kLogitsCommand, &kCompletionCommand};

std::string overview() {
  std::string out =
      "gale: answers one waiting person as fast as the hardware can\n\nusage: gale COMMAND ...\n\ncommands:\n";
  for (const Command* command : kCommands) out += fmt::format("  {:<11} {}\n", command->name, command->summary);
  out +=
      "\n'gale COMMAND --help' tells more; 'gale --version' the version.\n"
      "example: gale run model.gguf \"Why is the sky blue?\"\n";
  return out;
}

int print(std::string_view text) {
  const Status status = write_output(text);
  return status ? kExitSuccess : report(status.error());
}

}  // namespace

std::span<const Command* const> all_commands() {
  return kCommands;
}

int report(const Error& error) {
  if (error.kind == ErrorKind::cancelled) return kExitInterrupted;
  print_error(error.message);
  return kExitFailure;
}

int usage_error(std::string_view message) {
  print_error(message);
  return kExitUsage;
}

Status check_operands(const Arguments& arguments, const Command& command, size_t least, size_t most,
                      std::string_view question) {
  const auto& operands = arguments.operands();
  const auto usage = fmt::format("usage: gale {} {}", command.name, command.operands);
  if (operands.size() < least) return fail(ErrorKind::invalid_input, "{} {}", question, usage);
  if (operands.size() > most) return fail(ErrorKind::invalid_input, "'{}' is too much; {}", operands[most], usage);
  return {};
}

void note_lost(size_t bytes) {
  if (bytes == 0) return;
  print_note(fmt::format("gale: {} of the prompt can't be spelled with this vocabulary and {} replaced",
                         bytes == 1 ? "1 byte" : fmt::format("{} bytes", bytes), bytes == 1 ? "was" : "were"));
}

Result<engine::EngineOptions> engine_options(const Arguments& arguments) {
  engine::EngineOptions options;
  const auto threads = arguments.integer("--threads", 0, 1, 1024);
  if (!threads) return threads.error();
  options.threads = static_cast<int>(*threads);
  const auto context = arguments.integer("--context", 0, 1, UINT32_MAX);
  if (!context) return context.error();
  options.context = static_cast<uint32_t>(*context);
  if (const auto type = arguments.text("--cache-type")) {
    const auto parsed = exec::parse_cache_type(*type);
    if (!parsed) return parsed.error();
    options.cache_type = *parsed;
  }
  if (arguments.text("--executor") == "reference") options.executor = engine::ExecutorKind::reference;
  if (const auto isa = arguments.text("--isa")) {
    const auto parsed = parse_isa(*isa);
    if (!parsed) return parsed.error();
    if (*parsed > detect_isa()) {
      return fail(ErrorKind::unsupported, "this processor does not have {}; the best it has is {}", *isa,
                  name(detect_isa()));
    }
    options.isa = *parsed;
  }
  return options;
}

int run_program(std::span<char* const> words) {
  install_signal_handlers();
  set_log(LogLevel::warning, [](LogLevel, std::string_view message) { print_note(fmt::format("gale: {}", message)); });
  if (words.size() < 2) {
    print_note(overview());
    return kExitUsage;
  }
  const std::string_view first = words[1];
  if (first == "--help" || first == "-h" || first == "help") return print(overview());
  if (first == "--version") return print("gale " GALE_VERSION "\n");
  const auto command =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Command* c) { return c->name == first; });
  if (command == std::end(kCommands)) {
    print_error(fmt::format("there is no command '{}'; 'gale --help' lists them", first));
    return kExitUsage;
  }
  const std::span<char* const> rest = words.subspan(2);
  for (const std::string_view word : rest) {
    if (word == "--") break;
    if (word == "--help" || word == "-h") return print(help(**command));
  }
  const auto arguments = Arguments::parse(**command, rest);
  if (!arguments) {
    print_error(arguments.error().message);
    return kExitUsage;
  }
  try {
    return (*command)->run(*arguments);
  } catch (const std::bad_alloc&) {  // where nothing larger was counted before
    print_error("there is not enough memory");
    return kExitFailure;
  }
}

}  // namespace gale::cli
