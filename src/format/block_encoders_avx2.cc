// The block encoders compiled for AVX2.
#include "format/block_encoder_kernels.h"
#include "format/block_encoders.h"

namespace gale::format {

BlockEncoder block_encoder_avx2(TensorType type) {
  return encoder_of(type);
}

}  // namespace gale::format
