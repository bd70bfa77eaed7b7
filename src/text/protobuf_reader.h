// The wire format of protocol buffers: field after field of one message.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace gale::text {

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message), size_(message.size()) {}

  // Goes to the next field; false: the end, or a broken message.
  bool next() {
    uint64_t tag = 0;
    if (rest_.empty() || !varint(tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return finish();
    field_ = static_cast<uint32_t>(tag >> 3);
    wire_ = static_cast<uint32_t>(tag & 7);
    bytes_ = {};
    number_ = 0;
    switch (wire_) {
      case 0:
        return varint(number_) || finish();
      case 1:
        return take(8) || finish();
      case 2:
        return (varint(number_) && take(number_)) || finish();
      case 5:
        return take(4) || finish();
      default:
        return finish();
    }
  }

  uint32_t field() const { return field_; }
  bool is_bytes() const { return wire_ == 2; }
  bool is_number() const { return wire_ == 0; }
  bool is_real() const { return wire_ == 5; }
  std::string_view bytes() const { return bytes_; }
  int64_t number() const { return static_cast<int64_t>(number_); }
  float real() const {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes_.data(), sizeof(bits));
    return std::bit_cast<float>(bits);
  }
  // After the last next(): was the message whole?
  bool whole() const { return rest_.empty() && !broken_; }
  // Bytes read so far.
  size_t position() const { return size_ - rest_.size(); }

 private:
  bool finish() {
    broken_ = broken_ || !rest_.empty();
    return false;
  }
  bool varint(uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    broken_ = true;
    return false;
  }
  bool take(uint64_t count) {
    if (count > rest_.size()) {
      broken_ = true;
      return false;
    }
    bytes_ = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }

  std::string_view rest_;
  size_t size_;
  uint32_t field_ = 0, wire_ = 0;
  std::string_view bytes_;
  uint64_t number_ = 0;
  bool broken_ = false;
};

}  // namespace gale::text
