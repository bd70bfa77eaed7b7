// Result<T>: a value or an Error, the only way in which library code reports failure.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace gale {

enum class ErrorKind {
  invalid_input,  // a file, request, template or option is wrong; the message names it and the place
  not_found,      // a file, tensor, key or name that is not there
  io,             // the operating system refused to read or write
  unsupported,    // valid, but not something this build can do
  limit,          // memory, context or size limit; the message has both numbers
  cancelled,      // somebody asked to stop
};

struct Error {
  ErrorKind kind = ErrorKind::invalid_input;
  std::string message;
};

// Builds an Error with a formatted message: `return fail(ErrorKind::io, "cannot open '{}': {}", path, reason);`
template <class... Args>
[[nodiscard]] Error fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return Error{kind, fmt::format(format, std::forward<Args>(args)...)};
}

// The error with the file it is about in front, if the message doesn't name it yet.
[[nodiscard]] inline Error in_file(const std::string& path, const Error& error) {
  if (error.message.find(path) != std::string::npos) return error;
  return Error{error.kind, path + ": " + error.message};
}

// A value of type T or an Error. T must not be Error. `value()` may be called only when `ok()`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace gale
