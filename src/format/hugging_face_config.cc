// Settings of Hugging Face configurations under the keys of GGUF files: tables for what families share, code for rotary
// embeddings and windows.
#include "format/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <span>
#include <utility>

#include "format/config_reader.h"

namespace gale::format {
namespace {

// A setting that both formats have as one number.
struct NumberRule {
  std::string_view gguf;  // without the prefix of the architecture
  std::string_view config;
  bool whole = true;
  bool required = true;
};

constexpr NumberRule kNumbers[] = {
    {"vocab_size", "vocab_size"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads", true, false},
    {"attention.key_length", "head_dim", true, false},
    {"attention.value_length", "head_dim", true, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", false},
    {"attn_logit_softcapping", "attn_logit_softcapping", false, false},
    {"final_logit_softcapping", "final_logit_softcapping", false, false},
};

constexpr ConfigDefault kLlamaDefaults[] = {
    {"rms_norm_eps", 1e-6},
    {"rope_theta", 10000},
    {"max_position_embeddings", 2048},
};
constexpr ConfigDefault kGemma3Defaults[] = {
    {"vocab_size", 262208},
    {"hidden_size", 2304},
    {"intermediate_size", 9216},
    {"num_hidden_layers", 26},
    {"num_attention_heads", 8},
    {"num_key_value_heads", 4},
    {"head_dim", 256},
    {"max_position_embeddings", 131072},
    {"rms_norm_eps", 1e-6},
    {"rope_theta", 1e6},
    {"rope_local_base_freq", 1e4},
    {"sliding_window", 4096},
    {"query_pre_attn_scalar", 256},
};

constexpr std::string_view kLlamaTypes[] = {"llama", "mistral"};
constexpr std::string_view kGemma3Types[] = {"gemma3_text", "gemma3"};
constexpr std::string_view kQwen3Types[] = {"qwen3"};
constexpr std::string_view kQwen3MoeTypes[] = {"qwen3_moe"};
constexpr std::string_view kGemma4Types[] = {"gemma4_text", "gemma4"};
constexpr std::string_view kQwen35Types[] = {"qwen3_5_text", "qwen3_5"};
constexpr std::string_view kQwen35MoeTypes[] = {"qwen3_5_moe_text", "qwen3_5_moe"};
constexpr std::string_view kDeepseek2Types[] = {"deepseek_v3", "deepseek_v2"};
constexpr std::string_view kGptOssTypes[] = {"gpt_oss"};

void read_llama(ConfigReader& reader, HuggingFaceSettings& settings);
void read_gemma3(ConfigReader& reader, HuggingFaceSettings& settings);

struct Family {
  std::string_view architecture;                  // general.architecture
  std::span<const std::string_view> model_types;  // of config.json
  const NameTable* names = nullptr;               // null: neither names nor settings are mapped yet
  std::span<const ConfigDefault> defaults = {};
  std::string_view activation = {};
  void (*read)(ConfigReader&, HuggingFaceSettings&) = nullptr;  // what is no plain number
};

std::span<const Family> families() {
  static const Family all[] = {
      {"llama", kLlamaTypes, &llama_names(), kLlamaDefaults, "silu", read_llama},
      {"gemma3", kGemma3Types, &gemma3_names(), kGemma3Defaults, "gelu_pytorch_tanh", read_gemma3},
      {"qwen3", kQwen3Types},
      {"qwen3moe", kQwen3MoeTypes},
      {"gemma4", kGemma4Types},
      {"qwen35", kQwen35Types},
      {"qwen35moe", kQwen35MoeTypes},
      {"deepseek2", kDeepseek2Types},
      {"gpt-oss", kGptOssTypes},
  };
  return all;
}

const Family* find_family(std::string_view model_type) {
  for (const Family& family : families())
    if (std::find(family.model_types.begin(), family.model_types.end(), model_type) != family.model_types.end())
      return &family;
  return nullptr;
}

void read_numbers(ConfigReader& reader) {
  for (const NumberRule& rule : kNumbers) {
    if (rule.whole) {
      if (const auto value = reader.whole(rule.config)) reader.set_whole(rule.gguf, *value);
    } else if (const auto value = reader.number(rule.config)) {
      reader.set_number(rule.gguf, *value);
    }
    if (rule.required && !reader.find(rule.config) && !reader.number(rule.config))
      reader.wrong(ErrorKind::invalid_input, "key \"{}\" is missing", rule.config);
  }
}

// Size of a rotary head; 0 with an error.
uint64_t head_size(ConfigReader& reader) {
  constexpr uint64_t kMost = 1 << 16;
  if (const auto stated = reader.whole("head_dim")) {
    if (*stated >= 1 && *stated <= kMost) return *stated;
    reader.wrong(ErrorKind::invalid_input, "key \"head_dim\" is {}; expected 1 to {}", *stated, kMost);
    return 0;
  }
  const uint64_t width = reader.whole("hidden_size").value_or(0),
                 heads = reader.whole("num_attention_heads").value_or(0);
  if (heads > 0 && width % heads == 0 && width / heads <= kMost) return width / heads;
  reader.wrong(ErrorKind::invalid_input,
               "key \"head_dim\" is missing, and \"hidden_size\" {} cannot be divided by \"num_attention_heads\" {}",
               width, heads);
  return 0;
}

// The rotary settings of one kind of layers: `scaling` holds them, in newer configurations with the base inside.
struct RotarySettings {
  const Json* scaling = nullptr;  // null: none
  std::string_view type = "default";
  double base = 0;
};

RotarySettings rotary_settings(ConfigReader& reader, std::string_view layers, std::string_view base_key) {
  RotarySettings out;
  out.base = reader.number(base_key).value_or(10000);
  const Json* parameters = reader.object("rope_parameters");
  out.scaling = parameters ? parameters : reader.object("rope_scaling");
  if (parameters)
    if (const Json* of_layers = parameters->find(layers)) out.scaling = of_layers;
  if (!out.scaling) return out;
  if (const Json* base = out.scaling->find("rope_theta")) out.base = reader.number_in(base, "rope_theta").value_or(0);
  const Json* type = out.scaling->find("rope_type");
  if (!type) type = out.scaling->find("type");
  out.type = reader.text_in(type, "rope_type").value_or("default");
  if (!type && out.scaling->find("factor"))
    reader.wrong(ErrorKind::invalid_input, "rope scaling has a \"factor\", but no \"rope_type\" says what it scales");
  return out;
}

// A number of the scaling that its type cannot do without.
double scaling_number(ConfigReader& reader, const RotarySettings& rotary, std::string_view key) {
  const auto value = reader.number_in(rotary.scaling->find(key), key);
  if (!value || !(*value > 0))
    reader.wrong(ErrorKind::invalid_input, "rope scaling of type \"{}\": key \"{}\" must be a number above 0",
                 rotary.type, key);
  return value.value_or(1);
}

// Divisors of the angles of long wavelengths, as the converter to GGUF writes them: none up to original / high
// positions, `factor` from original / low on, and a blend of both between.
std::vector<float> llama3_divisors(ConfigReader& reader, const RotarySettings& rotary, uint64_t dimensions) {
  const double factor = scaling_number(reader, rotary, "factor");
  const double low = scaling_number(reader, rotary, "low_freq_factor");
  const double high = scaling_number(reader, rotary, "high_freq_factor");
  const double original = scaling_number(reader, rotary, "original_max_position_embeddings");
  std::vector<float> out;
  if (!(high > low))
    reader.wrong(ErrorKind::invalid_input,
                 "rope scaling of type \"llama3\": high_freq_factor must be above low_freq_factor");
  if (!reader.status().ok()) return out;
  for (uint64_t i = 0; i < dimensions; i += 2) {
    const double wave =
        2 * std::numbers::pi * std::pow(rotary.base, static_cast<double>(i) / static_cast<double>(dimensions));
    const double smooth = (original / wave - low) / (high - low);
    const double blend = 1 / ((1 - smooth) / factor + smooth);
    out.push_back(static_cast<float>(wave < original / high ? 1 : wave > original / low ? factor : blend));
  }
  return out;
}

// Types other than linear are passed on, so that whoever builds the model refuses or obeys them.
void set_scaling(ConfigReader& reader, const RotarySettings& rotary) {
  if (rotary.type == "default") return;
  reader.set_text("rope.scaling.type", rotary.type);
  if (rotary.scaling->find("factor"))
    reader.set_number("rope.scaling.factor", scaling_number(reader, rotary, "factor"));
}

void read_llama(ConfigReader& reader, HuggingFaceSettings& settings) {
  settings.head_rows = head_size(reader);
  if (const auto partial = reader.number("partial_rotary_factor"); partial && *partial != 1)
    reader.wrong(ErrorKind::unsupported, "key \"partial_rotary_factor\" = {} is not supported for llama models",
                 *partial);
  const RotarySettings rotary = rotary_settings(reader, "full_attention", "rope_theta");
  reader.set_whole("rope.dimension_count", settings.head_rows);
  reader.set_number("rope.freq_base", rotary.base);
  if (rotary.type == "llama3") {
    settings.rotary_divisors = llama3_divisors(reader, rotary, settings.head_rows);
  } else {
    set_scaling(reader, rotary);
  }
  const bool slides = reader.text("model_type") == "mistral";  // others carry the key without using it
  if (const auto window = reader.whole("sliding_window"); slides && window && *window > 0)
    reader.set_whole("attention.sliding_window", *window);
  if (reader.whole("num_local_experts").value_or(0) > 0)
    reader.wrong(ErrorKind::unsupported, "key \"num_local_experts\": mixtures of experts are not supported here");
}

// Which blocks slide, where it is not five of six.
void read_gemma3_windows(ConfigReader& reader) {
  constexpr uint64_t kPeriod = 6;
  reader.set_whole("attention.sliding_window", reader.whole("sliding_window").value_or(0));
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    if (const auto period = reader.whole(key)) {
      if (*period != kPeriod) reader.set_whole("attention.sliding_window_pattern", *period);
      return;
    }
  }
  const Json* types = reader.find("layer_types");
  if (!types) return;
  const auto* list = types->get<Json::Array>();
  if (!list) return reader.wrong(ErrorKind::invalid_input, "key \"layer_types\": expected an array");
  std::vector<uint8_t> slides;
  bool usual = true;
  for (const Json& type : *list) {
    const auto* name = type.get<std::string>();
    if (!name || (*name != "sliding_attention" && *name != "full_attention"))
      return reader.wrong(ErrorKind::invalid_input,
                          "key \"layer_types\": element {} is neither \"sliding_attention\" nor \"full_attention\"",
                          slides.size());
    const bool sliding = *name == "sliding_attention";
    usual &= sliding == (slides.size() % kPeriod < kPeriod - 1);
    slides.push_back(sliding ? 1 : 0);
  }
  if (!usual) reader.set("attention.sliding_window_pattern", std::move(slides));
}

void read_gemma3(ConfigReader& reader, HuggingFaceSettings&) {
  const RotarySettings full = rotary_settings(reader, "full_attention", "rope_theta");
  reader.set_number("rope.freq_base", full.base);
  set_scaling(reader, full);
  const bool by_layers = reader.find("rope_parameters") != nullptr;
  const RotarySettings sliding = rotary_settings(reader, "sliding_attention", "rope_local_base_freq");
  reader.set_number("rope.freq_base_swa",
                    by_layers ? sliding.base : reader.number("rope_local_base_freq").value_or(10000));
  if (by_layers && sliding.type != "default")
    reader.wrong(ErrorKind::unsupported, "rope scaling of type \"{}\" in sliding layers is not supported",
                 sliding.type);
  read_gemma3_windows(reader);
  // Files say the scale only where it is not that of the head size.
  const double scalar = reader.number("query_pre_attn_scalar").value_or(0);
  if (scalar > 0 && scalar != static_cast<double>(head_size(reader)))
    reader.set_number("attention.scale", 1 / std::sqrt(scalar));
  if (reader.boolean("use_bidirectional_attention")) reader.set("attention.causal", false);
}

// Classifiers and bare encoders have the tensors of a language model but no use for its head.
void check_task(ConfigReader& reader) {
  const Json* value = reader.find("architectures");
  const auto* names = value ? value->get<Json::Array>() : nullptr;
  if (!names || names->empty()) return;
  const auto generates = [](const Json& name) {
    const auto* text = name.get<std::string>();
    return text && (text->ends_with("ForCausalLM") || text->ends_with("ForConditionalGeneration"));
  };
  if (std::any_of(names->begin(), names->end(), generates)) return;
  const auto* first = names->front().get<std::string>();
  reader.wrong(ErrorKind::unsupported, "key \"architectures\": {} is no language model (\"...ForCausalLM\")",
               first ? "\"" + *first + "\"" : std::string(kind_name(names->front())));
}

void check_activation(ConfigReader& reader, std::string_view expected) {
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    const auto found = reader.text(key);
    if (found && *found != expected)
      reader.wrong(ErrorKind::unsupported, "key \"{}\" is \"{}\"; only \"{}\" is supported for {} models", key, *found,
                   expected, reader.architecture);
  }
}

// The first array of two numbers called `key` in a list of groups: {"group_0": {"weights": {KEY: [128, 128]}}}.
const Json* find_in_groups(const Json& quantisation, std::string_view key) {
  const Json* groups = quantisation.find("config_groups");
  const auto* members = groups ? groups->get<Json::Object>() : nullptr;
  if (!members) return nullptr;
  for (const auto& [name, group] : *members) {
    const Json* weights = group.find("weights");
    const Json* found = weights ? weights->find(key) : nullptr;
    if (found && !found->is_null()) return found;
  }
  return nullptr;
}

Quantisation read_quantisation(ConfigReader& reader) {
  Quantisation out;
  const Json* found = reader.object("quantization_config");
  if (!found) return out;
  out.present = true;
  constexpr std::string_view kMethods[] = {"fp8", "fbgemm_fp8", "compressed-tensors", "modelopt", "mxfp4"};
  const auto method = reader.text_in(found->find("quant_method"), "quantization_config.quant_method");
  if (method && std::find(std::begin(kMethods), std::end(kMethods), *method) == std::end(kMethods))
    reader.wrong(ErrorKind::unsupported,
                 "key \"quantization_config.quant_method\": \"{}\" is not supported; supported: fp8, fbgemm_fp8, "
                 "compressed-tensors, modelopt, mxfp4",
                 *method);
  const Json* block = found->find("weight_block_size");
  if (!block || block->is_null()) block = find_in_groups(*found, "block_structure");
  if (!block || block->is_null()) return out;
  const auto* sizes = block->get<Json::Array>();
  const auto size = [&](size_t i) -> uint64_t {
    const auto* value = (*sizes)[i].get<int64_t>();
    return value && *value > 0 && *value <= UINT32_MAX ? static_cast<uint64_t>(*value) : 0;
  };
  if (!sizes || sizes->size() != 2 || size(0) == 0 || size(1) == 0) {
    reader.wrong(ErrorKind::invalid_input, "key \"quantization_config\": its block size must be two numbers above 0");
    return out;
  }
  out.block_rows = size(0);
  out.block_columns = size(1);
  return out;
}

// A token id, or several; those that cannot be ids (some files say -1 for "none") are left out.
std::vector<uint64_t> token_ids(const Json* value) {
  std::vector<uint64_t> out;
  const auto add = [&](const Json& one) {
    const auto* id = one.get<int64_t>();
    if (id && *id >= 0 && *id <= std::numeric_limits<int32_t>::max()) out.push_back(static_cast<uint64_t>(*id));
  };
  if (!value) return out;
  if (const auto* list = value->get<Json::Array>())
    for (const Json& one : *list) add(one);
  else
    add(*value);
  return out;
}

// What generation_config.json says comes first: it is what the model's makers generate with.
void read_tokens(ConfigReader& reader, const Json* generation) {
  const auto ids = [&](std::string_view key) {
    std::vector<uint64_t> out = token_ids(generation ? generation->find(key) : nullptr);
    for (const uint64_t id : token_ids(reader.find(key)))
      if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
    return out;
  };
  const auto bos = ids("bos_token_id"), eos = ids("eos_token_id"), padding = ids("pad_token_id");
  if (!bos.empty()) reader.add("tokenizer.ggml.bos_token_id", bos.front());
  if (!eos.empty()) reader.add("tokenizer.ggml.eos_token_id", eos.front());
  if (eos.size() > 1) reader.add("tokenizer.ggml.eos_token_ids", eos);
  if (!padding.empty()) reader.add("tokenizer.ggml.padding_token_id", padding.front());
}

// The type of the model: of a model that also sees or hears, that of the whole, or of its text part.
std::string_view model_type_of(const Json& config) {
  const Json* text = config.find("text_config");
  std::string_view first;
  for (const Json* place : {&config, text}) {
    const Json* value = place ? place->find("model_type") : nullptr;
    const auto* type = value ? value->get<std::string>() : nullptr;
    if (!type) continue;
    if (find_family(*type)) return *type;
    if (first.empty()) first = *type;
  }
  return first;
}

}  // namespace

Result<HuggingFaceSettings> read_config(const Json& config, const std::string& file, const Json* generation,
                                        const std::string& generation_file, const std::string& model,
                                        Metadata& metadata, std::deque<std::string>& texts) {
  if (!config.get<Json::Object>())
    return fail(ErrorKind::invalid_input, "{}: expected an object, found {}", file, kind_name(config));
  if (generation && !generation->get<Json::Object>())
    return fail(ErrorKind::invalid_input, "{}: expected an object, found {}", generation_file, kind_name(*generation));
  const std::string_view model_type = model_type_of(config);
  if (model_type.empty()) return fail(ErrorKind::invalid_input, "{}: key \"model_type\" is missing or no string", file);
  const Family* family = find_family(model_type);
  HuggingFaceSettings out;
  ConfigReader reader(config, file, family ? family->defaults : std::span<const ConfigDefault>(), metadata, texts);
  reader.architecture = family ? family->architecture : model_type;
  reader.add_text("general.architecture", reader.architecture);
  reader.add_text("general.name", model);
  out.quantisation = read_quantisation(reader);
  if (family && family->names) {
    out.names = family->names;
    check_task(reader);
    check_activation(reader, family->activation);
    read_numbers(reader);
    family->read(reader, out);
  }
  read_tokens(reader, generation);
  if (auto status = reader.status(); !status) return std::move(status).error();
  return out;
}

}  // namespace gale::format
