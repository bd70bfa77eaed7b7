// Decodes all tensors chunk by chunk and counts the values that no model can mean.
#include "format/check.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace gale::format {
namespace {

// Values per chunk: a multiple of the values of every block, 1 MB of floats.
constexpr uint64_t kChunk = uint64_t{1} << 18;

struct BadValues {
  uint64_t nan = 0, infinite = 0;
  std::optional<uint64_t> first;  // place of the first one

  void count(std::span<const float> values, uint64_t begin) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      ++(std::isnan(values[i]) ? nan : infinite);
      if (!first) first = begin + i;
    }
  }
};

class Checker {
 public:
  Checker(const Checkpoint& checkpoint, const std::function<void(uint64_t, uint64_t)>& progress,
          const std::atomic<bool>* cancel)
      : checkpoint_(checkpoint), progress_(progress), cancel_(cancel) {
    for (const Tensor& tensor : checkpoint.tensors()) total_ += tensor.stored().size();
  }

  CheckReport run() {
    for (const Tensor& tensor : checkpoint_.tensors()) {
      if (cancelled()) break;
      const auto info = type_info(tensor.type);
      if (!info || !info->decodable) {
        note(tensor, fmt::format("values of type {} cannot be read, so they were not checked", type_name(tensor.type)));
        continue;
      }
      ++report_.tensors;
      const uint64_t before = report_.bytes;
      if (tensor.recipe)
        check_rows(tensor);
      else
        check_view(tensor, *info);
      report_.bytes = before + tensor.stored().size();
    }
    return std::move(report_);
  }

 private:
  bool cancelled() const { return cancel_ && cancel_->load(); }

  void note(const Tensor& tensor, std::string_view text) {
    report_.findings.push_back({/*wrong=*/false, fmt::format("tensor '{}': {}", tensor.name, text)});
  }

  void check_view(const Tensor& tensor, const TypeInfo& info) {
    BadValues bad;
    for (uint64_t begin = 0; begin < tensor.values() && !cancelled(); begin += kChunk) {
      const uint64_t count = std::min(kChunk, tensor.values() - begin);
      const uint64_t first = begin / info.values_per_block * info.bytes_per_block;
      values_.resize(count);
      const auto part = tensor.bytes.subspan(first, count / info.values_per_block * info.bytes_per_block);
      if (!decode(tensor.type, part, values_).ok()) return;  // no decodable type gets here
      done(tensor, bad, begin, part.size());
    }
    conclude(tensor, bad);
  }

  void check_rows(const Tensor& tensor) {
    BadValues bad;
    const uint64_t rows = std::max<uint64_t>(1, kChunk / tensor.row_length());
    for (uint64_t row = 0; row < tensor.rows() && !cancelled(); row += rows) {
      const uint64_t count = std::min(rows, tensor.rows() - row);
      values_.resize(count * tensor.row_length());
      if (!decode_rows(tensor, row, count, buffer_, values_).ok()) return;
      done(tensor, bad, row * tensor.row_length(), tensor.stored().size() / tensor.rows() * count);
    }
    conclude(tensor, bad);
  }

  // Counts what is in values_, and gives the pages that it came from back.
  void done(const Tensor& tensor, BadValues& bad, uint64_t begin, uint64_t bytes) {
    bad.count(values_, begin);
    checkpoint_.release(tensor, begin / tensor.row_length(), values_.size() / tensor.row_length());
    report_.bytes += bytes;
    if (progress_) progress_(report_.bytes, total_);
  }

  void conclude(const Tensor& tensor, const BadValues& bad) {
    checkpoint_.release(tensor);
    if (!bad.first) return;
    std::string counts;
    if (bad.nan > 0) counts += fmt::format("{} of {} values are NaN", bad.nan, tensor.values());
    if (bad.infinite > 0)
      counts +=
          fmt::format("{}{} of {} values are infinite", counts.empty() ? "" : ", ", bad.infinite, tensor.values());
    report_.findings.push_back(
        {/*wrong=*/true, fmt::format("tensor '{}': {}; the first is value {} of row {}", tensor.name, counts,
                                     *bad.first % tensor.row_length(), *bad.first / tensor.row_length())});
  }

  const Checkpoint& checkpoint_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  const std::atomic<bool>* cancel_;
  uint64_t total_ = 0;
  std::vector<float> values_;
  std::vector<std::byte> buffer_;
  CheckReport report_;
};

}  // namespace

uint64_t CheckReport::count_wrong() const {
  return static_cast<uint64_t>(
      std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return f.wrong; }));
}

CheckReport check_values(const Checkpoint& checkpoint, const std::function<void(uint64_t, uint64_t)>& progress,
                         const std::atomic<bool>* cancel) {
  return Checker(checkpoint, progress, cancel).run();
}

}  // namespace gale::format
