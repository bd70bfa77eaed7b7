// The table of mixes, and the rules by which some tensors of a mix get more bits than the rest.
#include "format/quantisation_mix.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace gale::format {
namespace {

constexpr QuantisationMix mixes[] = {
    {"q4_k_m", TensorType::q4_k, 15, false},   {"q4_k_s", TensorType::q4_k, 14, false},
    {"q5_k_m", TensorType::q5_k, 17, false},   {"q5_k_s", TensorType::q5_k, 16, false},
    {"q6_k", TensorType::q6_k, 18, false},     {"q8_0", TensorType::q8_0, 7, false},
    {"q4_0", TensorType::q4_0, 2, false},      {"q4_1", TensorType::q4_1, 3, false},
    {"q5_0", TensorType::q5_0, 8, false},      {"q5_1", TensorType::q5_1, 9, false},
    {"iq4_nl", TensorType::iq4_nl, 25, false}, {"mxfp4", TensorType::mxfp4, 38, false},
    {"q4_k", TensorType::q4_k, 14, true},      {"q5_k", TensorType::q5_k, 16, true},
    {"bf16", TensorType::bf16, 32, true},      {"f16", TensorType::f16, 1, true},
    {"f32", TensorType::f32, 0, true},
};

// What a matrix does in its model, as far as the rules ask.
enum class Role { other, token_embedding, output, attention_value, attention_key, attention_output, ffn_down };

// Which of the tensors of a role a rule is for.
enum class Share {
  all,
  first_eighth,
  first_four,
  outer_and_thirds,  // the first and the last eighth, and every third one between
};

struct Rule {
  std::string_view mix;
  Role role;
  Share share;
  TensorType type;
};

// The values of attention and what comes out of the feed-forward part suffer most from rounding.
constexpr Rule rules[] = {
    {"q4_k_m", Role::attention_value, Share::outer_and_thirds, TensorType::q6_k},
    {"q4_k_m", Role::ffn_down, Share::outer_and_thirds, TensorType::q6_k},
    {"q4_k_s", Role::attention_value, Share::first_four, TensorType::q5_k},
    {"q4_k_s", Role::ffn_down, Share::first_eighth, TensorType::q5_k},
    {"q5_k_m", Role::attention_value, Share::outer_and_thirds, TensorType::q6_k},
    {"q5_k_m", Role::ffn_down, Share::outer_and_thirds, TensorType::q6_k},
    {"iq4_nl", Role::ffn_down, Share::first_eighth, TensorType::q5_k},
};

// In a model of eight experts attention is so small a part that more bits for it cost next to nothing.
constexpr uint64_t few_experts = 8;
constexpr Rule few_experts_rules[] = {
    {"q4_k_m", Role::attention_output, Share::all, TensorType::q5_k},
    {"q4_k_s", Role::attention_output, Share::all, TensorType::q5_k},
    {"iq4_nl", Role::attention_output, Share::all, TensorType::q5_k},
};

// Matrices that stay as precise as they are: small, and much depends on them.
constexpr std::string_view kept[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
};
constexpr std::string_view kept_names[] = {"position_embd.weight", "token_types.weight"};

// Where the rows of a matrix are no multiple of the type's block.
struct Fallback {
  TensorType type, instead;
};
constexpr Fallback fallbacks[] = {
    {TensorType::q4_k, TensorType::q5_0}, {TensorType::q5_k, TensorType::q5_1}, {TensorType::q6_k, TensorType::q8_0}};

bool fits(TensorType type, uint64_t row_length) {
  return row_length % type_info(type)->values_per_block == 0;
}

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

bool is_real(TensorType type) {
  return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16 || type == TensorType::f64;
}
bool is_integer(TensorType type) {
  return type == TensorType::i8 || type == TensorType::i16 || type == TensorType::i32 || type == TensorType::i64;
}

// Whether the tensor is one of the matrices that a mix is about. Of the others plain numbers become F32.
bool is_quantised(const TensorEntry& tensor) {
  const bool matrix = tensor.shape[1] * tensor.shape[2] * tensor.shape[3] > 1;
  if (!matrix || !tensor.name.ends_with("weight")) return false;
  if (std::any_of(std::begin(kept), std::end(kept), [&](auto part) { return contains(tensor.name, part); })) {
    return false;
  }
  return std::find(std::begin(kept_names), std::end(kept_names), tensor.name) == std::end(kept_names);
}

Role role_of(std::string_view name, bool has_output) {
  if (name == "output.weight") return Role::output;
  // Without an output matrix the embedding is used in its place.
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") {
    return has_output ? Role::token_embedding : Role::output;
  }
  for (const std::string_view part : {"attn_v.weight", "attn_qkv.weight", "attn_kv_b.weight"}) {
    if (contains(name, part)) return Role::attention_value;
  }
  if (contains(name, "attn_k.weight")) return Role::attention_key;
  if (contains(name, "attn_output.weight")) return Role::attention_output;
  if (contains(name, "ffn_down")) return Role::ffn_down;
  return Role::other;
}

