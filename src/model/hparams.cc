// Reads and checks a model's settings: present, of the right type, in range, and consistent with each other.
#include "model/hparams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "model/architectures.h"

namespace gale::model {
namespace {

// Far above any real model, and small enough that products of two of them fit 64 bits.
constexpr uint64_t kMaxBlocks = 4096;
constexpr uint64_t kMaxHeads = 1 << 16;
constexpr uint64_t kMaxWidth = 1 << 24;  // of anything: embedding, feed-forward, all heads together
constexpr uint64_t kMaxPositions = std::numeric_limits<int32_t>::max();

// The settings of one architecture: keys are given without its prefix. The first error stays; later calls then give
// harmless values, so that reading is a plain list.
class Settings {
 public:
  Settings(const format::Metadata& metadata, std::string architecture)
      : metadata_(metadata), architecture_(std::move(architecture)) {}

  std::string full(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  const format::Value* find(std::string_view key) const { return metadata_.find(full(key)); }
  const Status& status() const { return status_; }

  void record(Error error) {
    if (status_.ok()) status_ = std::move(error);
  }

  std::optional<uint32_t> optional_count(std::string_view key, uint64_t least, uint64_t most) {
    const auto value = take(metadata_.unsigned_integer(full(key)));
    if (!value || !in_range(key, *value, least, most)) return std::nullopt;
    return static_cast<uint32_t>(*value);
  }

  uint32_t count(std::string_view key, uint64_t least, uint64_t most) {
    if (!find(key)) record(missing(key));
    return optional_count(key, least, most).value_or(static_cast<uint32_t>(least));
  }

  // A number for every block or one for all of them.
  std::optional<std::vector<uint32_t>> per_block(std::string_view key, uint32_t blocks, uint64_t least, uint64_t most) {
    const auto values = take(metadata_.integers(full(key)));
    if (!values) return std::nullopt;
    const format::Value& value = *find(key);
    const bool one = std::holds_alternative<uint64_t>(value) || std::holds_alternative<int64_t>(value) ||
                     std::holds_alternative<bool>(value);
    if (!one && values->size() != blocks) {
      record(fail(ErrorKind::invalid_input, "metadata key '{}' has {} values for {} blocks", full(key), values->size(),
                  blocks));
      return std::nullopt;
    }
    std::vector<uint32_t> out;
    for (const int64_t value : *values) {
      if (!in_range(key, value, least, most)) return std::nullopt;
      out.push_back(static_cast<uint32_t>(value));
    }
    if (one) out.resize(blocks, out[0]);
    return out;
  }

  // Finite and in [least, most].
  std::optional<float> number(std::string_view key, double least, double most) {
    const auto value = take(metadata_.number(full(key)));
    if (!value) return std::nullopt;
    if (!(*value >= least && *value <= most)) {
      record(
          fail(ErrorKind::invalid_input, "metadata key '{}' is {}; expected {} to {}", full(key), *value, least, most));
      return std::nullopt;
    }
    return static_cast<float>(*value);
  }

  std::optional<bool> boolean(std::string_view key) { return take(metadata_.boolean(full(key))); }
  std::optional<std::string_view> text(std::string_view key) { return take(metadata_.text(full(key))); }

  Error missing(std::string_view key) const {
    return fail(ErrorKind::invalid_input, "metadata key '{}' is missing", full(key));
  }

  // A setting that changes results in a way that no executor knows: only `neutral` values are accepted.
  void refuse_unless(std::string_view key, std::initializer_list<double> neutral) {
    const auto value = take(metadata_.number(full(key)));
    if (!value || std::find(neutral.begin(), neutral.end(), *value) != neutral.end()) return;
    record(fail(ErrorKind::unsupported, "metadata key '{}' = {} is not supported for {} models", full(key), *value,
                architecture_));
  }

 private:
  template <class T>
  std::optional<T> take(Result<std::optional<T>> result) {
    if (result.ok()) return std::move(result).value();
    record(std::move(result).error());
    return std::nullopt;
  }

  template <class T>
  bool in_range(std::string_view key, T value, uint64_t least, uint64_t most) {
    if (std::cmp_greater_equal(value, least) && std::cmp_less_equal(value, most)) return true;
    record(fail(ErrorKind::invalid_input, "metadata key '{}' is {}; expected {} to {}", full(key), value, least, most));
    return false;
  }

  const format::Metadata& metadata_;
  std::string architecture_;
  Status status_;
};

void read_sizes(Settings& settings, const format::Checkpoint& checkpoint, Hparams& out) {
  out.context_length = settings.count("context_length", 1, kMaxPositions);
  out.embedding_length = settings.count("embedding_length", 1, kMaxWidth);
  out.block_count = settings.count("block_count", 1, kMaxBlocks);

  const format::Tensor* embedding = checkpoint.find("token_embd.weight");
  if (!embedding)
    return settings.record(
        fail(ErrorKind::not_found, "tensor 'token_embd.weight' is missing; no model can run without it"));
  if (embedding->rows() < 1 || embedding->rows() > kMaxPositions)
    return settings.record(fail(ErrorKind::invalid_input, "tensor 'token_embd.weight' has {} rows; expected 1 to {}",
                                embedding->rows(), kMaxPositions));
  out.vocabulary = static_cast<uint32_t>(embedding->rows());
  if (const auto stated = settings.optional_count("vocab_size", 1, kMaxPositions); stated && *stated > out.vocabulary)
    settings.record(fail(ErrorKind::invalid_input, "metadata key '{}' is {}, but 'token_embd.weight' has only {} rows",
                         settings.full("vocab_size"), *stated, out.vocabulary));
}

// Heads times their size is a buffer's width.
void check_heads_width(Settings& settings, std::string_view key, uint32_t heads, uint32_t size) {
  if (static_cast<uint64_t>(heads) * size > kMaxWidth)
    settings.record(fail(ErrorKind::limit, "metadata key '{}' is {}; {} heads of that size are wider than {}",
                         settings.full(key), size, heads, kMaxWidth));
}

void read_heads(Settings& settings, Hparams& out) {
  const uint32_t blocks = out.block_count;
  for (const char* key : {"feed_forward_length", "attention.head_count"})
    if (!settings.find(key)) return settings.record(settings.missing(key));
  out.feed_forward_length =
      settings.per_block("feed_forward_length", blocks, 1, kMaxWidth).value_or(std::vector<uint32_t>());
  out.head_count = settings.per_block("attention.head_count", blocks, 1, kMaxHeads).value_or(std::vector<uint32_t>());
  out.head_count_kv = settings.per_block("attention.head_count_kv", blocks, 1, kMaxHeads).value_or(out.head_count);
  if (!settings.status().ok()) return;

  const auto key_length = settings.optional_count("attention.key_length", 1, kMaxWidth);
  const auto value_length = settings.optional_count("attention.value_length", 1, kMaxWidth);
  if (!key_length || !value_length) {  // both default to C / H
    const bool uniform = std::count(out.head_count.begin(), out.head_count.end(), out.head_count[0]) == blocks;
    if (!uniform || out.embedding_length % out.head_count[0] != 0)
      return settings.record(fail(ErrorKind::invalid_input,
                                  "metadata key '{}' is missing, and an embedding of {} cannot be divided by {} heads",
                                  settings.full(key_length ? "attention.value_length" : "attention.key_length"),
                                  out.embedding_length, uniform ? std::to_string(out.head_count[0]) : "varying"));
  }
  const uint32_t divided = out.embedding_length / out.head_count[0];
  out.key_length = key_length.value_or(divided);
  out.value_length = value_length.value_or(divided);
  for (uint32_t block = 0; block < blocks; ++block) {
    if (out.head_count[block] % out.head_count_kv[block] != 0)
      settings.record(fail(ErrorKind::invalid_input, "block {}: '{}' = {} is no multiple of '{}' = {}", block,
                           settings.full("attention.head_count"), out.head_count[block],
                           settings.full("attention.head_count_kv"), out.head_count_kv[block]));
    check_heads_width(settings, "attention.key_length", out.head_count[block], out.key_length);
    check_heads_width(settings, "attention.value_length", out.head_count[block], out.value_length);
  }
}

void read_rope(Settings& settings, const Architecture& architecture, Hparams& out) {
  constexpr double kMaxBase = 1e30, kLeast = 1e-30;
  const auto dimensions = settings.optional_count("rope.dimension_count", 2, out.key_length);
  out.rope_dimensions = dimensions.value_or(out.key_length);
  if (out.rope_dimensions % 2 != 0)
    settings.record(fail(ErrorKind::invalid_input, "metadata key '{}' is {}; expected an even number",
                         settings.full(dimensions ? "rope.dimension_count" : "attention.key_length"),
                         out.rope_dimensions));
  out.rope_base = settings.number("rope.freq_base", kLeast, kMaxBase).value_or(10000);
  const float sliding = architecture.rope_base_sliding > 0 ? architecture.rope_base_sliding : out.rope_base;
  out.rope_base_sliding = settings.number("rope.freq_base_swa", kLeast, kMaxBase).value_or(sliding);

  // Files without a type mean linear scaling; a factor of 0 has always meant none.
  const std::string_view type = settings.text("rope.scaling.type").value_or("linear");
  if (type != "linear" && type != "none")
    settings.record(fail(ErrorKind::unsupported, "metadata key '{}' = '{}' is not supported; supported: none, linear",
                         settings.full("rope.scaling.type"), type));
  const char* factor_key = settings.find("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const float factor = settings.number(factor_key, 0, kMaxBase).value_or(1);
  out.rope_factor = type == "none" || factor == 0 ? 1 : factor;
  settings.refuse_unless("rope.scaling.attn_factor", {0, 1});
  if (settings.find("rope.dimension_sections"))
    settings.record(fail(ErrorKind::unsupported, "metadata key '{}' is not supported for {} models",
                         settings.full("rope.dimension_sections"), out.architecture));
}

void read_windows(Settings& settings, const Architecture& architecture, Hparams& out) {
  out.slides.assign(out.block_count, false);
  out.sliding_window = settings.optional_count("attention.sliding_window", 0, kMaxPositions).value_or(0);
  if (out.sliding_window == 0) return;
  out.sliding_period = architecture.sliding_period;

  constexpr const char* kPattern = "attention.sliding_window_pattern";
  if (const format::Value* pattern = settings.find(kPattern)) {
    const bool is_period = std::holds_alternative<uint64_t>(*pattern) || std::holds_alternative<int64_t>(*pattern);
    if (!is_period) {  // yes or no for every block
      const auto slides = settings.per_block(kPattern, out.block_count, 0, 1);
      if (!slides) return;
      out.sliding_period = 0;
      std::transform(slides->begin(), slides->end(), out.slides.begin(), [](uint32_t value) { return value != 0; });
      return;
    }
    out.sliding_period = settings.optional_count(kPattern, 0, kMaxBlocks).value_or(0);
  }
  for (uint32_t block = 0; block < out.block_count; ++block)
    out.slides[block] = out.sliding_period == 0 || block % out.sliding_period < out.sliding_period - 1;
}

void read_attention(Settings& settings, const Architecture& architecture, Hparams& out) {
  constexpr double kMaxScale = 1e6;
  const bool by_width =
      architecture.blocks_scaled_by_width > 0 && out.block_count == architecture.blocks_scaled_by_width;
  const float size = by_width ? static_cast<float>(out.embedding_length) / static_cast<float>(out.head_count[0])
                              : static_cast<float>(out.key_length);
  const float scale = settings.number("attention.scale", 0, kMaxScale).value_or(0);  // 0: the model's own
  out.attention_scale = scale > 0 ? scale : 1 / std::sqrt(size);
  out.attention_softcap = settings.number("attn_logit_softcapping", 0, kMaxScale).value_or(0);
  out.final_softcap = settings.number("final_logit_softcapping", 0, kMaxScale).value_or(0);
}

// Settings that other models of the same architecture name carry, and that would be ignored otherwise.
void refuse_what_is_not_supported(Settings& settings, const Hparams& out) {
  if (const auto experts = settings.optional_count("expert_count", 0, kMaxWidth); experts && *experts > 0)
    settings.record(fail(ErrorKind::unsupported,
                         "metadata key '{}' = {}: mixtures of experts are not supported for {} models",
                         settings.full("expert_count"), *experts, out.architecture));
  for (const char* key : {"nextn_predict_layers", "attention.clamp_kqv", "attention.max_alibi_bias",
                          "attention.shared_kv_layers", "attention.temperature_scale", "attention.kv_lora_rank"})
    settings.refuse_unless(key, {0});
  for (const char* key : {"logit_scale", "residual_scale", "embedding_scale"}) settings.refuse_unless(key, {0, 1});
  const double key_length = out.key_length, value_length = out.value_length, dimensions = out.rope_dimensions;
  settings.refuse_unless("attention.key_length_swa", {key_length});
  settings.refuse_unless("attention.value_length_swa", {value_length});
  settings.refuse_unless("rope.dimension_count_swa", {dimensions});
  if (settings.boolean("use_parallel_residual").value_or(false))
    settings.record(fail(ErrorKind::unsupported, "metadata key '{}' = true is not supported for {} models",
                         settings.full("use_parallel_residual"), out.architecture));
  if (!settings.boolean("attention.causal").value_or(true))
    settings.record(fail(ErrorKind::unsupported, "metadata key '{}' = false is not supported for {} models",
                         settings.full("attention.causal"), out.architecture));
}

Result<Hparams> read(const format::Checkpoint& checkpoint) {
  const format::Metadata& metadata = checkpoint.metadata();
  auto named = metadata.text("general.architecture");
  if (!named.ok()) return std::move(named).error();
  if (!*named) return fail(ErrorKind::invalid_input, "metadata key 'general.architecture' is missing");
  const Architecture* architecture = find_architecture(**named);
  if (!architecture)
    return fail(ErrorKind::unsupported, "architecture '{}' is not supported; supported: {}", **named,
                architecture_names());
  auto name = metadata.text("general.name");
  if (!name.ok()) return std::move(name).error();

  Hparams out;
  out.architecture = architecture->name;
  out.name = name->value_or("");
  Settings settings(metadata, out.architecture);
  // Each reader relies on what the ones before it found.
  read_sizes(settings, checkpoint, out);
  if (settings.status().ok()) read_heads(settings, out);
  if (settings.status().ok()) read_rope(settings, *architecture, out);
  if (settings.status().ok()) read_windows(settings, *architecture, out);
  if (settings.status().ok()) read_attention(settings, *architecture, out);
  if (settings.status().ok()) {
    constexpr const char* kEpsilon = "attention.layer_norm_rms_epsilon";
    if (!settings.find(kEpsilon)) settings.record(settings.missing(kEpsilon));
    out.norm_epsilon = settings.number(kEpsilon, 1e-30, 1).value_or(0);
    refuse_what_is_not_supported(settings, out);
  }
  if (auto status = settings.status(); !status) return std::move(status).error();
  return out;
}

}  // namespace

Result<Hparams> read_hparams(const format::Checkpoint& checkpoint) {
  auto result = read(checkpoint);
  if (result.ok() || checkpoint.metadata_file().empty()) return result;
  return in_file(checkpoint.metadata_file(), result.error());
}

}  // namespace gale::model
