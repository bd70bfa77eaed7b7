// The table of architectures, and build_program, which hands a checkpoint to the right one.
#include <array>

#include "model/architectures.h"
#include "model/program.h"

namespace gale::model {
namespace {

constexpr std::array kArchitectures{
    Architecture{.name = "llama",
                 .sliding_period = 0,
                 .rope_base_sliding = 0,
                 .blocks_scaled_by_width = 0,
                 .build = build_llama},
    Architecture{.name = "gemma3",
                 .sliding_period = 6,
                 .rope_base_sliding = 10000,
                 .blocks_scaled_by_width = 62,  // the 27B model
                 .build = build_gemma3},
};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& known : kArchitectures)
    if (known.name == name) return &known;
  return nullptr;
}

std::string architecture_names() {
  std::string out;
  for (const Architecture& known : kArchitectures) {
    if (!out.empty()) out += ", ";
    out += known.name;
  }
  return out;
}

Result<Program> build_program(const format::Checkpoint& checkpoint, const Hparams& hparams) {
  const Architecture* architecture = find_architecture(hparams.architecture);
  if (!architecture)
    return fail(ErrorKind::unsupported, "architecture '{}' is not supported; supported: {}", hparams.architecture,
                architecture_names());
  ProgramBuilder builder(checkpoint, hparams);
  architecture->build(builder, hparams);
  return std::move(builder).finish();
}

}  // namespace gale::model
