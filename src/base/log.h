// Log messages with levels; the library only hands them to a sink that the program sets.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace gale {

enum class LogLevel { debug, info, warning, error, off };

// Called for each message at or above the level, from any thread, one at a time. Default: nothing is written anywhere.
using LogSink = void (*)(LogLevel level, std::string_view message);
void set_log(LogLevel level, LogSink sink);
bool log_enabled(LogLevel level);
void log_message(LogLevel level, std::string_view message);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_message(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace gale
