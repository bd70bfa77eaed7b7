// Draws a program for Graphviz: steps as boxes, buffers as the arrows between them.
#include <fmt/format.h>

#include <vector>

#include "model/program.h"
#include "model/program_parts.h"
#include "model/program_text.h"

namespace gale::model {
namespace {

// Names come from files.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string to_dot(const Program& program) {
  constexpr size_t kNobody = SIZE_MAX;
  std::string out =
      fmt::format("digraph \"{}\" {{\n  node [shape=box, fontname=monospace];\n", escaped(program.architecture));
  std::vector<size_t> writer(program.buffers.size(), kNobody);  // the step that wrote a buffer last
  for (size_t index = 0; index < program.steps.size(); ++index) {
    const Step& step = program.steps[index];
    std::string label = fmt::format("{} {}", index, kind_name(step));
    for (Weight weight : weights_of(step))
      label += fmt::format("\\n{} {}", escaped(weight->name), format::type_name(weight->type));
    if (const uint64_t bytes = weight_bytes(step); bytes > 0) label += fmt::format("\\n{}", bytes_text(bytes));
    out += fmt::format("  s{} [label=\"{}\"];\n", index, label);
    const Access access = access_of(step);
    for (BufferId id : access.reads)
      if (id < writer.size() && writer[id] != kNobody)
        out += fmt::format("  s{} -> s{} [label=\"{} [{}]\"];\n", writer[id], index, escaped(program.buffers[id].name),
                           program.buffers[id].width);
    for (BufferId id : access.writes)
      if (id < writer.size()) writer[id] = index;
  }
  return out + "}\n";
}

}  // namespace gale::model
