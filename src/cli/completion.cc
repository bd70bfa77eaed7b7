// `gale completion`: scripts that complete commands and options in bash and zsh, made from the same tables as the help.
#include "cli/commands.h"
#include "cli/terminal.h"

namespace gale::cli {
namespace {

std::string join_options(const Command& command) {
  std::string out;
  for (const Option& option : command.options) out += fmt::format("{} ", option.name);
  return out + "--help";
}

std::string spaced(std::string_view choices) {
  std::string out(choices);
  for (char& c : out) c = c == '|' ? ' ' : c;
  return out;
}

// Words for the value of an option, else the options of the command; everything else completes as a file name.
std::string bash_script() {
  std::string commands, cases, choices;
  for (const Command* command : all_commands()) {
    commands += fmt::format("{} ", command->name);
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->name, join_options(*command));
    for (const Option& option : command->options) {
      if (option.choices.empty()) continue;
      const std::string line = fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
                                           option.name, spaced(option.choices));
      if (choices.find(line) == std::string::npos) choices += line;
    }
  }
  return fmt::format(R"(# bash completion for gale: source <(gale completion bash)
_gale() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{}--help --version" -- "$current"))
    return
  fi
  case "$previous" in
{}  esac
  case "${{COMP_WORDS[1]}}" in
{}  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _gale gale
)",
                     commands, choices, cases);
}

std::string zsh_quote(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string zsh_script() {
  std::string commands, cases;
  for (const Command* command : all_commands()) {
    commands += fmt::format("    '{}:{}'\n", command->name, zsh_quote(command->summary));
    cases += fmt::format("    {})\n      _arguments", command->name);
    for (const Option& option : command->options) {
      cases += fmt::format(" \\\n        '{}[{}]", option.name, zsh_quote(option.help));
      if (!option.choices.empty()) {
        cases += fmt::format(":{}:({})", option.value, spaced(option.choices));
      } else if (!option.value.empty()) {
        cases += fmt::format(":{}:{}", option.value, option.value == "FILE" ? "_files" : "");
      }
      cases += "'";
    }
    cases += " \\\n        '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef gale
# zsh completion for gale: source <(gale completion zsh)
_gale() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
compdef _gale gale
)",
                     commands, cases);
}

int run(const Arguments& arguments) {
  const auto& operands = arguments.operands();
  if (operands.size() != 1 || (operands[0] != "bash" && operands[0] != "zsh")) {
    return usage_error("for which shell? usage: gale completion bash|zsh");
  }
  const Status status = write_output(operands[0] == "bash" ? bash_script() : zsh_script());
  return status ? kExitSuccess : report(status.error());
}

}  // namespace

const Command kCompletionCommand = {
    "completion",
    "bash|zsh",
    "print a script that completes commands and options",
    "Add to ~/.bashrc: source <(gale completion bash)\nAdd to ~/.zshrc:  source <(gale completion zsh)",
    {},
    run};

}  // namespace gale::cli
