// Opens Hugging Face directories and single safetensors files: finds and maps the files, then joins their parts.
#include "format/hugging_face.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "format/hugging_face_config.h"
#include "format/hugging_face_tensors.h"
#include "format/safetensors.h"

namespace gale::format {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kGenerationFile = "generation_config.json";
// Says that weights are quantised where config.json doesn't.
constexpr const char* kModeloptFile = "hf_quant_config.json";

// Also a link that leads nowhere, as a cleaned cache has: the error of opening it says so.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

Result<Json> read_json(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (!file) return file.error();
  return parse_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, path);
}

// A model's files by name, and what an index says about them.
struct FileList {
  fs::path directory;
  std::vector<std::string> names;
  std::vector<IndexEntry> index;  // sorted by file; empty: there is none
};

Result<FileList> files_of_index(const fs::path& directory) {
  const std::string path = (directory / kIndexFile).string();
  const auto json = read_json(path);
  if (!json) return json.error();
  auto index = read_index(*json, path);
  if (!index) return std::move(index).error();
  FileList out{directory, {}, *std::move(index)};
  for (const IndexEntry& entry : out.index)
    if (out.names.empty() || out.names.back() != entry.file) out.names.push_back(entry.file);
  return out;
}

// As the Python library chooses: one file before an index.
Result<FileList> files_of_directory(const fs::path& directory) {
  if (is_there(directory / kSingleFile)) return FileList{directory, {kSingleFile}, {}};
  if (is_there(directory / kIndexFile)) return files_of_index(directory);
  return fail(ErrorKind::not_found,
              "{}: there is neither '{}' nor '{}' in this directory; give the directory of a model in safetensors "
              "format, or a .gguf file itself",
              directory.string(), kSingleFile, kIndexFile);
}

// The file alone, or all that belong to it if an index beside it names it.
Result<FileList> files_of_file(const fs::path& file) {
  const fs::path directory = file.parent_path();
  const std::string name = file.filename().string();
  if (name != kSingleFile && is_there(directory / kIndexFile)) {
    auto listed = files_of_index(directory);
    if (!listed) return listed;
    if (std::find(listed->names.begin(), listed->names.end(), name) != listed->names.end()) return listed;
  }
  return FileList{directory, {name}, {}};
}

// Every tensor of the index must be in the file that the index says.
Status check_index(const FileList& list, const std::vector<StoredFile>& files) {
  size_t file = 0;
  std::vector<std::string_view> there;
  for (size_t i = 0; i < list.index.size(); ++i) {
    const IndexEntry& entry = list.index[i];
    if (i > 0 && entry.file != list.index[i - 1].file) ++file;
    if (i == 0 || entry.file != list.index[i - 1].file) {
      there.clear();
      for (const StoredTensor& tensor : files[file].tensors) there.push_back(tensor.name);
      std::sort(there.begin(), there.end());
    }
    if (!std::binary_search(there.begin(), there.end(), std::string_view(entry.tensor)))
      return fail(ErrorKind::invalid_input, "{}: tensor '{}' is missing, although {} says that it is here",
                  files[file].path, entry.tensor, kIndexFile);
  }
  return {};
}

Result<std::vector<StoredFile>> open_files(const FileList& list, std::vector<MappedFile>& mapped) {
  std::vector<StoredFile> out;
  for (const std::string& name : list.names) {
    const std::string path = (list.directory / name).string();
    auto file = MappedFile::open(path);
    if (!file) return std::move(file).error();
    auto tensors = parse_safetensors(file->bytes(), path);
    if (!tensors) return std::move(tensors).error();
    mapped.push_back(*std::move(file));
    out.push_back({path, *std::move(tensors)});
  }
  if (auto status = check_index(list, out); !status) return std::move(status).error();
  return out;
}

// The table of rotary divisors that a GGUF file has and a configuration only describes.
Tensor rotary_tensor(const std::vector<float>& divisors, std::deque<std::string>& owner) {
  const std::string& bytes =
      owner.emplace_back(reinterpret_cast<const char*>(divisors.data()), divisors.size() * sizeof(float));
  Tensor tensor;
  tensor.name = "rope_freqs.weight";
  tensor.shape[0] = divisors.size();
  tensor.bytes = std::as_bytes(std::span(bytes));
  tensor.file = Tensor::kNoFile;
  return tensor;
}

