// Fuzz target of the safetensors reader: parses any bytes, checks what was accepted, and makes first and last rows.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "format/hugging_face_tensors.h"

using namespace gale::format;

namespace {

// Every accepted tensor must lie inside the file and have the size that its type and shape say.
void check_stored(const StoredTensor& tensor, std::span<const std::byte> file) {
  uint64_t bytes = stored_type_info(tensor.type).bytes;
  for (const uint64_t size : tensor.sizes()) bytes *= size;
  if (bytes != tensor.bytes.size()) std::abort();
  if (tensor.bytes.data() < file.data() || tensor.bytes.size() > file.size()) std::abort();
  if (static_cast<size_t>(tensor.bytes.data() - file.data()) > file.size() - tensor.bytes.size()) std::abort();
  if (describe(tensor).empty()) std::abort();
}

void read_rows(const Tensor& tensor) {
  constexpr uint64_t kMostValues = 1 << 16;
  if (tensor.values() == 0 || tensor.byte_size() == 0) std::abort();
  if (!tensor.recipe && tensor.bytes.size() != tensor.byte_size()) std::abort();
  if (tensor.row_length() > kMostValues) return;
  std::vector<std::byte> buffer;
  std::vector<float> out(tensor.row_length());
  for (const uint64_t row : {uint64_t{0}, tensor.rows() - 1})
    if (!decode_rows(tensor, row, 1, buffer, out).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  auto parsed = parse_safetensors(file, "fuzz.safetensors");
  if (!parsed.ok()) {
    if (!parsed.error().message.starts_with("fuzz.safetensors: ")) std::abort();
    return 0;
  }
  for (const StoredTensor& tensor : *parsed) check_stored(tensor, file);
  const std::vector<StoredFile> files{{"fuzz.safetensors", std::move(*parsed)}};
  for (const NameTable* names : {static_cast<const NameTable*>(nullptr), &llama_names(), &gemma3_names()}) {
    HuggingFaceSettings settings;
    settings.names = names;
    settings.head_rows = 4;
    const auto tensors = join_tensors(files, settings);
    if (!tensors.ok()) {
      if (!tensors.error().message.starts_with("fuzz.safetensors: tensor '")) std::abort();
      continue;
    }
    for (size_t i = 0; i < std::min<size_t>(tensors->size(), 16); ++i) read_rows((*tensors)[i]);
  }
  return 0;
}
