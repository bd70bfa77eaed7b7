// The tables of tensor names by family, and the search in them.
#include "format/hugging_face_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace gale::format {
namespace {

constexpr NameRule kLlamaWhole[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};
constexpr NameRule kLlamaBlock[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q", Change::rotary_rows},
    {"self_attn.k_proj", "attn_k", Change::rotary_rows},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

constexpr NameRule kGemma3Whole[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm", Change::plus_one},
    {"lm_head", "output"},
};
constexpr NameRule kGemma3Block[] = {
    {"input_layernorm", "attn_norm", Change::plus_one},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm", Change::plus_one},
    {"self_attn.k_norm", "attn_k_norm", Change::plus_one},
    {"post_attention_layernorm", "post_attention_norm", Change::plus_one},
    {"pre_feedforward_layernorm", "ffn_norm", Change::plus_one},
    {"post_feedforward_layernorm", "post_ffw_norm", Change::plus_one},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

constexpr NameTable kLlama{kLlamaWhole, kLlamaBlock};
constexpr NameTable kGemma3{kGemma3Whole, kGemma3Block};

// The text part of models that also see or hear stands under further names.
constexpr std::pair<std::string_view, std::string_view> kWrappers[] = {
    {"language_model.model.", "model."},
    {"model.language_model.", "model."},
    {"language_model.lm_head.", "lm_head."},
};
constexpr std::string_view kBlocks = "model.layers.";

const NameRule* find_rule(std::span<const NameRule> rules, std::string_view module) {
  const auto at = std::find_if(rules.begin(), rules.end(), [&](const NameRule& rule) { return rule.module == module; });
  return at == rules.end() ? nullptr : &*at;
}

}  // namespace

const NameTable& llama_names() {
  return kLlama;
}
const NameTable& gemma3_names() {
  return kGemma3;
}

std::optional<MappedName> map_name(const NameTable& table, std::string_view tensor) {
  std::string plain(tensor);
  for (const auto& [wrapped, inner] : kWrappers) {
    if (!tensor.starts_with(wrapped)) continue;
    plain = fmt::format("{}{}", inner, tensor.substr(wrapped.size()));
    break;
  }
  const std::string_view name = plain;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view module = name.substr(0, dot), kind = name.substr(dot + 1);
  if (kind != "weight" && kind != "bias") return std::nullopt;
  const auto mapped = [&](const NameRule& rule, std::string_view block) {
    const bool as_it_is = rule.change == Change::plus_one && kind == "bias";
    return MappedName{fmt::format("{}{}.{}", block, rule.gguf, kind), as_it_is ? Change::none : rule.change};
  };
  if (const NameRule* rule = find_rule(table.whole, module)) return mapped(*rule, "");
  if (!module.starts_with(kBlocks)) return std::nullopt;
  const std::string_view rest = module.substr(kBlocks.size());
  const std::string_view number = rest.substr(0, rest.find('.'));
  const bool is_number = !number.empty() && number.size() < rest.size() && (number == "0" || number[0] != '0') &&
                         std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c); });
  if (!is_number) return std::nullopt;
  const NameRule* rule = find_rule(table.per_block, rest.substr(number.size() + 1));
  if (!rule) return std::nullopt;
  return mapped(*rule, fmt::format("blk.{}.", number));
}

}  // namespace gale::format
