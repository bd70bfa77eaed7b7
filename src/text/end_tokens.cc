// Which tokens end a turn: the ids of the file and the texts that are known to.
#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "text/tokenizer_data.h"

namespace gale::text {
namespace {

constexpr std::string_view strike_end = "</s>";
constexpr std::string_view end_texts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<|endoftext|>",
    strike_end,
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",  // DeepSeek: U+FF5C and U+2581 inside
    "[e~[",
    // Padding, repository and file marks of fill-in-the-middle vocabularies: no answer goes on behind them.
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
};
// Marks of a harmony answer that are shown, so that a program can tell its channels apart.
constexpr std::string_view shown_texts[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

template <size_t N>
bool contains(const std::string_view (&list)[N], std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

}  // namespace

void find_end_tokens(const VocabularySource& source, TokenizerData& data) {
  std::vector<Token>& ends = data.end_tokens;
  Token harmony_end = -1;
  bool has_return = false, has_call = false, has_flush = false, has_tool_response = false;
  for (size_t i = 0; i < data.texts.size(); ++i) {
    const std::string_view text = data.texts[i];
    if (text.size() < 4 || text.size() > 32 || (text[0] != '<' && text[0] != '[' && text[0] != '_')) continue;
    if (contains(shown_texts, text)) data.shown[i] = true;
    if (!contains(end_texts, text)) continue;
    // Gemma's user-defined </s> is the HTML tag that ends struck-out text.
    if (text == strike_end && data.kinds[i] == TokenKind::user_defined) continue;
    const bool special = data.kinds[i] == TokenKind::control || data.kinds[i] == TokenKind::user_defined;
    if (source.exact_kinds && !special) continue;
    const auto token = static_cast<Token>(i);
    ends.push_back(token);
    if (text == "<|end|>") harmony_end = token;
    has_return = has_return || text == "<|return|>";
    has_call = has_call || text == "<|call|>" || text == "<|calls|>";
    has_flush = has_flush || text == "<|flush|>";
    has_tool_response = has_tool_response || text == "<|tool_response>";
  }
  if (has_tool_response) std::erase_if(ends, [&](Token t) { return data.texts[static_cast<size_t>(t)] == strike_end; });
  // Harmony: <|end|> closes a channel; the turn goes on.
  if (harmony_end >= 0 && has_call && (has_return || has_flush)) {
    std::erase(ends, harmony_end);
    data.shown[static_cast<size_t>(harmony_end)] = true;
  }
  for (const Token token : ends) {
    TokenKind& kind = data.kinds[static_cast<size_t>(token)];
    if (kind == TokenKind::control) continue;
    log(LogLevel::warning, "token {} '{}' ends a turn but is not marked as a control token; it is treated as one",
        token, data.texts[static_cast<size_t>(token)]);
    kind = TokenKind::control;
  }
  const auto add_id = [&](const std::optional<int64_t>& id) {
    if (id.has_value() && *id >= 0 && static_cast<size_t>(*id) < data.texts.size())
      ends.push_back(static_cast<Token>(*id));
  };
  add_id(data.eos >= 0 ? std::optional<int64_t>(data.eos) : std::nullopt);
  add_id(source.eot);
  add_id(source.eom);
  for (const int64_t id : source.more_eos) add_id(id);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

}  // namespace gale::text
