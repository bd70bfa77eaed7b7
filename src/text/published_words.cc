// Expressions as the tokenizers' own files write them.
#include "text/published_words.h"

#include <algorithm>
#include <iterator>

namespace gale::text {

// clang-format off
constexpr std::string_view gpt2_text =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view gpt2_expression = gpt2_text;
constexpr std::string_view digit_text = R"(\p{N})";
const std::string_view digit_expression = digit_text;

namespace {

struct Published {
  WordRule rule;
  std::string_view steps[3];  // empty: there are fewer
};

constexpr Published published[] = {
    {WordRule::gpt2, {gpt2_text}},
    {WordRule::gpt2, {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}},
    {WordRule::digits_gpt2, {digit_text, gpt2_text}},
    {WordRule::llama3,
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {WordRule::llama3,
     {R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {WordRule::qwen2,
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {WordRule::qwen35,
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {WordRule::gpt4o,
     {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {WordRule::tekken,
     {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {WordRule::deepseek3,
     {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    {WordRule::newlines, {R"([^\n]+|[\n]+)"}},
};
// clang-format on

// Matches and what lies between them become words.
bool keeps_all(const WordPattern& step) {
  return step.matches == WordPattern::Matches::isolated;
}

// Only the matches become words: the same where an expression matches everything, as all single published ones do.
bool keeps_matches(const WordPattern& step) {
  return step.matches == WordPattern::Matches::removed && step.inverted;
}

}  // namespace

std::optional<WordRule> find_word_rule(std::span<const WordPattern> steps) {
  for (const Published& p : published) {
    const auto count = static_cast<size_t>(std::find(std::begin(p.steps), std::end(p.steps), std::string_view()) -
                                           std::begin(p.steps));
    if (count != steps.size()) continue;
    bool same = true;
    for (size_t i = 0; i < count; ++i) {
      same =
          same && steps[i].expression == p.steps[i] && (keeps_all(steps[i]) || (count == 1 && keeps_matches(steps[i])));
    }
    if (same) return p.rule;
  }
  return std::nullopt;
}

}  // namespace gale::text
