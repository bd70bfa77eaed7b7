// The plan of a conversion (types, header, what to refuse), and its work: pieces of tensors, taken by whoever is free.
#include "engine/convert.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <new>

#include "base/checked.h"
#include "base/log.h"
#include "base/team.h"
#include "engine/vocabulary_metadata.h"
#include "exec/cpu/tiles.h"
#include "format/checkpoint.h"
#include "format/encode.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"

namespace gale::engine {
namespace {

using format::Checkpoint;
using format::Tensor;
using format::TensorEntry;
using format::TensorType;

constexpr uint64_t quantisation_version = 2;  // of GGUF's block types
constexpr uint64_t piece_values = 1 << 17;    // half a megabyte of floats: fits the cache of a core
constexpr uint64_t release_bytes = 64 << 20;  // pages of the source that may be in memory

bool is_quantised(TensorType type) {
  return format::type_info(type)->values_per_block > 1;
}

// The new file's table, and the tensor of the source that each entry is made of.
struct TensorPlan {
  std::vector<const Tensor*> sources;
  std::vector<TensorEntry> entries;
};

// All tensors of the source, except those of a directory whose names are too long for a GGUF file (of parts of the
// model that see or hear).
TensorPlan list_tensors(const Checkpoint& source) {
  TensorPlan plan;
  size_t left_out = 0;
  for (const Tensor& tensor : source.tensors()) {
    if (tensor.name.size() > format::max_tensor_name_bytes) {
      if (left_out++ == 0) {
        log(LogLevel::warning, "tensor '{}' is left out: its name is too long for a GGUF file", tensor.name);
      }
      continue;
    }
    plan.sources.push_back(&tensor);
    plan.entries.push_back({tensor.name, tensor.type, tensor.shape, tensor.dimensions});
  }
  if (left_out > 1) log(LogLevel::warning, "{} more tensors are left out for this reason", left_out - 1);
  return plan;
}

Status check_change(const Checkpoint& source, const Tensor& tensor, TensorType to, bool may_requantise) {
  if (!format::type_info(tensor.type)->decodable) {
    return fail(ErrorKind::unsupported, "tensor '{}': values of type {} cannot be decoded by this version", tensor.name,
                format::type_name(tensor.type));
  }
  if (is_quantised(tensor.type) && !may_requantise) {
    return fail(ErrorKind::invalid_input,
                "tensor '{}' is quantised already ({}) and would become {}: convert from the original model, or allow "
                "the loss with --requantize",
                tensor.name, format::type_name(tensor.type), format::type_name(to));
  }
  const std::string scale = tensor.name.substr(0, tensor.name.rfind('.')) + ".scale";
  if (tensor.type == TensorType::nvfp4 && source.find(scale) != nullptr) {
    return fail(ErrorKind::unsupported, "tensor '{}': NVFP4 with a factor of its own ('{}') can only be copied",
                tensor.name, scale);
  }
  return {};
}

Result<TensorPlan> plan_tensors(const Checkpoint& source, const ConvertOptions& options) {
  TensorPlan plan = list_tensors(source);
  const auto types = format::choose_types(*options.mix, source.metadata(), plan.entries);
  if (!types) return types.error();
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    plan.entries[i].type = (*types)[i];
    const Tensor& tensor = *plan.sources[i];
    if (tensor.type == (*types)[i]) continue;
    if (auto status = check_change(source, tensor, (*types)[i], options.requantise); !status) {
      return std::move(status).error();
    }
  }
  return plan;
}

// The new file's settings: those of the source, and what a directory holds in files of its own. Texts of the latter
// belong to `vocabulary`.
Result<format::Metadata> plan_metadata(const Checkpoint& source, const ConvertOptions& options,
                                       std::optional<text::Vocabulary>& vocabulary) {
  format::Metadata metadata = source.metadata();
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) metadata.remove(key);
  metadata.set("general.quantization_version", quantisation_version);
  metadata.set("general.file_type", uint64_t{options.mix->file_type});
  if (source.directory().empty()) return metadata;

