// Which type each tensor of a model gets when it is stored as "q4_k_m" and the like; the same choices as llama.cpp's.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "format/gguf_writer.h"
#include "format/metadata.h"
#include "format/tensor_type.h"

namespace gale::format {

struct QuantisationMix {
  std::string_view name;  // as users write it: "q4_k_m"
  TensorType type;        // of most matrices
  uint32_t file_type;     // GGUF's general.file_type
  bool pure;              // no other type where this one fits
};

// All of them, in the order in which they are listed for users.
std::span<const QuantisationMix> quantisation_mixes();
// Upper and lower case are the same; null for a name that isn't there.
const QuantisationMix* find_quantisation_mix(std::string_view name);

// Types of the tensors of a whole model, in their order. Norms, vectors and some small matrices are no part of a mix:
// they become F32 if they are plain numbers and else keep their type. Integers are kept too.
// Errors: settings of the model that are wrong.
Result<std::vector<TensorType>> choose_types(const QuantisationMix& mix, const Metadata& metadata,
                                             std::span<const TensorEntry> tensors);

}  // namespace gale::format
