// Parser of GGUF headers: walks the bytes once, checks every field before it is used, and names it when it is wrong.
#include "format/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "base/checked.h"

namespace gale::format {
namespace {

constexpr std::string_view value_type_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                 "bool", "string", "array", "u64", "i64", "f64"};
constexpr uint32_t value_type_count = std::size(value_type_names);

constexpr size_t min_key_bytes = 8 + 1 + 4 + 1;             // length, one letter, type, one byte of value
constexpr size_t min_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;  // length, one letter, n_dims, one dim, type, offset

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& name)
      : data_(reinterpret_cast<const char*>(bytes.data())), size_(bytes.size()), file_(name) {}

  Result<GgufContents> parse() {
    if (auto status = read_magic(); !status) return std::move(status).error();
    if (auto status = read_version(); !status) return std::move(status).error();
    uint64_t tensor_count = 0, key_count = 0;
    if (auto status = read(tensor_count, "tensor count"); !status) return std::move(status).error();
    if (auto status = read(key_count, "key count"); !status) return std::move(status).error();
    if (auto status = check_count(tensor_count, min_tensor_bytes, "tensor count"); !status)
      return std::move(status).error();
    if (auto status = check_count(key_count, min_key_bytes, "key count"); !status) return std::move(status).error();
    for (uint64_t i = 0; i < key_count; ++i)
      if (auto status = read_pair(i); !status) return std::move(status).error();
    place_.clear();
    if (auto status = check_count(tensor_count, min_tensor_bytes, "tensor count"); !status)
      return std::move(status).error();
    contents_.tensors.reserve(tensor_count);
    offsets_.reserve(tensor_count);
    std::unordered_set<std::string_view> names;
    names.reserve(tensor_count);
    for (uint64_t i = 0; i < tensor_count; ++i)
      if (auto status = read_tensor(i, names); !status) return std::move(status).error();
    if (auto status = place_tensors(); !status) return std::move(status).error();
    return std::move(contents_);
  }

 private:
  size_t left() const { return size_ - at_; }

  // An error of the field that is being read: "FILE: PLACE: REASON".
  template <class... Args>
  Error wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorKind::invalid_input, "{}: {}{}{}", file_, place_, place_.empty() ? "" : ": ",
                fmt::format(format, std::forward<Args>(args)...));
  }

  Error truncated(std::string_view what, uint64_t needed) const {
    return wrong("{} needs {} bytes at offset {}, but the file ends at {}: it is cut off or damaged", what, needed, at_,
                 size_);
  }

  template <class T>
  Status read(T& out, std::string_view what) {
    if (left() < sizeof(T)) return truncated(what, sizeof(T));
    std::memcpy(&out, data_ + at_, sizeof(T));
    at_ += sizeof(T);
    return {};
  }

  Status read_text(std::string_view& out, std::string_view what) {
    uint64_t length = 0;
    if (left() < sizeof length) return truncated(fmt::format("{} (its length)", what), sizeof length);
    std::memcpy(&length, data_ + at_, sizeof length);
    if (length > left() - sizeof length) {
      return wrong("{} claims a length of {} bytes, but only {} are left in the file", what, length,
                   left() - sizeof length);
    }
    at_ += sizeof length;
    out = {data_ + at_, static_cast<size_t>(length)};
    at_ += length;
    return {};
  }

  // A count from the file is impossible if its items cannot fit, at their smallest, into what is left.
  Status check_count(uint64_t count, size_t min_item_bytes, std::string_view what) const {
    if (count <= left() / min_item_bytes) return {};
    return wrong("{} is {}, which cannot fit into the {} bytes that are left in the file", what, count, left());
  }

  Status read_magic() {
    if (size_ >= 4 && std::memcmp(data_, "GGUF", 4) == 0) {
      at_ = 4;
      return {};
    }
    const std::string_view all(data_, size_);
    if (all.starts_with("version https://git-lfs")) {
      return wrong("not a GGUF file but a Git LFS pointer to one: fetch the file itself with 'git lfs pull'");
    }
    if (size_ > 9 && all[8] == '{' && all.substr(4, 4) == std::string_view("\0\0\0\0", 4)) {
      return wrong("not a GGUF file but, it seems, a safetensors file: convert it to GGUF first");
    }
    for (const std::string_view old : {"lmgg", "tjgg", "fmgg", "algg"}) {
      if (all.starts_with(old)) {
        return wrong("not a GGUF file but one of the formats before it (magic {}): convert the model again",
                     in_quotes(old));
      }
    }
    constexpr size_t shown_bytes = 16;
    std::string_view start = all.substr(0, shown_bytes);
    start = start.substr(0, start.find_first_of("\r\n"));
    return wrong("not a GGUF file: it starts with {}, not \"GGUF\"", in_quotes(start));
  }

  Status read_version() {
    uint32_t version = 0;
    if (auto status = read(version, "version"); !status) return std::move(status).error();
    if (version == 2 || version == 3) return {};
    if (version == 1) {
      return fail(ErrorKind::unsupported, "{}: GGUF version 1 is not supported: convert the model again", file_);
    }
    if (version != 0 && (version & 0xFFFF) == 0) {
      return fail(ErrorKind::unsupported, "{}: big-endian GGUF file (version field {:#x}): convert it to little endian",
                  file_, version);
    }
    return fail(ErrorKind::unsupported, "{}: GGUF version {} is not supported, only 2 and 3 are", file_, version);
  }

  Status read_pair(uint64_t number) {
    place_ = fmt::format("key {}", number);
    std::string_view key;
    if (auto status = read_text(key, "name"); !status) return std::move(status).error();
    if (key.empty()) return wrong("its name is empty");
    place_ = fmt::format("key {}", in_quotes(key));
    if (has_control_characters(key)) return wrong("its name has control characters");
    if (contents_.metadata.find(key)) return wrong("it is there twice");
    uint32_t type = 0;
    if (auto status = read(type, "type"); !status) return std::move(status).error();
    if (type >= value_type_count) return wrong("value type {} is not known", type);
    Value value;
    auto stored_type = static_cast<ValueType>(type);
    if (stored_type == ValueType::array) {
      if (auto status = read_array(value, stored_type); !status) return std::move(status).error();
    } else {
      if (auto status = read_single(stored_type, value); !status) return std::move(status).error();
    }
    if (key == "general.alignment") {
      if (static_cast<ValueType>(type) != ValueType::u32) {
        return wrong("it must be a u32, found {} {}", value_type_names[type], describe(value));
      }
      alignment_ = std::get<uint64_t>(value);
      if (!std::has_single_bit(alignment_)) return wrong("it must be a power of two, found {}", alignment_);
    }
    return contents_.metadata.add(key, std::move(value), stored_type);
  }

  template <class T, class Wide>
  Status read_number(Value& out) {
    T value{};
    if (auto status = read(value, "value"); !status) return std::move(status).error();
    out = static_cast<Wide>(value);
    return {};
  }

  Status read_single(ValueType type, Value& out) {
    switch (type) {
      case ValueType::u8:
        return read_number<uint8_t, uint64_t>(out);
      case ValueType::i8:
        return read_number<int8_t, int64_t>(out);
      case ValueType::u16:
        return read_number<uint16_t, uint64_t>(out);
      case ValueType::i16:
        return read_number<int16_t, int64_t>(out);
      case ValueType::u32:
        return read_number<uint32_t, uint64_t>(out);
      case ValueType::i32:
        return read_number<int32_t, int64_t>(out);
      case ValueType::u64:
        return read_number<uint64_t, uint64_t>(out);
      case ValueType::i64:
        return read_number<int64_t, int64_t>(out);
      case ValueType::f32:
        return read_number<float, double>(out);
      case ValueType::f64:
        return read_number<double, double>(out);
      case ValueType::boolean: {
        uint8_t value = 0;
        if (auto status = read(value, "value"); !status) return std::move(status).error();
        if (value > 1) return wrong("a bool must be 0 or 1, found {}", value);
        out = value == 1;
        return {};
      }
      case ValueType::string: {
        std::string_view text;
        if (auto status = read_text(text, "value"); !status) return std::move(status).error();
        out = text;
        return {};
      }
      case ValueType::array:
        break;  // read_array
    }
    return wrong("value type {} is not known", static_cast<uint32_t>(type));
  }

  template <class T, class Wide>
  Status read_numbers(uint64_t count, Value& out) {
    if (auto status = check_count(count, sizeof(T), "array length"); !status) return std::move(status).error();
    std::vector<Wide> values(count);
    if constexpr (std::is_same_v<T, Wide>) {
      if (count > 0) std::memcpy(values.data(), data_ + at_, count * sizeof(T));
    } else {
      for (uint64_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, data_ + at_ + i * sizeof(T), sizeof(T));
        values[i] = static_cast<Wide>(value);
      }
    }
    at_ += count * sizeof(T);
    out = std::move(values);
    return {};
  }

  Status read_texts(uint64_t count, Value& out) {
    if (auto status = check_count(count, sizeof(uint64_t), "array length"); !status) return std::move(status).error();
    std::vector<std::string_view> texts(count);
    for (uint64_t i = 0; i < count; ++i) {
      // The two checks are inline because vocabularies have a million elements; read_text() makes the message.
      uint64_t length = 0;
      const bool has_length = left() >= sizeof length;
      if (has_length) std::memcpy(&length, data_ + at_, sizeof length);
      if (!has_length || length > left() - sizeof length) {
        std::string_view unused;
        return read_text(unused, fmt::format("element {}", i));
      }
      at_ += sizeof length;
      texts[i] = {data_ + at_, static_cast<size_t>(length)};
      at_ += length;
    }
    out = std::move(texts);
    return {};
  }

  Status read_array(Value& out, ValueType& element) {
    uint32_t type = 0;
    uint64_t count = 0;
    if (auto status = read(type, "array element type"); !status) return std::move(status).error();
    if (type >= value_type_count) return wrong("array element type {} is not known", type);
    if (auto status = read(count, "array length"); !status) return std::move(status).error();
    element = static_cast<ValueType>(type);
    switch (element) {
      case ValueType::u8:
        return read_numbers<uint8_t, uint64_t>(count, out);
      case ValueType::i8:
        return read_numbers<int8_t, int64_t>(count, out);
      case ValueType::u16:
        return read_numbers<uint16_t, uint64_t>(count, out);
      case ValueType::i16:
        return read_numbers<int16_t, int64_t>(count, out);
      case ValueType::u32:
        return read_numbers<uint32_t, uint64_t>(count, out);
      case ValueType::i32:
        return read_numbers<int32_t, int64_t>(count, out);
      case ValueType::u64:
        return read_numbers<uint64_t, uint64_t>(count, out);
      case ValueType::i64:
        return read_numbers<int64_t, int64_t>(count, out);
      case ValueType::f32:
        return read_numbers<float, float>(count, out);
      case ValueType::f64:
        return read_numbers<double, double>(count, out);
      case ValueType::string:
        return read_texts(count, out);
      case ValueType::array:
        return wrong("arrays of arrays are not supported");
      case ValueType::boolean: {
        if (auto status = (read_numbers<uint8_t, uint8_t>(count, out)); !status) return std::move(status).error();
        const auto& values = std::get<std::vector<uint8_t>>(out);
        const auto bad = std::find_if(values.begin(), values.end(), [](uint8_t v) { return v > 1; });
        if (bad == values.end()) return {};
        return wrong("element {}: a bool must be 0 or 1, found {}", bad - values.begin(), *bad);
      }
    }
    return wrong("array element type {} is not known", type);
  }

  Status read_tensor(uint64_t number, std::unordered_set<std::string_view>& names) {
    place_ = fmt::format("tensor {}", number);
    std::string_view name;
    if (auto status = read_text(name, "name"); !status) return std::move(status).error();
    if (name.empty()) return wrong("its name is empty");
    place_ = fmt::format("tensor {}", in_quotes(name));
    if (has_control_characters(name)) return wrong("its name has control characters");
    if (name.size() > max_tensor_name_bytes) {
      return wrong("its name has {} bytes, at most {} are allowed", name.size(), max_tensor_name_bytes);
    }
    if (!names.insert(name).second) return wrong("it is there twice");
    Tensor tensor;
    tensor.name = name;
    uint32_t dimensions = 0;
    if (auto status = read(dimensions, "number of dimensions"); !status) return std::move(status).error();
    if (dimensions < 1 || dimensions > tensor.shape.size()) {
      return wrong("it has {} dimensions, 1 to {} are possible", dimensions, tensor.shape.size());
    }
    tensor.dimensions = static_cast<int>(dimensions);
    uint64_t values = 1;
    for (uint32_t d = 0; d < dimensions; ++d) {
      if (auto status = read(tensor.shape[d], "dimension"); !status) return std::move(status).error();
      if (tensor.shape[d] == 0) return wrong("dimension {} is 0", d);
      const auto product = checked_multiply(values, tensor.shape[d]);
      if (!product) return wrong("the product of its dimensions overflows at dimension {} ({})", d, tensor.shape[d]);
      values = *product;
    }
    uint32_t type = 0;
    if (auto status = read(type, "type"); !status) return std::move(status).error();
    tensor.type = static_cast<TensorType>(type);
    const auto info = type_info(tensor.type);
    if (!info) {
      return fail(ErrorKind::unsupported, "{}: {}: type id {} is not known: it is retired or newer than this version",
                  file_, place_, type);
    }
    if (tensor.shape[0] % info->values_per_block != 0) {
      return wrong("its rows have {} values, which is no multiple of the {} values of a {} block", tensor.shape[0],
                   info->values_per_block, info->name);
    }
    const auto bytes = bytes_of(tensor.type, values);
    if (!bytes) return wrong("the size of its {} values overflows", values);
    uint64_t offset = 0;
    if (auto status = read(offset, "offset"); !status) return std::move(status).error();
    offsets_.push_back({offset, *bytes});
    contents_.tensors.push_back(std::move(tensor));
    return {};
  }

  // Finds the bytes of each tensor once the end of the header, and so the start of the data, is known.
  Status place_tensors() {
    const uint64_t data_start = round_up<uint64_t>(at_, alignment_);
    const uint64_t data_size = data_start < size_ ? size_ - data_start : 0;
    for (size_t i = 0; i < offsets_.size(); ++i) {
      const auto [offset, bytes] = offsets_[i];
      Tensor& tensor = contents_.tensors[i];
      place_ = fmt::format("tensor {}", in_quotes(tensor.name));
      if (offset % alignment_ != 0)
        return wrong("its offset {} is no multiple of the alignment {}", offset, alignment_);
      if (offset > data_size || bytes > data_size - offset) {
        return wrong(
            "its {} bytes at data offset {} lie beyond the end of the file ({} bytes of data): the file is cut "
            "off or damaged",
            bytes, offset, data_size);
      }
      tensor.bytes = std::as_bytes(std::span(data_ + data_start + offset, bytes));
    }
    return check_overlap();
  }

  Status check_overlap() {
    std::vector<size_t> order(offsets_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return offsets_[a].offset < offsets_[b].offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const Extent& before = offsets_[order[i - 1]];
      if (offsets_[order[i]].offset >= before.offset + before.bytes) continue;
      place_ = fmt::format("tensor {}", in_quotes(contents_.tensors[order[i]].name));
      return wrong("its data at offset {} overlaps with that of tensor {}", offsets_[order[i]].offset,
                   in_quotes(contents_.tensors[order[i - 1]].name));
    }
    return {};
  }

  struct Extent {
    uint64_t offset, bytes;  // offset from the start of the data
  };

  const char* data_;
  size_t size_;
  const std::string& file_;
  size_t at_ = 0;
  std::string place_;  // what is being read, for messages
  uint64_t alignment_ = default_gguf_alignment;
  std::vector<Extent> offsets_;
  GgufContents contents_;
};

}  // namespace

Result<GgufContents> parse_gguf(std::span<const std::byte> bytes, const std::string& name) {
  return Parser(bytes, name).parse();
}

}  // namespace gale::format