// The directory's name, also for "." and paths that end in a slash; in a hub cache
// ("models--OWNER--NAME/snapshots/COMMIT") that of the model.
std::string model_name(const fs::path& directory) {
  std::error_code ignored;
  fs::path whole = fs::weakly_canonical(directory.empty() ? fs::path(".") : directory, ignored);
  if (whole.parent_path().filename() == "snapshots") whole = whole.parent_path().parent_path();
  const std::string name = whole.filename().string();
  constexpr std::string_view kBetween = "--";
  const size_t last = name.rfind(kBetween);
  return name.starts_with("models--") && last != std::string::npos ? name.substr(last + kBetween.size()) : name;
}

}  // namespace

bool is_hugging_face(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return true;
  if (!fs::is_regular_file(path, ignored)) return false;  // the error of opening it says more
  const auto file = MappedFile::open(path);
  if (!file) return path.ends_with(".safetensors");
  const std::span<const std::byte> bytes = file->bytes();
  const auto begins = [&](std::string_view text, size_t at) {
    return bytes.size() >= at + text.size() && std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
  };
  if (begins("GGUF", 0)) return false;
  return path.ends_with(".safetensors") || (begins(std::string_view("\0\0\0\0", 4), 4) && begins("{", 8));
}

Result<std::vector<IndexEntry>> read_index(const Json& index, const std::string& name) {
  const Json* found = index.find("weight_map");
  const auto* map = found ? found->get<Json::Object>() : nullptr;
  if (!map) return fail(ErrorKind::invalid_input, "{}: key \"weight_map\" is missing or no object", name);
  if (map->empty()) return fail(ErrorKind::invalid_input, "{}: key \"weight_map\" is empty", name);
  std::vector<IndexEntry> out;
  out.reserve(map->size());
  for (const auto& [tensor, value] : *map) {
    const auto* file = value.get<std::string>();
    if (!file)
      return fail(ErrorKind::invalid_input, "{}: tensor '{}': expected the name of a file, found {}", name, tensor,
                  kind_name(value));
    const bool plain = !file->empty() && *file != "." && *file != ".." &&
                       file->find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain)
      return fail(ErrorKind::invalid_input,
                  "{}: tensor '{}': '{}' is no name of a file beside the index; files elsewhere are not opened", name,
                  tensor, *file);
    out.push_back({tensor, *file});
  }
  std::sort(out.begin(), out.end(), [](const IndexEntry& a, const IndexEntry& b) {
    return std::tie(a.file, a.tensor) < std::tie(b.file, b.tensor);
  });
  return out;
}

Result<Checkpoint::Contents> open_hugging_face(const std::string& path) {
  std::error_code ignored;
  const auto list = fs::is_directory(path, ignored) ? files_of_directory(path) : files_of_file(path);
  if (!list) return list.error();

  Checkpoint::Contents out;
  out.directory = list->directory.empty() ? "." : list->directory.string();
  out.metadata_file = (list->directory / kConfigFile).string();
  const auto config = read_json(out.metadata_file);
  if (!config) return config.error();
  const std::string generation_file = (list->directory / kGenerationFile).string();
  std::optional<Json> generation;
  if (is_there(generation_file)) {
    auto json = read_json(generation_file);
    if (!json) return std::move(json).error();
    generation = *std::move(json);
  }
  auto settings = read_config(*config, out.metadata_file, generation ? &*generation : nullptr, generation_file,
                              model_name(list->directory), out.metadata, out.texts);
  if (!settings) return std::move(settings).error();
  settings->quantisation.present |= is_there(list->directory / kModeloptFile);

  auto files = open_files(*list, out.files);
  if (!files) return std::move(files).error();
  auto tensors = join_tensors(*files, *settings);
  if (!tensors) return std::move(tensors).error();
  out.tensors = *std::move(tensors);
  if (!settings->rotary_divisors.empty()) out.tensors.push_back(rotary_tensor(settings->rotary_divisors, out.texts));
  return out;
}

}  // namespace gale::format
