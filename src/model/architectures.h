// The table of model families: how each differs in its settings, and what appends its steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/hparams.h"
#include "model/program_builder.h"

namespace gale::model {

struct Architecture {
  std::string_view name;  // general.architecture
  // Sliding windows, where the file has a window but no pattern: the last of so many blocks is full; 0: every block
  // slides.
  uint32_t sliding_period = 0;
  // Rotary base of sliding blocks if the file doesn't say; 0: that of the others.
  float rope_base_sliding = 0;
  // A model of so many blocks scales q.k by 1 / sqrt(C / heads) in place of 1 / sqrt(key_length); 0: none does.
  uint32_t blocks_scaled_by_width = 0;
  // Appends every step; errors stay in the builder.
  void (*build)(ProgramBuilder& builder, const Hparams& hparams);
};

std::span<const Architecture> architectures();
// Null: not supported.
const Architecture* find_architecture(std::string_view name);
// "llama, gemma3", for messages.
std::string architecture_names();

void build_llama(ProgramBuilder& builder, const Hparams& hparams);
void build_gemma3(ProgramBuilder& builder, const Hparams& hparams);

}  // namespace gale::model
