// Fuzz target of the JSON files of a Hugging Face directory: index, configuration, generation settings and the header
// of one file of tensors, one after the other with a zero byte between them; no file is read.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "format/hugging_face.h"
#include "format/hugging_face_config.h"
#include "format/hugging_face_tensors.h"

using namespace gale::format;

namespace {

constexpr size_t kDataBytes = 4096;  // behind the header

std::string_view take_part(std::string_view& rest) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

void fuzz_index(std::string_view text) {
  const auto json = parse_json(text, "index.json");
  if (!json.ok()) {
    if (!json.error().message.starts_with("index.json: ")) std::abort();
    return;
  }
  const auto index = read_index(*json, "index.json");
  if (!index.ok()) {
    if (!index.error().message.starts_with("index.json: ")) std::abort();
    return;
  }
  for (const IndexEntry& entry : *index)
    if (entry.file.find('/') != std::string::npos || entry.file == ".." || entry.file.empty()) std::abort();
}

std::string container(std::string_view header) {
  const uint64_t length = header.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  out += header;
  out.append(kDataBytes, '\x38');
  return out;
}

// Settings and tensors as open_hugging_face joins them.
void fuzz_model(std::string_view config_text, std::string_view generation_text, std::string_view header) {
  const auto config = parse_json(config_text, "config.json");
  const auto generation = parse_json(generation_text, "generation.json");
  if (!config.ok()) return;
  Checkpoint::Contents contents;
  const auto settings = read_config(*config, "config.json", generation.ok() ? &*generation : nullptr, "generation.json",
                                    "fuzz", contents.metadata, contents.texts);
  if (!settings.ok()) {
    const std::string& message = settings.error().message;
    if (!message.starts_with("config.json: ") && !message.starts_with("generation.json: ")) std::abort();
    return;
  }
  for (const std::string& key : contents.metadata.keys())
    if (describe(*contents.metadata.find(key)).empty()) std::abort();
  const std::string file = container(header);
  auto parsed = parse_safetensors(std::as_bytes(std::span(file)), "x");
  if (!parsed.ok()) return;
  const std::vector<StoredFile> files{{"x", std::move(*parsed)}};
  auto tensors = join_tensors(files, *settings);
  if (!tensors.ok()) return;
  contents.tensors = std::move(*tensors);
  const auto checkpoint = Checkpoint::from(std::move(contents));
  if (!checkpoint.ok()) return;
  for (const Tensor& tensor : checkpoint->tensors()) {
    std::vector<std::byte> buffer;
    std::vector<float> out(tensor.row_length());
    if (checkpoint->find(tensor.name) != &tensor) std::abort();
    if (!decode_rows(tensor, tensor.rows() - 1, 1, buffer, out).ok()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view index = take_part(rest), config = take_part(rest), generation = take_part(rest);
  fuzz_index(index);
  fuzz_model(config, generation, rest);
  return 0;
}
