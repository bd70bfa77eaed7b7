// All weights of a program in memory, re-tiled once when the model is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/memory.h"
#include "base/result.h"
#include "base/team.h"
#include "exec/cpu/tiles.h"
#include "format/checkpoint.h"
#include "model/program.h"

namespace gale::exec {

// One weight {row_length, rows} as tile rows of `height` rows; tile row i begins at tiles + i * stride.
struct TiledMatrix {
  format::TensorType type = format::TensorType::f32;
  uint32_t rows = 0;
  size_t row_length = 0;
  uint32_t height = 0;
  const std::byte* tiles = nullptr;
  size_t tile_row_size = 0;  // bytes of a tile row
  size_t stride = 0;         // bytes from one tile row to the next; larger where two weights are interleaved

  uint32_t tile_rows() const { return (rows + height - 1) / height; }
  const std::byte* tile_row(size_t i) const { return tiles + i * stride; }
};

class TiledWeights {
 public:
  // Reads, re-tiles and gives back the file's pages bit by bit, so that little more than the tiles is in memory at any
  // time. The weights of a gated step are interleaved, since one worker computes both. Embeddings that no matrix step
  // uses stay in the file. Errors: a type without a kernel (with the tensor's name), not enough memory (with both
  // numbers).
  static Result<TiledWeights> load(const model::Program& program, const format::Checkpoint& checkpoint, uint32_t height,
                                   Team& team);

  // Null: not a matrix of the program (an embedding that stays in the file).
  const TiledMatrix* find(model::Weight weight) const;
  size_t bytes() const { return memory_.size(); }

 private:
  PageBuffer memory_;
  std::unordered_map<model::Weight, TiledMatrix> matrices_;
};

}  // namespace gale::exec
