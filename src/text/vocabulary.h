// The facts about a vocabulary that a model file holds, in the form that Tokenizer is made from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gale::text {

using Token = int32_t;

// Values are GGUF's (tokenizer.ggml.token_type).
enum class TokenKind : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// Views must stay valid as long as the Tokenizer lives (they point into the mapped file).
struct VocabularySource {
  std::string_view model;          // tokenizer.ggml.model: "gpt2", "llama", ...
  std::string_view pre_tokenizer;  // tokenizer.ggml.pre; empty: the key is missing
  std::span<const std::string_view> tokens;
  std::span<const float> scores;             // empty, or one per token
  std::span<const int64_t> kinds;            // empty, or one TokenKind per token
  std::span<const std::string_view> merges;  // "left right", best first
  std::optional<int64_t> bos, eos, eot, eom, unknown, padding;
  std::span<const int64_t> more_eos;  // further ids that end a turn (tokenizer.ggml.eos_token_ids)
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

}  // namespace gale::text
