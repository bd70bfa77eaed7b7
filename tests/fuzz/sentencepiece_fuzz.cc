// Fuzz target: SentencePiece models of any bytes; what is read must make a tokenizer that works, or an error.
#include "vocabulary_fuzz.h"

// Text to encode stands behind the last zero byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gale::text;
  const auto [file, text] = split_input({reinterpret_cast<const char*>(data), size});
  try_vocabulary(read_sentencepiece(file), text);
  return 0;
}
