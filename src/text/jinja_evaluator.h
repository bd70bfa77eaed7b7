// Runs the syntax tree of a template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"

namespace gale::text::jinja {

// Renders the tree with these variables. Throws Failure; context.position is then where it happened.
MarkedText evaluate(const Tree& tree, Context& context, std::vector<std::pair<std::string, Value>> variables);

}  // namespace gale::text::jinja
