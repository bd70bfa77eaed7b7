// Prints a program: a header, then one step per line with its weights at the end.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "model/program.h"
#include "model/program_parts.h"
#include "model/program_text.h"

namespace gale::model {
namespace {

constexpr size_t kWeightsColumn = 79;  // where the names of weights begin, if the step leaves room

std::string without(std::string_view text, std::string_view suffix) {
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return std::string(text);
}

std::string short_name(Weight weight) {
  return weight ? without(weight->name, ".weight") : "(none)";
}

// Length of what all names share, up to and including a '.' or '_'.
size_t shared_prefix(const std::vector<std::string>& names) {
  size_t shared = names[0].size();
  for (const std::string& name : names)
    shared = std::min<size_t>(
        shared, std::mismatch(names[0].begin(), names[0].end(), name.begin(), name.end()).first - names[0].begin());
  while (shared > 0 && names[0][shared - 1] != '.' && names[0][shared - 1] != '_') --shared;
  return shared;
}

struct Names {
  std::string shared;              // "blk.0.attn_"
  std::vector<std::string> parts;  // "q", "k", "v"
};

Names names_of(const MatrixStep& step) {
  Names out;
  for (const RowGroup& group : step.groups) out.parts.push_back(short_name(group.weight));
  if (out.parts.size() < 2) return out;
  const size_t shared = shared_prefix(out.parts);
  out.shared = out.parts[0].substr(0, shared);
  for (std::string& part : out.parts) part.erase(0, shared);
  return out;
}

// "blk.0.attn_q|k|v Q5_0|Q5_0|Q8_0"; one type if all are the same.
std::string weights_text(const MatrixStep& step) {
  const Names names = names_of(step);
  std::vector<std::string> types;
  for (const RowGroup& group : step.groups) types.push_back(group.weight ? format::type_name(group.weight->type) : "?");
  if (std::count(types.begin(), types.end(), types.empty() ? "" : types[0]) == static_cast<ptrdiff_t>(types.size()))
    types.resize(std::min<size_t>(types.size(), 1));
  return fmt::format("{}{} {}", names.shared, fmt::join(names.parts, "|"), fmt::join(types, "|"));
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string line(size_t index) const {
    const Step& step = program_.steps[index];
    std::string text = fmt::format("{:>3}  {:<9}  ", index, kind_name(step));
    text += std::visit([this](const auto& kind) { return body(kind); }, step);
    const std::string weights = std::visit([](const auto& kind) { return weights_column(kind); }, step);
    if (!weights.empty()) {
      text.resize(std::max(text.size() + 2, kWeightsColumn), ' ');
      text += weights;
    }
    return text + "\n";
  }

 private:
  const std::string& name(BufferId id) const {
    static const std::string kUnknown = "?";
    return id < program_.buffers.size() ? program_.buffers[id].name : kUnknown;
  }

  std::string sized(BufferId id) const {
    return fmt::format("{} [c x {}]", name(id), id < program_.buffers.size() ? program_.buffers[id].width : 0);
  }

  std::string body(const EmbedStep& step) const {
    const std::string scale = step.scale == 1 ? "" : fmt::format(" * {:.6g}", step.scale);
    return fmt::format("tokens{} -> {}", scale, sized(step.output));
  }

  std::string prologue(const Prologue& step) const {
    const std::string input = name(step.input);
    switch (step.kind) {
      case Prologue::Kind::none:
        return input;
      case Prologue::Kind::norm:
        return fmt::format("rms({}, {})", input, short_name(step.weight));
      case Prologue::Kind::add_norm:
        return fmt::format("{} = {} + rms({}, {}); rms({}, {})", name(step.sum), name(step.residual), input,
                           short_name(step.post_weight), name(step.sum), short_name(step.weight));
    }
    return input;
  }

  std::string body(const MatrixStep& step) const {
    const std::string from = prologue(step.prologue);
    std::vector<std::string> outputs;
    switch (step.epilogue) {
      case MatrixStep::Epilogue::store:
        for (const RowGroup& group : step.groups) outputs.push_back(sized(group.output));
        return fmt::format("{} -> {}", from, fmt::join(outputs, " | "));
      case MatrixStep::Epilogue::add:
        for (const RowGroup& group : step.groups) outputs.push_back(name(group.output) + " +=");
        return fmt::format("{} -> {}", from, fmt::join(outputs, " | "));
      case MatrixStep::Epilogue::gated: {
        std::vector<std::string> parts = names_of(step).parts;
        parts.resize(2, "?");
        const char* activation = step.activation == Activation::silu ? "silu" : "gelu";
        return fmt::format("{} -> {}({}) * {} = {}", from, activation, parts[0], parts[1],
                           step.groups.empty() ? "?" : sized(step.groups[0].output));
      }
      case MatrixStep::Epilogue::logits: {
        const std::string softcap = step.softcap > 0 ? fmt::format(", softcap {:g}", step.softcap) : "";
        return fmt::format("{}, chosen columns -> logits [n x {}]{}", from, program_.vocabulary, softcap);
      }
    }
    return from;
  }

  std::string rotated(BufferId id, Weight norm) const {
    return norm ? fmt::format("rope(rms({}, {}))", name(id), short_name(norm)) : fmt::format("rope({})", name(id));
  }

  std::string body(const AttentionStep& step) const {
    std::string text = fmt::format("{}, {}, {} -> {}   append to cache {}, {}/{} heads of {}",
                                   rotated(step.q, step.q_norm), rotated(step.k, step.k_norm), name(step.v),
                                   sized(step.output), step.cache, step.heads, step.kv_heads, step.head_size);
    if (step.value_size != step.head_size) text += fmt::format(" and {}", step.value_size);
    text += fmt::format(", scale {:.4g}", step.scale);
    if (step.softcap > 0) text += fmt::format(", softcap {:g}", step.softcap);
    if (step.window > 0) text += fmt::format(", window {}", step.window);
    const Rope& rope = step.rope;
    text += fmt::format(", rope {} as {}, base {}", rope.dimensions,
                        rope.pairs == Rope::Pairs::neighbours ? "neighbours" : "halves", rope.base);
    if (rope.factor != 1) text += fmt::format(", angles / {:g}", rope.factor);
    if (rope.divisors) text += fmt::format(", angles / {}", short_name(rope.divisors));
    return text;
  }

  static std::string weights_column(const EmbedStep& step) {
    return step.weight ? fmt::format("{} {}", short_name(step.weight), format::type_name(step.weight->type)) : "";
  }
  static std::string weights_column(const MatrixStep& step) { return weights_text(step); }
  static std::string weights_column(const AttentionStep&) { return ""; }

  const Program& program_;
};

}  // namespace

std::string_view kind_name(const Step& step) {
  if (std::holds_alternative<EmbedStep>(step)) return "embed";
  return std::holds_alternative<MatrixStep>(step) ? "matrix" : "attention";
}

std::string bytes_text(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value < 1e3) return fmt::format("{} B", bytes);
  if (value < 1e6) return fmt::format("{:.1f} kB", value / 1e3);
  return value < 1e9 ? fmt::format("{:.1f} MB", value / 1e6) : fmt::format("{:.2f} GB", value / 1e9);
}

std::string print(const Program& program) {
  std::string out =
      fmt::format("program {}: {} blocks, {} steps, {} phases, {} of weights per pass\n", program.architecture,
                  program.blocks, program.steps.size(), count_phases(program), bytes_text(weight_bytes(program)));
  const Printer printer(program);
  for (size_t index = 0; index < program.steps.size(); ++index) out += printer.line(index);
  return out;
}

}  // namespace gale::model
