// The base64 decoder.
#include "text/base64.h"

#include <array>
#include <cstdint>

namespace gale::text {
namespace {

constexpr std::array<int8_t, 256> make_values() {
  std::array<int8_t, 256> values{};
  for (auto& v : values) v = -1;
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < alphabet.size(); ++i) values[static_cast<uint8_t>(alphabet[i])] = static_cast<int8_t>(i);
  return values;
}
constexpr std::array<int8_t, 256> values = make_values();

}  // namespace

bool append_base64(std::string_view text, std::string& out) {
  if (text.size() % 4 != 0) return false;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  uint32_t group = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool pad = i >= text.size() - padding;
    const int value = pad ? 0 : values[static_cast<uint8_t>(text[i])];
    if (value < 0) return false;
    group = group << 6 | static_cast<uint32_t>(value);
    if (i % 4 != 3) continue;
    const size_t bytes = i + 1 == text.size() ? 3 - padding : 3;
    for (size_t b = 0; b < bytes; ++b) out += static_cast<char>(group >> (16 - 8 * b) & 0xFF);
    group = 0;
  }
  return true;
}

}  // namespace gale::text
