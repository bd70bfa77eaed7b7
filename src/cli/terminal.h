// The terminal: checked output, interruption, one-line progress, line editing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gale::cli {

// Exit statuses of the program.
constexpr int kExitSuccess = 0;
constexpr int kExitFailure = 1;        // a file, model or request was wrong, or output couldn't be written
constexpr int kExitUsage = 2;          // the command line was wrong
constexpr int kExitInterrupted = 130;  // Ctrl-C, as shells say it

// Writes all of `text` to standard output at once. Error: io, with the reason (closed pipe, disk full).
Status write_output(std::string_view text);
// Writes a whole file, replacing what was there; "-" is standard output. Error: io, with the path and the reason.
Status write_file(const std::string& path, std::string_view content);
// One line to standard error: "gale: error: ...".
void print_error(std::string_view message);
void print_note(std::string_view message);

bool output_is_terminal();  // standard output
bool error_is_terminal();   // standard error
bool input_is_terminal();

// Ctrl-C sets `interrupted()`; a second one before it was looked at ends the program with 130. SIGPIPE and SIGXFSZ are
// ignored, so that a closed pipe and a file beyond the limit of its size are errors of what writes.
void install_signal_handlers();
std::atomic<bool>& interrupted();

// "prompt 1024 / 4096 tokens" in one line of standard error, only if that is a terminal and the work takes longer than
// a quarter of a second. Gone when destroyed.
class Progress {
 public:
  explicit Progress(std::string_view what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(uint64_t done, uint64_t total);

 private:
  std::string what_;
  int64_t started_us_ = 0;
  bool shown_ = false;
};

// Reads lines with editing and history where the library for it was there at build time and standard input is a
// terminal.
class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  // Without the newline; nullopt at the end of input or on Ctrl-C.
  std::optional<std::string> read(const char* prompt);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Everything that is left on standard input. Errors: io, cancelled.
Result<std::string> read_input();
// A whole file, or what a shell's <(command) gives; "-" is standard input. Errors: io, with the path; cancelled.
Result<std::string> read_file(const std::string& path);

}  // namespace gale::cli
