// Typed reading of a Hugging Face configuration, and writing of what was read as metadata.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "format/json.h"
#include "format/metadata.h"

namespace gale::format {

// The value of a key that a configuration leaves out: files are written without what equals the default.
struct ConfigDefault {
  std::string_view key;
  double value;
};

// Settings of one configuration on their way into metadata. The first error stays; later calls then give harmless
// values, so that reading is a plain list.
class ConfigReader {
 public:
  ConfigReader(const Json& config, const std::string& file, std::span<const ConfigDefault> defaults, Metadata& metadata,
               std::deque<std::string>& texts)
      : config_(config), file_(file), defaults_(defaults), metadata_(metadata), texts_(texts) {}

  std::string architecture;
  const Status& status() const { return status_; }

  template <class... Args>
  void wrong(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
    if (!status_.ok()) return;
    status_ = fail(kind, "{}: {}", file_, fmt::format(format, std::forward<Args>(args)...));
  }

  // Null: not there, or JSON's null. Keys of the text part of a model come first.
  const Json* find(std::string_view key) const {
    const Json* text = config_.find("text_config");
    for (const Json* place : {text, &config_}) {
      if (!place) continue;
      if (const Json* found = place->find(key); found && !found->is_null()) return found;
    }
    return nullptr;
  }

  // nullopt: not there, and without a default.
  std::optional<double> number(std::string_view key) { return number_in(find(key), key); }
  std::optional<double> number_in(const Json* value, std::string_view key) {
    if (!value) {
      const auto at =
          std::find_if(defaults_.begin(), defaults_.end(), [&](const ConfigDefault& d) { return d.key == key; });
      return at == defaults_.end() ? std::nullopt : std::optional(at->value);
    }
    if (const auto* i = value->get<int64_t>()) return static_cast<double>(*i);
    if (const auto* u = value->get<uint64_t>()) return static_cast<double>(*u);
    if (const auto* d = value->get<double>()) return *d;
    wrong(ErrorKind::invalid_input, "key \"{}\": expected a number, found {}", key, kind_name(*value));
    return std::nullopt;
  }

  // A whole number that a u32 can hold.
  std::optional<uint64_t> whole(std::string_view key) {
    const auto value = number(key);
    if (!value) return std::nullopt;
    if (!(*value >= 0 && *value <= UINT32_MAX && *value == std::floor(*value))) {
      wrong(ErrorKind::invalid_input, "key \"{}\" is {}; expected a whole number from 0 to {}", key, *value,
            UINT32_MAX);
      return std::nullopt;
    }
    return static_cast<uint64_t>(*value);
  }

  std::optional<std::string_view> text(std::string_view key) { return text_in(find(key), key); }
  std::optional<std::string_view> text_in(const Json* value, std::string_view key) {
    if (!value) return std::nullopt;
    if (const auto* s = value->get<std::string>()) return *s;
    wrong(ErrorKind::invalid_input, "key \"{}\": expected a string, found {}", key, kind_name(*value));
    return std::nullopt;
  }

  bool boolean(std::string_view key) {
    const Json* value = find(key);
    const auto* b = value ? value->get<bool>() : nullptr;
    if (value && !b) wrong(ErrorKind::invalid_input, "key \"{}\": expected a bool, found {}", key, kind_name(*value));
    return b && *b;
  }

  // Null: not there.
  const Json* object(std::string_view key) {
    const Json* value = find(key);
    if (value && !value->get<Json::Object>()) {
      wrong(ErrorKind::invalid_input, "key \"{}\": expected an object, found {}", key, kind_name(*value));
      return nullptr;
    }
    return value;
  }

  // Keys of the architecture, without its prefix. Numbers that are not whole are 32-bit floats in GGUF files.
  void set_whole(std::string_view key, uint64_t value) { add(prefixed(key), value); }
  void set_number(std::string_view key, double value) {
    add(prefixed(key), static_cast<double>(static_cast<float>(value)));
  }
  void set_text(std::string_view key, std::string_view value) { add_text(prefixed(key), value); }
  void set(std::string_view key, Value value) { add(prefixed(key), std::move(value)); }
  void add_text(const std::string& key, std::string_view value) {
    add(key, std::string_view(texts_.emplace_back(value)));
  }
  void add(const std::string& key, Value value) {
    if (auto status = metadata_.add(key, std::move(value)); !status)
      wrong(ErrorKind::invalid_input, "{}", status.error().message);
  }

 private:
  std::string prefixed(std::string_view key) const { return fmt::format("{}.{}", architecture, key); }

  const Json& config_;
  const std::string& file_;
  std::span<const ConfigDefault> defaults_;
  Metadata& metadata_;
  std::deque<std::string>& texts_;
  Status status_;
};

}  // namespace gale::format
