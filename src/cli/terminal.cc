// Output that notices failure, signals, progress and line editing.
#include "cli/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef GALE_LIBEDIT
#include <histedit.h>
#endif

namespace gale::cli {
namespace {

std::atomic<bool> interrupt_flag{false};

extern "C" void on_interrupt(int) {
  if (interrupt_flag.exchange(true)) _exit(kExitInterrupted);  // nobody looked at the first one
}

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Texts of files stand in messages: their control characters must not reach a terminal.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    if (control) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += c;
    }
  }
  return out;
}

Result<std::string> read_all(int descriptor, std::string_view what) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR && !interrupt_flag.load()) continue;
    if (got < 0 && interrupt_flag.load()) return fail(ErrorKind::cancelled, "interrupted while reading {}", what);
    if (got < 0) return fail(ErrorKind::io, "cannot read {}: {}", what, std::strerror(errno));
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

Status write_output(std::string_view text) {
  if (write_all(STDOUT_FILENO, text)) return {};
  return fail(ErrorKind::io, "cannot write the output: {}", std::strerror(errno));
}

Status write_file(const std::string& path, std::string_view content) {
  if (path == "-") return write_output(content);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool written = file >= 0 && write_all(file, content);
  int reason = errno;
  if (file >= 0 && ::close(file) != 0 && written) {
    written = false;
    reason = errno;
  }
  if (written) return {};
  return fail(ErrorKind::io, "cannot write '{}': {}", path, std::strerror(reason));
}

void print_error(std::string_view message) {
  (void)write_all(STDERR_FILENO, fmt::format("gale: error: {}\n", printable(message)));
}
void print_note(std::string_view message) {
  (void)write_all(STDERR_FILENO, fmt::format("{}\n", printable(message)));
}

bool output_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}
bool error_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}
bool input_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a read that waits for input returns
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  sigaction(SIGXFSZ, &action, nullptr);
}

std::atomic<bool>& interrupted() {
  return interrupt_flag;
}

Progress::Progress(std::string_view what) : what_(what), started_us_(now_us()) {}

Progress::~Progress() {
  if (shown_) (void)write_all(STDERR_FILENO, "\r\033[K");
}

void Progress::update(uint64_t done, uint64_t total) {
  constexpr int64_t kQuietUs = 250'000;
  if (!error_is_terminal() || (!shown_ && (now_us() - started_us_ < kQuietUs || done >= total))) return;
  shown_ = true;
  constexpr uint64_t kWidth = 24;
  const uint64_t filled = total == 0 ? kWidth : done * kWidth / total;
  std::string bar;
  for (uint64_t i = 0; i < kWidth; ++i) bar += i < filled ? "━" : "╌";
  (void)write_all(STDERR_FILENO, fmt::format("\r{} {} {} / {}\033[K", what_, bar, done, total));
}

struct LineReader::State {
#ifdef GALE_LIBEDIT
  EditLine* editor = nullptr;
  History* history = nullptr;
  const char* prompt = "";
#endif
};

#ifdef GALE_LIBEDIT
namespace {
// libedit asks for the prompt through a function without context; there is one terminal, hence one prompt.
const char* current_prompt = "";
char* prompt_of(EditLine*) {
  return const_cast<char*>(current_prompt);
}

// One byte of standard input; nullopt at its end and once Ctrl-C was pressed.
std::optional<uint8_t> read_byte() {
  for (;;) {
    uint8_t byte = 0;
    if (interrupt_flag.load()) return std::nullopt;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got == 1) return byte;
    if (got == 0 || errno != EINTR) return std::nullopt;
  }
}

// libedit's own reader goes on waiting after a signal, so that Ctrl-C could not leave the prompt.
int read_character(EditLine*, wchar_t* out) {
  const auto first = read_byte();
  if (!first) return interrupt_flag.load() ? -1 : 0;
  // A Ctrl-D that was typed while the terminal itself edited lines (between two prompts) comes as a zero byte.
  if (*first == 0) return 0;
  const int more = *first < 0xC2 || *first > 0xF4 ? 0 : *first < 0xE0 ? 1 : *first < 0xF0 ? 2 : 3;
  if (more == 0) {
    *out = *first < 0x80 ? static_cast<wchar_t>(*first) : L'\uFFFD';
    return 1;
  }
  uint32_t code = *first & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    const auto next = read_byte();
    if (!next) return interrupt_flag.load() ? -1 : 0;
    if ((*next & 0xC0) != 0x80) {
      *out = L'\uFFFD';
      return 1;
    }
    code = code << 6 | (*next & 0x3Fu);
  }
  const bool valid = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF) &&
                     code >= (more == 1   ? 0x80u
                              : more == 2 ? 0x800u
                                          : 0x10000u);
  *out = valid ? static_cast<wchar_t>(code) : L'\uFFFD';
  return 1;
}
}  // namespace
#endif

LineReader::LineReader() : state_(std::make_unique<State>()) {
#ifdef GALE_LIBEDIT
  if (!input_is_terminal()) return;
  // libedit turns characters into bytes by the locale; without one of UTF-8 only ASCII could be typed.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX < 4) std::setlocale(LC_CTYPE, "C.UTF-8");
  state_->editor = el_init("gale", stdin, stderr, stderr);
  if (state_->editor == nullptr) return;
  HistEvent event;
  state_->history = history_init();
  if (state_->history != nullptr) {
    history(state_->history, &event, H_SETSIZE, 500);
    el_set(state_->editor, EL_HIST, history, state_->history);
  }
  el_set(state_->editor, EL_PROMPT, prompt_of);
  el_set(state_->editor, EL_EDITOR, "emacs");
  el_set(state_->editor, EL_SIGNAL, 0);
  el_set(state_->editor, EL_GETCFN, read_character);
#endif
}

LineReader::~LineReader() {
#ifdef GALE_LIBEDIT
  if (state_->history != nullptr) history_end(state_->history);
  if (state_->editor != nullptr) el_end(state_->editor);
#endif
}

std::optional<std::string> LineReader::read(const char* prompt) {
#ifdef GALE_LIBEDIT
  if (state_->editor != nullptr) {
    current_prompt = prompt;
    int length = 0;
    const char* line = el_gets(state_->editor, &length);
    if (interrupt_flag.load() || line == nullptr || length <= 0) return std::nullopt;
    std::string text(line, static_cast<size_t>(length));
    HistEvent event;
    if (state_->history != nullptr && text != "\n") history(state_->history, &event, H_ENTER, text.c_str());
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    return text;
  }
#endif
  if (input_is_terminal()) (void)write_all(STDERR_FILENO, prompt);
  std::string text;
  char c;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR && !interrupt_flag.load()) continue;
    if (got <= 0) break;
    if (c == '\n') return text;
    text += c;
  }
  if (text.empty() || interrupt_flag.load()) return std::nullopt;
  return text;
}

Result<std::string> read_input() {
  return read_all(STDIN_FILENO, "standard input");
}

Result<std::string> read_file(const std::string& path) {
  if (path == "-") return read_input();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(ErrorKind::io, "cannot read '{}': {}", path, std::strerror(errno));
  auto text = read_all(file, fmt::format("'{}'", path));
  ::close(file);
  return text;
}

}  // namespace gale::cli
