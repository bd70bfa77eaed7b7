// Parser of safetensors headers: takes the JSON text event by event, so that no tree of it is built, and checks every
// field.
#include "format/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/json_reason.h"
#include "format/metadata.h"

namespace gale::format {
namespace {

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // as the format's own library
constexpr size_t kMostNameBytes = 512;
constexpr size_t kDeepest = 8;  // of unknown fields; known ones need 3
constexpr std::string_view kMetadata = "__metadata__";

// What the header says about one tensor.
struct Entry {
  StoredTensor tensor;
  uint64_t begin = 0, end = 0;  // of its bytes, from the start of the data
};

// Receives the events of the JSON parser; each returns false to stop, with the reason in `error`.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  std::string error;  // "" or what is wrong, with the place

  bool start_object(std::size_t) override { return open('{'); }
  bool start_array(std::size_t) override { return open('['); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& text) override {
    if (depth_ == 1) return begin_entry(text);
    if (depth_ != 2 || in_metadata_) return true;
    field_ = text == "dtype"          ? Field::dtype
             : text == "shape"        ? Field::shape
             : text == "data_offsets" ? Field::offsets
                                      : Field::unknown;
    if (field_ == Field::unknown) return true;
    bool& seen = seen_[static_cast<size_t>(field_)];
    if (seen) return wrong("the field \"{}\" is there twice", text);
    seen = true;
    return true;
  }

  bool string(string_t& text) override {
    if (in_metadata_ && depth_ == 2) return true;
    if (depth_ != 2 || field_ != Field::dtype) return unexpected("a string");
    const auto type = parse_stored_type(text);
    if (!type) return wrong("its dtype {} is not supported", in_quotes(text));
    entries.back().tensor.type = *type;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 3 || (field_ != Field::shape && field_ != Field::offsets)) return unexpected("a number");
    Entry& entry = entries.back();
    if (field_ == Field::shape) {
      StoredTensor& tensor = entry.tensor;
      if (tensor.dimensions == tensor.shape.size()) return wrong("it has more than {} dimensions", tensor.shape.size());
      tensor.shape[tensor.dimensions++] = value;
      return true;
    }
    if (offsets_ == 2) return wrong("data_offsets has more than two numbers");
    (offsets_++ == 0 ? entry.begin : entry.end) = value;
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a bool"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a number that is no integer"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& what) override {
    error = "the header is no valid JSON: " + json_reason(what.what());
    return false;
  }

 private:
  enum class Field { dtype, shape, offsets, unknown };

  template <class... Args>
  bool wrong(fmt::format_string<Args...> format, Args&&... args) {
    const std::string place = in_metadata_ ? fmt::format("{}: ", kMetadata)
                              : entries.empty() || depth_ < 2
                                  ? "header: "
                                  : fmt::format("tensor {}: ", in_quotes(entries.back().tensor.name));
    error = place + fmt::format(format, std::forward<Args>(args)...);
    return false;
  }

  bool unexpected(std::string_view what) {
    if (!in_metadata_ && depth_ >= 2 && field_ == Field::unknown) return true;
    return wrong("{} where none belongs", what);
  }

  bool begin_entry(const std::string& name) {
    in_metadata_ = name == kMetadata;
    if (in_metadata_) {
      if (std::exchange(has_metadata_, true)) return wrong("it is there twice");
      return true;
    }
    if (name.empty() || name.size() > kMostNameBytes)
      return wrong("a tensor has a name of {} bytes, 1 to {} are possible", name.size(), kMostNameBytes);
    if (has_control_characters(name)) return wrong("the name {} has control characters", in_quotes(name));
    entries.emplace_back().tensor.name = name;
    std::fill(std::begin(seen_), std::end(seen_), false);
    field_ = Field::unknown;
    offsets_ = 0;
    return true;
  }

  bool open(char bracket) {
    if (depth_ == kDeepest) return wrong("the header is nested more than {} deep", kDeepest);
    const bool fits = depth_ < 2 ? bracket == '{'
                      : depth_ == 2 && !in_metadata_ && (field_ == Field::shape || field_ == Field::offsets)
                          ? bracket == '['
                          : !in_metadata_ && field_ == Field::unknown;
    if (!fits) return wrong("{} where none belongs", bracket == '{' ? "an object" : "an array");
    ++depth_;
    return true;
  }

  bool close() {
    if (depth_ != 2 || in_metadata_) {
      --depth_;
      return true;
    }
    constexpr const char* names[] = {"dtype", "shape", "data_offsets"};
    for (size_t i = 0; i < std::size(names); ++i)
      if (!seen_[i]) return wrong("the field \"{}\" is missing", names[i]);
    if (offsets_ != 2) return wrong("data_offsets has {} numbers, two are needed", offsets_);
    --depth_;
    return true;
  }

