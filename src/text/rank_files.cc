// Special tokens and rules of the published vocabularies that are bare ranks.
#include "text/rank_files.h"

#include <algorithm>
#include <iterator>

namespace gale::text {
namespace {

constexpr SpecialRun llama3[] = {
    {"<|begin_of_text|>"},
    {"<|end_of_text|>"},
    {"<|reserved_special_token_{}|>", 2},
    {"<|finetune_right_pad_id|>"},
    {"<|step_id|>"},
    {"<|start_header_id|>"},
    {"<|end_header_id|>"},
    {"<|eom_id|>"},
    {"<|eot_id|>"},
    {"<|python_tag|>"},
    {"<|image|>"},
    {"<|reserved_special_token_{}|>", 244, 2},
};

constexpr SpecialRun llama4[] = {
    {"<|begin_of_text|>"},
    {"<|end_of_text|>"},
    {"<|fim_prefix|>"},
    {"<|fim_middle|>"},
    {"<|fim_suffix|>"},
    {"<|header_start|>"},
    {"<|header_end|>"},
    {"<|eom|>"},
    {"<|eot|>"},
    {"<|step|>"},
    {"<|text_post_train_reserved_special_token_{}|>", 6},
    {"<|python_start|>"},
    {"<|python_end|>"},
    {"<|finetune_right_pad|>"},
    {"<|text_post_train_reserved_special_token_{}|>", 61, 8},
    {"<|image_start|>"},
    {"<|image_end|>"},
    {"<|vision_reserved_special_token_{}|>", 2},
    {"<|tile_x_separator|>"},
    {"<|tile_y_separator|>"},
    {"<|vision_reserved_special_token_{}|>", 4, 2},
    {"<|image|>"},
    {"<|vision_reserved_special_token_{}|>", 1, 6},
    {"<|patch|>"},
    {"<|vision_reserved_special_token_{}|>", 1041, 7},
    {"<|reasoning_reserved_special_token_{}|>", 8},
    {"<|reasoning_thinking_start|>"},
    {"<|reasoning_thinking_end|>"},
    {"<|reserved_special_token_{}|>", 904},
};

constexpr SpecialRun qwen[] = {
    {"<|endoftext|>"},
    {"<|im_start|>"},
    {"<|im_end|>"},
    {"<|extra_{}|>", 205},
};

constexpr SpecialRun qwen35[] = {
    {"<|endoftext|>"},
    {"<|im_start|>"},
    {"<|im_end|>"},
    {"<|object_ref_start|>"},
    {"<|object_ref_end|>"},
    {"<|box_start|>"},
    {"<|box_end|>"},
    {"<|quad_start|>"},
    {"<|quad_end|>"},
    {"<|vision_start|>"},
    {"<|vision_end|>"},
    {"<|vision_pad|>"},
    {"<|image_pad|>"},
    {"<|video_pad|>"},
    {"<tool_call>"},
    {"</tool_call>"},
    {"<|fim_prefix|>"},
    {"<|fim_middle|>"},
    {"<|fim_suffix|>"},
    {"<|fim_pad|>"},
    {"<|repo_name|>"},
    {"<|file_sep|>"},
    {"<tool_response>"},
    {"</tool_response>"},
    {"<think>"},
    {"</think>"},
    {"<|audio_start|>"},
    {"<|audio_end|>"},
    {"<tts_pad>"},
    {"<tts_text_bos>"},
    {"<tts_text_eod>"},
    {"<tts_text_bos_single>"},
    {"<|audio_pad|>"},
};

constexpr SpecialRun cl100k[] = {
    {"[unused {}]", 1, 100256}, {"<|endoftext|>"},           {"<|fim_prefix|>"},  {"<|fim_middle|>"},
    {"<|fim_suffix|>"},         {"[unused {}]", 15, 100261}, {"<|endofprompt|>"},
};

// With the tokens of gpt-oss, the model of these ranks that can be had.
constexpr SpecialRun o200k[] = {
    {"<|startoftext|>"},
    {"<|endoftext|>"},
    {"<|reserved_{}|>", 2, 200000},
    {"<|return|>"},
    {"<|constrain|>"},
    {"<|reserved_{}|>", 1, 200004},
    {"<|channel|>"},
    {"<|start|>"},
    {"<|end|>"},
    {"<|message|>"},
    {"<|reserved_{}|>", 3, 200009},
    {"<|call|>"},
    {"<|reserved_{}|>", 5, 200013},
    {"<|endofprompt|>"},
    {"<|reserved_{}|>", 1069, 200019},
};

constexpr RankVocabulary known_vocabularies[] = {
    {"Llama 3", 128000, "\xE9\x94\xA6", WordRule::llama3, Normalization::none, llama3, "<|begin_of_text|>",
     "<|end_of_text|>", true},
    {"Llama 4", 200000, "(ge", WordRule::gpt4o, Normalization::none, llama4, "<|begin_of_text|>", "<|end_of_text|>",
     true},
    {"Qwen", 151643, "\xE2\xBD\x97", WordRule::qwen2, Normalization::nfc, qwen, "", "<|endoftext|>", false},
    {"Qwen 3.5", 248044, "\xE3\x81\x82\xE3\x82\x8A\xE3\x81\xBE\xE3\x81\x99\xE3\x81\x8B", WordRule::qwen35,
     Normalization::nfc, qwen35, "", "<|im_end|>", false},
    {"cl100k", 100256, " Conveyor", WordRule::llama3, Normalization::none, cl100k, "", "<|endoftext|>", false},
    {"o200k", 199998, " cocos", WordRule::gpt4o, Normalization::none, o200k, "<|startoftext|>", "<|return|>", false},
};

std::string name_of(const SpecialRun& run, int index) {
  std::string name(run.name);
  if (const size_t hole = name.find("{}"); hole != std::string::npos) {
    name.replace(hole, 2, std::to_string(run.first_number + index));
  }
  return name;
}

}  // namespace

const RankVocabulary* find_rank_vocabulary(size_t ranks, std::string_view last_token) {
  const auto* found = std::find_if(std::begin(known_vocabularies), std::end(known_vocabularies),
                                   [&](const RankVocabulary& v) { return v.ranks == ranks && v.last == last_token; });
  return found == std::end(known_vocabularies) ? nullptr : found;
}

void apply_rank_vocabulary(const RankVocabulary& known, Vocabulary& vocabulary) {
  for (const SpecialRun& run : known.specials) {
    for (int i = 0; i < run.count; ++i) {
      const std::string name = name_of(run, i);
      vocabulary.add(name, name.starts_with("[unused") ? TokenKind::unused : TokenKind::control);
    }
  }
  VocabularySource& facts = vocabulary.facts;
  facts.words = known.words;
  facts.normalization = known.normalization;
  facts.add_bos = known.add_bos;
  facts.add_eos = false;
  if (!known.bos.empty()) facts.bos = vocabulary.find(known.bos);
  if (!known.eos.empty()) facts.eos = vocabulary.find(known.eos);
}

}  // namespace gale::text
