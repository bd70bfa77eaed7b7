// The regular expressions that published tokenizers cut words by, and the scanners that do the same.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "text/vocabulary.h"

namespace gale::text {

extern const std::string_view gpt2_expression;
extern const std::string_view digit_expression;  // every digit alone

// The scanner that does what these steps do; nullopt: none.
std::optional<WordRule> find_word_rule(std::span<const WordPattern> steps);

}  // namespace gale::text
