// config.json and generation_config.json as the metadata of a GGUF file, and what they say about the tensors.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/hugging_face_names.h"
#include "format/json.h"
#include "format/metadata.h"

namespace gale::format {

// How the weights are quantised, as far as the tensors don't tell by themselves.
struct Quantisation {
  bool present = false;
  uint64_t block_rows = 128, block_columns = 128;  // values that share a scale, in formats with blocks
};

struct HuggingFaceSettings {
  const NameTable* names = nullptr;    // null: the tensors keep their names
  uint64_t head_rows = 0;              // rows of a rotary head
  std::vector<float> rotary_divisors;  // what a GGUF file has as rope_freqs.weight; empty: none
  Quantisation quantisation;
};

// Adds to `metadata`; `texts` owns what its text values point to. `generation` may be null. `file` and
// `generation_file` are named in errors; `model` is the name of the model.
Result<HuggingFaceSettings> read_config(const Json& config, const std::string& file, const Json* generation,
                                        const std::string& generation_file, const std::string& model,
                                        Metadata& metadata, std::deque<std::string>& texts);

}  // namespace gale::format
