// The block encoders for any processor.
#include "format/block_encoders.h"

#include "format/block_encoder_kernels.h"

namespace gale::format {

BlockEncoder block_encoder(TensorType type) {
  return encoder_of(type);
}

}  // namespace gale::format
