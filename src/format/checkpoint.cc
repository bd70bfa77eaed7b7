// Opens model files: one GGUF file, or all parts of a split one.
#include "format/checkpoint.h"

#include <optional>

#include "format/gguf.h"

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
  for (const auto* value : {&number, &count, &tensors}) GALE_TRY(*value);
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

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& path) {
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

  Checkpoint out;
  out.metadata_ = std::move(parts->front().contents.metadata);
  out.tensors_.reserve(tensor_count);
  out.files_.reserve(parts->size());
  for (Part& part : *parts) {
    for (Tensor& tensor : part.contents.tensors) {
      tensor.file = static_cast<uint32_t>(out.files_.size());
      out.tensors_.push_back(std::move(tensor));
    }
    out.files_.push_back(std::move(part.file));
  }
  out.index_.reserve(tensor_count);
  for (size_t i = 0; i < tensor_count; ++i) {
    const auto [at, inserted] = out.index_.emplace(out.tensors_[i].name, i);
    if (!inserted) {
      return fail(ErrorKind::invalid_input, "tensor '{}' is both in {} and in {}", out.tensors_[i].name,
                  out.files_[out.tensors_[at->second].file].path(), out.files_[out.tensors_[i].file].path());
    }
  }
  return out;
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t sum = 0;
  for (const MappedFile& file : files_) sum += file.bytes().size();
  return sum;
}

}  // namespace gale::format
