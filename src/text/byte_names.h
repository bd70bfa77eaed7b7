// The two ways in which vocabularies write bytes as text: GPT-2's 256 characters, and names like <0xAB>.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gale::text {

// Bytes that a text made of GPT-2's 256 byte characters stands for, written to `out` (room for text.size()). -1: `text`
// has other characters.
ptrdiff_t bytes_of_characters(std::string_view text, char* out);
// Appends the characters that stand for these bytes.
void append_characters_of(std::string_view bytes, std::string& out);

// The byte of "<0xAB>"; -1: not of that form.
int byte_of_name(std::string_view text);

}  // namespace gale::text
