// The chat template of a model file, run by an interpreter of the Jinja language (lexer, parser, evaluator).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gale::text {

struct ChatMessage {
  std::string role;     // "system", "user", "assistant", "tool"
  std::string content;  // plain text; never turns into control tokens
};

// A piece of rendered text and where it came from: only text of the template itself may become control tokens.
struct RenderedPart {
  std::string text;
  bool from_template = true;  // false: (part of) a message
};

struct ChatRenderOptions {
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;  // texts that the template's variables hold
  int64_t now_unix_seconds = 0;      // for strftime_now
};

// Compiled once, immutable, safe to share between threads.
class ChatTemplate {
 public:
  // Errors point at line and column of the template.
  static Result<ChatTemplate> compile(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Adjacent parts of the same origin are joined. Errors: raise_exception of the template, operations on undefined
  // values, the limits on steps and output size; with line and column.
  Result<std::vector<RenderedPart>> render(const std::vector<ChatMessage>& messages,
                                           const ChatRenderOptions& options) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace gale::text
