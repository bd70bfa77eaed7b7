// Base64, as tokenizer files write bytes.
#pragma once

#include <string>
#include <string_view>

namespace gale::text {

// Appends the bytes that `text` stands for; false: it is no base64 (with padding).
bool append_base64(std::string_view text, std::string& out);

}  // namespace gale::text
