// Opens models: one GGUF file, all parts of a split one, or a directory; finds tensors by name.
#include "format/checkpoint.h"

#include <optional>

#include "format/gguf.h"
#include "format/hugging_face.h"

namespace gale::format {
namespace {

// The keys that say which part of a split model a file is.
struct SplitKeys {
  uint64_t number = 0;  // 0-based
  uint64_t count = 1;   // files
  std::optional<uint64_t> tensors;
};

Result<SplitKeys> split_keys(const Metadata& metadata, const std::string& path) {
  const auto get = [&](std::string_view key) -> Result<std::optional<uint64_t>> {
    auto value = metadata.unsigned_integer(key);
    if (!value) return fail(value.error().kind, "{}: {}", path, value.error().message);
    return value;
  };
  const auto number = get("split.no"), count = get("split.count"), tensors = get("split.tensors.count");
  for (const auto* value : {&number, &count, &tensors})
    if (auto status = *value; !status) return std::move(status).error();
  SplitKeys keys;
  // A count of 0 is what merging leaves in the file; the other two keys mean nothing then.
  if (count->value_or(0) == 0) return keys;
  keys.count = **count;
  keys.number = number->value_or(0);
  keys.tensors = *tensors;
  if (keys.count > 1 && !*number) {
    return fail(ErrorKind::invalid_input, "{}: key \"split.no\" is missing, although \"split.count\" is {}", path,
                keys.count);
  }
  constexpr uint64_t most_parts = 99999;  // five digits in the file name
  if (keys.count > most_parts) {
    return fail(ErrorKind::invalid_input, "{}: key \"split.count\" is {}, at most {} are possible", path, keys.count,
                most_parts);
  }
  if (keys.number >= keys.count) {
    return fail(ErrorKind::invalid_input, "{}: key \"split.no\" is {}, but \"split.count\" is {}", path, keys.number,
                keys.count);
  }
  return keys;
}

std::string part_suffix(uint64_t number, uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

// A file that is open and parsed.
struct Part {
  MappedFile file;
  GgufContents contents;
  SplitKeys split;
};

Result<Part> open_part(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return std::move(file).error();
  auto contents = parse_gguf(file->bytes(), path);
  if (!contents) return std::move(contents).error();
  auto split = split_keys(contents->metadata, path);
  if (!split) return std::move(split).error();
  return Part{*std::move(file), *std::move(contents), *split};
}

// All parts of the model that `opened` belongs to, in order.
Result<std::vector<Part>> open_others(const std::string& path, Part opened) {
  std::vector<Part> parts;
  const uint64_t count = opened.split.count, number = opened.split.number;
  if (count == 1) {
    parts.push_back(std::move(opened));
    return parts;
  }
  const std::string suffix = part_suffix(number, count);
  if (!path.ends_with(suffix)) {
    return fail(ErrorKind::invalid_input,
                "{}: this is part {} of {} of a split model, but its name doesn't end in '{}', so that the other parts "
                "cannot be found: give all parts their original names",
                path, number + 1, count, suffix);
  }
  const std::string prefix = path.substr(0, path.size() - suffix.size());
  for (uint64_t n = 0; n < count; ++n) {
    if (n == number) {
      parts.push_back(std::move(opened));
      continue;
    }
    const std::string part_path = prefix + part_suffix(n, count);
    auto part = open_part(part_path);
    if (!part) {
      return fail(part.error().kind, "{} (part {} of {} of a split model; all parts must be in one folder)",
                  part.error().message, n + 1, count);
    }
    if (part->split.number != n || part->split.count != count) {
      return fail(ErrorKind::invalid_input,
                  "{}: its keys \"split.no\" and \"split.count\" are {} and {}, but its name says {} and {}", part_path,
                  part->split.number, part->split.count, n, count);
    }
    parts.push_back(*std::move(part));
  }
  return parts;
}

Result<Checkpoint::Contents> open_gguf(const std::string& path) {
  auto opened = open_part(path);
  if (!opened) return std::move(opened).error();
  auto parts = open_others(path, *std::move(opened));
  if (!parts) return std::move(parts).error();

  size_t tensor_count = 0;
  for (const Part& part : *parts) tensor_count += part.contents.tensors.size();
  for (const Part& part : *parts) {
    if (part.split.tensors && *part.split.tensors != tensor_count) {
      return fail(ErrorKind::invalid_input, "{}: key \"split.tensors.count\" is {}, but {} tensors are in {} file(s)",
                  part.file.path(), *part.split.tensors, tensor_count, parts->size());
    }
  }

  Checkpoint::Contents out;
  out.metadata = std::move(parts->front().contents.metadata);
  out.metadata_file = parts->front().file.path();
  out.tensors.reserve(tensor_count);
  out.files.reserve(parts->size());
  for (Part& part : *parts) {
    for (Tensor& tensor : part.contents.tensors) {
      tensor.file = static_cast<uint32_t>(out.files.size());
      out.tensors.push_back(std::move(tensor));
    }
    out.files.push_back(std::move(part.file));
  }
  return out;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  auto contents = is_hugging_face(path) ? open_hugging_face(path) : open_gguf(path);
  if (!contents) return std::move(contents).error();
  return from(*std::move(contents));
}

Result<Checkpoint> Checkpoint::from(Contents contents) {
  Checkpoint out;
  out.contents_ = std::move(contents);
  const std::vector<Tensor>& tensors = out.contents_.tensors;
  const auto place = [&](const Tensor& tensor) -> const std::string& {
    return tensor.file < out.files().size() ? out.files()[tensor.file].path() : out.metadata_file();
  };
  out.index_.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [at, inserted] = out.index_.emplace(tensors[i].name, i);
    if (!inserted) {
      return fail(ErrorKind::invalid_input, "tensor '{}' is both in {} and in {}", tensors[i].name,
                  place(tensors[at->second]), place(tensors[i]));
    }
  }
  return out;
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &tensors()[at->second];
}

void Checkpoint::will_read(const Tensor& tensor) const {
  if (tensor.file < files().size()) files()[tensor.file].will_read(tensor.stored());
}

void Checkpoint::release(const Tensor& tensor, uint64_t first_row, uint64_t count) const {
  // Memory that is no mapped file would be lost.
  if (tensor.file >= files().size() || tensor.rows() == 0) return;
  const uint64_t row = tensor.stored().size() / tensor.rows();
  files()[tensor.file].release(tensor.stored().subspan(first_row * row, count * row));
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t sum = 0;
  for (const MappedFile& file : files()) sum += file.bytes().size();
  return sum;
}

}  // namespace gale::format