  if (source.find("token_embd.weight") == nullptr) {
    const auto architecture = metadata.text("general.architecture");
    return fail(ErrorKind::unsupported,
                "the tensors of a directory of the family '{}' have no known names in GGUF files: it cannot be "
                "converted by this version",
                architecture && *architecture ? **architecture : "");
  }
  auto found = read_vocabulary(source);
  if (!found) return std::move(found).error();
  vocabulary = *std::move(found);
  if (!vocabulary) {
    log(LogLevel::warning, "{}: there is no tokenizer, so that the new file has no vocabulary", source.directory());
    metadata.set("tokenizer.ggml.model", std::string_view("no_vocab"));
    return metadata;
  }
  if (auto status = write_vocabulary(*vocabulary, metadata); !status) return std::move(status).error();
  return metadata;
}

// Rows of one tensor, few enough for the buffers of one thread.
struct Piece {
  size_t tensor;
  uint64_t first_row, rows;
};

// All pieces of all tensors, numbered through, without a list of them.
class Pieces {
 public:
  explicit Pieces(const std::vector<const Tensor*>& tensors) : tensors_(tensors) {
    for (const Tensor* tensor : tensors) {
      starts_.push_back(count_);
      count_ += divide_up(tensor->rows(), rows_per_piece(*tensor));
    }
  }

  uint64_t count() const { return count_; }

  Piece operator[](uint64_t index) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), index);
    const auto tensor = static_cast<size_t>(after - starts_.begin()) - 1;
    const uint64_t step = rows_per_piece(*tensors_[tensor]), first = (index - starts_[tensor]) * step;
    return {tensor, first, std::min(step, tensors_[tensor]->rows() - first)};
  }

 private:
  static uint64_t rows_per_piece(const Tensor& tensor) {
    return std::max<uint64_t>(1, piece_values / tensor.row_length());
  }

  const std::vector<const Tensor*>& tensors_;
  std::vector<uint64_t> starts_;  // number of each tensor's first piece
  uint64_t count_ = 0;
};

class Conversion {
 public:
  Conversion(const Checkpoint& source, const TensorPlan& plan, format::GgufWriter& writer, Isa isa,
             const ConvertOptions& options)
      : source_(source), plan_(plan), writer_(writer), isa_(isa), options_(options), pieces_(plan.sources) {
    for (const Tensor* tensor : plan.sources) total_bytes_ += tensor->byte_size();
  }

  Status run(Team& team) {
    team.run([&](int member) { work(member); });
    if (error_) return *std::move(error_);
    return {};
  }

 private:
  // What a thread keeps from piece to piece.
  struct Buffers {
    std::vector<std::byte> source, out;
    std::vector<float> values;
  };

  void work(int member) {
    Buffers buffers;
    while (!stop_) {
      const uint64_t i = next_++;  // from here on it is done, so that the first wrong piece is always found
      if (i >= pieces_.count()) return;
      if (options_.cancel != nullptr && options_.cancel->load()) {
        return note(i, fail(ErrorKind::cancelled, "the conversion was cancelled"));
      }
      const Piece piece = pieces_[i];
      if (auto status = write_piece(piece, buffers); !status) return note(i, std::move(status).error());
      finished(piece);
      if (member == 0 && options_.progress) options_.progress(done_bytes_, total_bytes_);
    }
  }

