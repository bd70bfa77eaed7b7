// The settings of a model (widths, heads, norms, rotary embedding), read and checked from a checkpoint's metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"

namespace gale::model {

struct Hparams {
  std::string architecture;       // "llama", "gemma3"
  std::string name;               // general.name or ""
  uint32_t vocabulary = 0;        // rows of the embedding
  uint32_t context_length = 0;    // trained context
  uint32_t embedding_length = 0;  // C
  uint32_t block_count = 0;
  std::vector<uint32_t> feed_forward_length;  // per block
  std::vector<uint32_t> head_count;           // per block
  std::vector<uint32_t> head_count_kv;        // per block
  uint32_t key_length = 0;                    // head size of q and k
  uint32_t value_length = 0;                  // head size of v
  float norm_epsilon = 0;
  float rope_base = 10000;
  float rope_base_sliding = 10000;  // for sliding-window blocks
  uint32_t rope_dimensions = 0;     // n_rot: elements of each head that rotate
  float rope_factor = 1;            // linear scaling: angles are divided by it
  uint32_t sliding_window = 0;      // 0: none
  uint32_t sliding_period = 0;      // the last of each period of blocks is a full one
  std::vector<bool> slides;         // per block
  float attention_scale = 0;        // multiplies q.k
  float attention_softcap = 0;      // 0: none
  float final_softcap = 0;          // 0: none
};

// Reads the generic GGUF keys for the architecture that the file names. Every value is checked: present, type, range,
// divisibility. Unknown architectures and settings that would change the result but aren't supported are errors.
Result<Hparams> read_hparams(const format::Checkpoint& checkpoint);

}  // namespace gale::model
