// Words that the printed and the drawn form of a program share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/program.h"

namespace gale::model {

// "embed", "matrix", "attention"
std::string_view kind_name(const Step& step);
// "96.6 MB"
std::string bytes_text(uint64_t bytes);

}  // namespace gale::model
