// Layout of GGUF files and their writing.
#include "format/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/checked.h"
#include "format/gguf.h"

namespace gale::format {
namespace {

constexpr size_t max_key_bytes = 65535;  // GGUF's limit

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

template <class T>
void put_number(std::string& out, T value, ValueType type) {
  switch (type) {
    case ValueType::u8:
      return put(out, static_cast<uint8_t>(value));
    case ValueType::i8:
      return put(out, static_cast<int8_t>(value));
    case ValueType::u16:
      return put(out, static_cast<uint16_t>(value));
    case ValueType::i16:
      return put(out, static_cast<int16_t>(value));
    case ValueType::u32:
      return put(out, static_cast<uint32_t>(value));
    case ValueType::i32:
      return put(out, static_cast<int32_t>(value));
    case ValueType::u64:
      return put(out, static_cast<uint64_t>(value));
    case ValueType::i64:
      return put(out, static_cast<int64_t>(value));
    case ValueType::f32:
      return put(out, static_cast<float>(value));
    case ValueType::f64:
      return put(out, static_cast<double>(value));
    case ValueType::boolean:
      return put(out, static_cast<uint8_t>(value != 0));
    case ValueType::string:
    case ValueType::array:
      return;  // no numbers
  }
}

void put_value(std::string& out, const Value& value, ValueType type) {
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          put(out, static_cast<uint32_t>(ValueType::string));
          put_text(out, v);
        } else if constexpr (std::is_arithmetic_v<T>) {
          put(out, static_cast<uint32_t>(type));
          put_number(out, v, type);
        } else {
          put(out, static_cast<uint32_t>(ValueType::array));
          put(out, static_cast<uint32_t>(type));
          put<uint64_t>(out, v.size());
          for (const auto& element : v) {
            if constexpr (std::is_same_v<T, std::vector<std::string_view>>) {
              put_text(out, element);
            } else {
              put_number(out, element, type);
            }
          }
        }
      },
      value);
}

Result<uint64_t> alignment_of(const Metadata& metadata) {
  const auto given = metadata.unsigned_integer("general.alignment");
  if (!given) return given.error();
  const uint64_t alignment = given->value_or(default_gguf_alignment);
  if (std::has_single_bit(alignment) && alignment <= UINT32_MAX) return alignment;
  return fail(ErrorKind::invalid_input, "metadata key 'general.alignment': must be a power of two, found {}",
              alignment);
}

Status check_name(const TensorEntry& tensor, std::unordered_set<std::string_view>& names) {
  if (tensor.name.empty() || tensor.name.size() > max_tensor_name_bytes) {
    return fail(ErrorKind::invalid_input, "tensor '{}': its name has {} bytes, a GGUF file takes 1 to {}", tensor.name,
                tensor.name.size(), max_tensor_name_bytes);
  }
  if (!names.insert(tensor.name).second) {
    return fail(ErrorKind::invalid_input, "tensor '{}': two tensors have this name", tensor.name);
  }
  return {};
}

Result<uint64_t> data_bytes(const TensorEntry& tensor) {
  std::optional<uint64_t> rows = 1;
  for (size_t d = 1; rows && d < tensor.shape.size(); ++d) rows = checked_multiply(*rows, tensor.shape[d]);
  const auto row_bytes = bytes_of(tensor.type, tensor.shape[0]);
  const auto bytes = rows && row_bytes ? checked_multiply(*rows, *row_bytes) : std::nullopt;
  if (bytes && *bytes > 0) return *bytes;
  return fail(ErrorKind::invalid_input, "tensor '{}': rows of {} values cannot be stored as {}, or the size overflows",
              tensor.name, tensor.shape[0], type_name(tensor.type));
}

}  // namespace

Result<GgufLayout> layout_gguf(const Metadata& metadata, std::span<const TensorEntry> tensors) {
  const auto alignment = alignment_of(metadata);
  if (!alignment) return alignment.error();
  GgufLayout out;
  out.header = "GGUF";
  put<uint32_t>(out.header, 3);
  put<uint64_t>(out.header, tensors.size());
  put<uint64_t>(out.header, metadata.keys().size());
  for (const std::string& key : metadata.keys()) {
    if (key.empty() || key.size() > max_key_bytes) {
      return fail(ErrorKind::invalid_input, "metadata key '{}': its name has {} bytes, a GGUF file takes 1 to {}",
                  key.substr(0, 80), key.size(), max_key_bytes);
    }
    put_text(out.header, key);
    put_value(out.header, *metadata.find(key), metadata.stored_type(key));
  }

  uint64_t end = 0;  // of the data so far
  std::unordered_set<std::string_view> names;
  for (const TensorEntry& tensor : tensors) {
    if (auto status = check_name(tensor, names); !status) return std::move(status).error();
    const auto bytes = data_bytes(tensor);
    if (!bytes) return bytes.error();
    put_text(out.header, tensor.name);
    put(out.header, static_cast<uint32_t>(tensor.dimensions));
    for (int d = 0; d < tensor.dimensions; ++d) put(out.header, tensor.shape[static_cast<size_t>(d)]);
    put(out.header, static_cast<uint32_t>(tensor.type));
    put(out.header, end);
    out.offsets.push_back(end);
    out.bytes.push_back(*bytes);
    const auto next = checked_add(end, *bytes);
    if (!next || *next > static_cast<uint64_t>(INT64_MAX)) {
      return fail(ErrorKind::limit, "tensor '{}': the size of the file overflows", tensor.name);
    }
    end = round_up(*next, *alignment);
  }
  const uint64_t data_start = round_up<uint64_t>(out.header.size(), *alignment);
  for (uint64_t& offset : out.offsets) offset += data_start;
  out.file_bytes = data_start + end;
  return out;
}

GgufWriter::GgufWriter(OutputFile file, GgufLayout layout) : file_(std::move(file)), layout_(std::move(layout)) {
  uint64_t bytes = 0;
  for (const uint64_t b : layout_.bytes) bytes += b;
  missing_bytes_ = std::make_unique<std::atomic<uint64_t>>(bytes);
}

Result<GgufWriter> GgufWriter::create(const std::string& path, const Metadata& metadata,
                                      std::span<const TensorEntry> tensors) {
  auto layout = layout_gguf(metadata, tensors);
  if (!layout) return in_file(path, layout.error());
  auto file = OutputFile::create(path, layout->file_bytes);
  if (!file) return std::move(file).error();
  if (auto status = file->write_at(0, std::as_bytes(std::span(layout->header))); !status) {
    return std::move(status).error();
  }
  layout->header.clear();
  layout->header.shrink_to_fit();
  return GgufWriter(*std::move(file), *std::move(layout));
}

Status GgufWriter::write(size_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
  if (offset > layout_.bytes[tensor] || bytes.size() > layout_.bytes[tensor] - offset) {
    return fail(ErrorKind::limit, "tensor {} of the file has {} bytes; {} at {} do not fit", tensor,
                layout_.bytes[tensor], bytes.size(), offset);
  }
  if (auto status = file_.write_at(layout_.offsets[tensor] + offset, bytes); !status) return status;
  missing_bytes_->fetch_sub(bytes.size(), std::memory_order_relaxed);
  return {};
}

Status GgufWriter::finish() {
  if (const uint64_t missing = missing_bytes_->load(); missing != 0) {
    return fail(ErrorKind::io, "the file is not complete: {} bytes of its tensors are missing", missing);
  }
  return file_.commit();
}

}  // namespace gale::format
