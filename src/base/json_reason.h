// What is wrong with a text that should be JSON, in words for people.
#pragma once

#include <string>
#include <string_view>

namespace gale {

// The message of an exception of the JSON library, which has line and column, without the library's own tags and not
// endless where it quotes the text.
std::string json_reason(std::string_view what);

}  // namespace gale
