// Fuzz target: tokenizer.json, tekken.json and lists of ranks of any bytes; what is read must make a tokenizer that
// works, or an error.
#include "vocabulary_fuzz.h"

// The first byte says which kind of file; text to encode stands behind the last zero byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gale::text;
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto [file, text] = split_input(all);
  switch (data[0] % 4) {
    case 0:
      try_vocabulary(read_tokenizer_json(file), text);
      break;
    case 1:
      try_vocabulary(read_tekken(file), text);
      break;
    case 2:
      try_vocabulary(read_tiktoken(file, {}, WordRule::llama3), text);
      break;
    default: {
      // The files beside a tokenizer's.
      SideFiles beside;
      beside.tokenizer_config = beside.special_tokens_map = beside.generation_config = file;
      if (data[0] % 8 == 7) beside.added_tokens = file;
      try_vocabulary(read_tiktoken("YQ== 0\nYg== 1\nYWI= 2\n", beside, WordRule::gpt2), text);
    }
  }
  return 0;
}
