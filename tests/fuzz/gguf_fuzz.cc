// Fuzz target of the GGUF reader and writer: parses any bytes, describes the settings, decodes the first rows of
// tensors, and lays the same out again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "format/gguf.h"
#include "format/gguf_writer.h"

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

std::optional<GgufLayout> layout_of(const GgufContents& contents) {
  std::vector<TensorEntry> entries;
  for (const Tensor& t : contents.tensors) entries.push_back({t.name, t.type, t.shape, t.dimensions});
  auto layout = layout_gguf(contents.metadata, entries);
  if (!layout) return std::nullopt;  // longer names of keys than the writer takes
  return std::move(*layout);
}

// What the writer makes of a file is read as the same file.
void check_written_again(const GgufContents& contents) {
  constexpr uint64_t most_bytes = 1 << 20;  // an alignment may ask for gigabytes
  const auto layout = layout_of(contents);
  if (!layout || layout->file_bytes > most_bytes) return;
  std::string file = layout->header;
  file.resize(layout->file_bytes);
  const auto again = parse_gguf(std::as_bytes(std::span(file)), "again.gguf");
  if (!again) std::abort();
  const auto second = layout_of(*again);
  if (!second || second->header != layout->header || second->offsets != layout->offsets) std::abort();
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
  check_written_again(*contents);
  return 0;
}