  Status write_piece(const Piece& piece, Buffers& buffers) try {
    const Tensor& tensor = *plan_.sources[piece.tensor];
    const TensorEntry& entry = plan_.entries[piece.tensor];
    if (piece.first_row == 0) source_.will_read(tensor);
    const uint64_t row_bytes = *format::bytes_of(entry.type, tensor.row_length());
    const uint64_t offset = piece.first_row * row_bytes;
    if (entry.type == tensor.type) {
      return writer_.write(piece.tensor, offset, tensor.rows(piece.first_row, piece.rows, buffers.source));
    }
    buffers.values.resize(piece.rows * tensor.row_length());
    buffers.out.resize(piece.rows * row_bytes);
    if (auto status = decode_rows(tensor, piece.first_row, piece.rows, buffers.source, buffers.values); !status) {
      return status;
    }
    if (const auto bad = format::first_unencodable(entry.type, buffers.values)) {
      return fail(ErrorKind::invalid_input, "tensor '{}': row {}, column {} is {}, which {} cannot hold", tensor.name,
                  piece.first_row + *bad / tensor.row_length(), *bad % tensor.row_length(), buffers.values[*bad],
                  format::type_name(entry.type));
    }
    if (auto status = format::encode(entry.type, buffers.values, buffers.out, isa_); !status) return status;
    return writer_.write(piece.tensor, offset, buffers.out);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::limit, "tensor '{}': not enough memory for a row of {} values",
                plan_.sources[piece.tensor]->name, plan_.sources[piece.tensor]->row_length());
  }

  void finished(const Piece& piece) {
    const uint64_t bytes = piece.rows * plan_.sources[piece.tensor]->row_bytes();
    const uint64_t before = done_bytes_.fetch_add(bytes);
    if (before / release_bytes != (before + bytes) / release_bytes) source_.release_all();
  }

  // Of several errors the one of the first piece counts, so that the message is the same each time.
  void note(uint64_t piece, Error error) {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    if (error_ && error_piece_ < piece) return;
    error_ = std::move(error);
    error_piece_ = piece;
  }

  const Checkpoint& source_;
  const TensorPlan& plan_;
  format::GgufWriter& writer_;
  const Isa isa_;
  const ConvertOptions& options_;
  const Pieces pieces_;
  uint64_t total_bytes_ = 0;
  std::atomic<uint64_t> next_{0}, done_bytes_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::optional<Error> error_;
  uint64_t error_piece_ = 0;
};

// Refuses to write over anything that the source is made of; in its directory that may be any file but a GGUF file.
Status check_target(const Checkpoint& source, const std::string& out) {
  if (auto status = check_is_no_source(source, out); !status) return status;
  const std::string folder = std::filesystem::path(out).parent_path().string();
  if (source.directory().empty() || out.ends_with(".gguf") || !same_file(out, out) ||
      !same_file(folder.empty() ? "." : folder, source.directory())) {
    return {};
  }
  return fail(ErrorKind::invalid_input, "'{}' lies in the source's directory: choose a name that is not taken", out);
}

ConvertResult summarize(const TensorPlan& plan, uint64_t file_bytes) {
  ConvertResult result{file_bytes, plan.entries.size(), 0, {}};
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const TensorType type = plan.entries[i].type;
    result.encoded += type != plan.sources[i]->type;
    auto& without = result.without_kernels;
    const bool known = std::find(without.begin(), without.end(), type) != without.end();
    if (is_quantised(type) && !exec::has_matrix_kernel(type) && !known) without.push_back(type);
  }
  return result;
}

}  // namespace

Status check_is_no_source(const Checkpoint& source, const std::string& out) {
  for (const MappedFile& file : source.files()) {
    if (same_file(file.path(), out)) {
      return fail(ErrorKind::invalid_input, "'{}' is the source itself ('{}'): choose another name for the new file",
                  out, file.path());
    }
  }
  return {};
}

Result<ConvertResult> convert(const std::string& source_path, const std::string& out, const ConvertOptions& options) {
  const auto isa = options.isa ? Result<Isa>(*options.isa) : choose_isa();
  if (!isa) return isa.error();
  Team::Options team_options;
  team_options.threads = options.threads > 0 ? options.threads : default_thread_count();
  const auto team = Team::create(team_options);
  if (!team) return team.error();
  const auto source = Checkpoint::open(source_path);
  if (!source) return source.error();
  if (auto status = check_target(*source, out); !status) return std::move(status).error();
  const auto plan = plan_tensors(*source, options);
  if (!plan) return in_file(source_path, plan.error());
  std::optional<text::Vocabulary> vocabulary;
  const auto metadata = plan_metadata(*source, options, vocabulary);
  if (!metadata) return in_file(source_path, metadata.error());

  auto writer = format::GgufWriter::create(out, *metadata, plan->entries);
  if (!writer) return std::move(writer).error();
  if (auto status = Conversion(*source, *plan, *writer, *isa, options).run(**team); !status) {
    return status.error().kind == ErrorKind::io ? status.error() : in_file(source_path, status.error());
  }
  if (auto status = writer->finish(); !status) return std::move(status).error();
  return summarize(*plan, writer->file_bytes());
}

}  // namespace gale::engine
