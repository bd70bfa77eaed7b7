// Fuzz target of the GGUF reader: parses any bytes, then describes the settings and decodes the first rows of tensors.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "format/gguf.h"

using namespace gale::format;

namespace {

// Every accepted tensor must lie inside the file and have the size that its type and shape say.
void check_tensor(const Tensor& tensor, std::span<const std::byte> file) {
  const auto expected = bytes_of(tensor.type, tensor.values());
  if (!expected || *expected != tensor.bytes.size()) std::abort();
  if (tensor.bytes.data() < file.data() || tensor.bytes.size() > file.size()) std::abort();
  if (static_cast<size_t>(tensor.bytes.data() - file.data()) > file.size() - tensor.bytes.size()) std::abort();
}

void decode_first_block(const Tensor& tensor) {
  const auto info = type_info(tensor.type);
  if (!info) std::abort();
  std::vector<float> out(info->values_per_block);
  const auto status = decode(tensor.type, tensor.bytes.first(info->bytes_per_block), out);
  if (status.ok() != info->decodable) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto contents = parse_gguf(file, "fuzz.gguf");
  if (!contents.ok()) {
    if (!contents.error().message.starts_with("fuzz.gguf: ")) std::abort();
    return 0;
  }
  for (const std::string& key : contents->metadata.keys()) {
    const Value* value = contents->metadata.find(key);
    if (!value) std::abort();
    if (describe(*value).empty()) std::abort();
    (void)contents->metadata.unsigned_integer(key);
    (void)contents->metadata.integers(key);
    (void)contents->metadata.texts(key);
  }
  for (const Tensor& tensor : contents->tensors) check_tensor(tensor, file);
  const size_t decoded = std::min<size_t>(contents->tensors.size(), 16);
  for (size_t i = 0; i < decoded; ++i) decode_first_block(contents->tensors[i]);
  return 0;
}