  size_t depth_ = 0;
  bool in_metadata_ = false, has_metadata_ = false;
  Field field_ = Field::unknown;
  bool seen_[3] = {};  // by Field, of the current tensor
  size_t offsets_ = 0;
};

// Checks one entry against its own fields and the `data` of the file, and finds its bytes there.
Status place(Entry& entry, std::span<const std::byte> data, const std::string& file) {
  StoredTensor& tensor = entry.tensor;
  const auto wrong = [&](const std::string& reason) {
    return fail(ErrorKind::invalid_input, "{}: tensor {}: {}", file, in_quotes(tensor.name), reason);
  };
  std::optional<uint64_t> bytes = stored_type_info(tensor.type).bytes;
  for (const uint64_t size : tensor.sizes()) {
    bytes = checked_multiply(*bytes, size);
    if (!bytes) return wrong(fmt::format("the product of its shape [{}] overflows", fmt::join(tensor.sizes(), ", ")));
  }
  if (entry.begin > entry.end)
    return wrong(fmt::format("its data_offsets [{}, {}] end before they begin", entry.begin, entry.end));
  if (entry.end - entry.begin != *bytes)
    return wrong(fmt::format("its data_offsets [{}, {}] hold {} bytes, but its shape [{}] of {} needs {}", entry.begin,
                             entry.end, entry.end - entry.begin, fmt::join(tensor.sizes(), ", "),
                             stored_type_info(tensor.type).name, *bytes));
  if (entry.end > data.size())
    return wrong(
        fmt::format("its data_offsets [{}, {}] lie beyond the end of the file ({} bytes of data): the file is "
                    "cut off or damaged",
                    entry.begin, entry.end, data.size()));
  tensor.bytes = data.subspan(entry.begin, *bytes);
  return {};
}

Status check_names(const std::vector<Entry>& entries, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) names.push_back(entry.tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return fail(ErrorKind::invalid_input, "{}: tensor {}: it is there twice", file, in_quotes(*twice));
}

// `entries` are in the order of their data.
Status check_overlap(const std::vector<Entry>& entries, const std::string& file) {
  const Entry* before = nullptr;  // the last one that has bytes
  for (const Entry& entry : entries) {
    if (entry.begin == entry.end) continue;
    if (before && entry.begin < before->end)
      return fail(ErrorKind::invalid_input, "{}: tensor {}: its data at offset {} overlaps with that of tensor {}",
                  file, in_quotes(entry.tensor.name), entry.begin, in_quotes(before->tensor.name));
    before = &entry;
  }
  return {};
}

// The JSON text between the length and the data.
Result<std::string_view> header_of(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (all.starts_with("version https://git-lfs"))
    return fail(ErrorKind::invalid_input,
                "{}: not a safetensors file but a Git LFS pointer to one: fetch the file itself with 'git lfs pull'",
                file);
  uint64_t length = 0;
  if (all.size() < sizeof length)
    return fail(ErrorKind::invalid_input, "{}: header length: a safetensors file begins with 8 bytes, this one has {}",
                file, all.size());
  std::memcpy(&length, all.data(), sizeof length);
  if (length > all.size() - sizeof length)
    return fail(ErrorKind::invalid_input,
                "{}: header length: it claims {} bytes, but only {} are left in the file: it is cut off, damaged or no "
                "safetensors file",
                file, length, all.size() - sizeof length);
  if (length > kMostHeaderBytes)
    return fail(ErrorKind::limit, "{}: header length: it claims {} bytes, at most {} are possible", file, length,
                kMostHeaderBytes);
  return all.substr(sizeof length, length);
}

}  // namespace

std::string describe(const StoredTensor& tensor) {
  return fmt::format("{} [{}]", stored_type_info(tensor.type).name, fmt::join(tensor.sizes(), ", "));
}

Result<std::vector<StoredTensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  const auto header = header_of(bytes, name);
  if (!header) return header.error();
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header->begin(), header->end(), &reader))
    return fail(ErrorKind::invalid_input, "{}: {}", name, reader.error);
  std::vector<Entry>& entries = reader.entries;
  if (auto status = check_names(entries, name); !status) return std::move(status).error();
  const auto data = bytes.subspan(sizeof(uint64_t) + header->size());
  for (Entry& entry : entries)
    if (auto status = place(entry, data, name); !status) return std::move(status).error();
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  if (auto status = check_overlap(entries, name); !status) return std::move(status).error();

  std::vector<StoredTensor> out;
  out.reserve(entries.size());
  for (Entry& entry : entries) out.push_back(std::move(entry.tensor));
  return out;
}

}  // namespace gale::format