std::optional<uint64_t> block_number(std::string_view name) {
  constexpr std::string_view prefix = "blk.";
  if (!name.starts_with(prefix)) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

bool in_share(Share share, uint64_t index, uint64_t count) {
  switch (share) {
    case Share::all:
      return true;
    case Share::first_eighth:
      return index < count / 8;
    case Share::first_four:
      return index < 4;
    case Share::outer_and_thirds:
      return index < count / 8 || index >= 7 * count / 8 || (index - count / 8) % 3 == 2;
  }
  return false;
}

// The settings of a model that rules ask for.
struct ModelFacts {
  uint64_t blocks = 0, experts = 0, heads_per_kv_head = 1;
  bool is_llama_70b = false;
};

Result<ModelFacts> model_facts(const Metadata& metadata) {
  ModelFacts facts;
  const auto architecture = metadata.text("general.architecture");
  if (!architecture) return architecture.error();
  if (!*architecture) return facts;
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", **architecture, name); };
  const auto blocks = metadata.unsigned_integer(key("block_count"));
  if (!blocks) return blocks.error();
  const auto experts = metadata.unsigned_integer(key("expert_count"));
  if (!experts) return experts.error();
  const auto heads = metadata.integers(key("attention.head_count"));
  if (!heads) return heads.error();
  const auto kv_heads = metadata.integers(key("attention.head_count_kv"));
  if (!kv_heads) return kv_heads.error();
  facts.blocks = blocks->value_or(0);
  facts.experts = experts->value_or(0);
  const auto first = [](const auto& list) { return *list && !(*list)->empty() ? (**list)[0] : 0; };
  if (first(kv_heads) > 0) facts.heads_per_kv_head = static_cast<uint64_t>(first(heads) / first(kv_heads));
  facts.is_llama_70b =
      (*architecture == "llama" || *architecture == "qwen2") && facts.blocks == 80 && facts.heads_per_kv_head > 1;
  return facts;
}

class TypeChooser {
 public:
  TypeChooser(const QuantisationMix& mix, const ModelFacts& facts, std::span<const TensorEntry> tensors)
      : mix_(mix), facts_(facts), tensors_(tensors) {
    has_output_ = std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.name == "output.weight"; });
    for (const TensorEntry& tensor : tensors)
      value_count_ += role_of(tensor.name, has_output_) == Role::attention_value;
  }

  std::vector<TensorType> choose() {
    std::vector<TensorType> types(tensors_.size());
    for (const size_t i : by_block()) types[i] = type_for(tensors_[i]);
    return types;
  }

 private:
  // Rules count tensors block by block, whatever their order in the file.
  std::vector<size_t> by_block() const {
    std::vector<size_t> order(tensors_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto key = [&](size_t i) {
      const auto block = block_number(tensors_[i].name);
      return std::pair<uint64_t, std::string_view>(block ? *block + 1 : 0, tensors_[i].name);
    };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    return order;
  }

  TensorType type_for(const TensorEntry& tensor) {
    if (!is_quantised(tensor)) return is_real(tensor.type) ? TensorType::f32 : tensor.type;
    if (is_integer(tensor.type)) return tensor.type;
    TensorType type = mix_.pure ? mix_.type : mixed_type(tensor);
    for (const Fallback& fallback : fallbacks) {
      if (type == fallback.type && !fits(type, tensor.shape[0])) {
        type = fallback.instead;
        break;
      }
    }
    return fits(type, tensor.shape[0]) ? type : TensorType::f16;
  }

  TensorType mixed_type(const TensorEntry& tensor) {
    const Role role = role_of(tensor.name, has_output_);
    if (mix_.type == TensorType::mxfp4) {
      const bool experts = tensor.shape[2] > 1 && role != Role::output;
      return experts ? TensorType::mxfp4 : TensorType::q8_0;
    }
    const bool few = facts_.experts == few_experts;
    switch (role) {
      case Role::output:
        return mix_.type == TensorType::q8_0 || !fits(mix_.type, tensor.shape[0]) ? TensorType::q8_0 : TensorType::q6_k;
      case Role::attention_key:
        return few ? TensorType::q8_0 : mix_.type;
      case Role::attention_output:
        return by_rule(few ? std::span(few_experts_rules) : std::span<const Rule>(), role, 0, 1).value_or(mix_.type);
      case Role::attention_value:
        return value_type(few);
      case Role::ffn_down: {
        // With experts several tensors of a block have this role.
        const uint64_t running = downs_++;
        const uint64_t index = facts_.experts > 1 ? block_number(tensor.name).value_or(running) : running;
        return by_rule(rules, role, index, facts_.blocks).value_or(mix_.type);
      }
      case Role::token_embedding:
      case Role::other:
        break;
    }
    return mix_.type;
  }

  TensorType value_type(bool few) {
    const auto chosen = by_rule(rules, Role::attention_value, values_++, value_count_);
    if (few) return TensorType::q8_0;
    // Few heads for many queries: their values are small but used often.
    if (mix_.name == "iq4_nl" && facts_.heads_per_kv_head >= 4) return TensorType::q5_k;
    const TensorType type = chosen.value_or(mix_.type);
    return facts_.is_llama_70b && type == TensorType::q4_k ? TensorType::q5_k : type;
  }

  std::optional<TensorType> by_rule(std::span<const Rule> table, Role role, uint64_t index, uint64_t count) const {
    for (const Rule& rule : table) {
      if (rule.mix == mix_.name && rule.role == role && in_share(rule.share, index, count)) return rule.type;
    }
    return std::nullopt;
  }

  const QuantisationMix& mix_;
  const ModelFacts& facts_;
  std::span<const TensorEntry> tensors_;
  bool has_output_ = false;
  uint64_t value_count_ = 0;         // tensors of this role
  uint64_t values_ = 0, downs_ = 0;  // seen so far
};

}  // namespace

std::span<const QuantisationMix> quantisation_mixes() {
  return mixes;
}

const QuantisationMix* find_quantisation_mix(std::string_view name) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  const auto same = [&](const QuantisationMix& mix) {
    return std::equal(mix.name.begin(), mix.name.end(), name.begin(), name.end(),
                      [&](char a, char b) { return a == lower(b); });
  };
  const auto at = std::find_if(std::begin(mixes), std::end(mixes), same);
  return at == std::end(mixes) ? nullptr : at;
}

Result<std::vector<TensorType>> choose_types(const QuantisationMix& mix, const Metadata& metadata,
                                             std::span<const TensorEntry> tensors) {
  const auto facts = model_facts(metadata);
  if (!facts) return facts.error();
  return TypeChooser(mix, *facts, tensors).choose();
}

}  // namespace gale::format
