// The chat template of a model, run by an interpreter of the Jinja language, and the conversations that it renders.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace gale::text {

struct ChatMessage {
  std::string role;     // "system", "user", "assistant", "tool"
  std::string content;  // plain text; never turns into control tokens
};

// What a template renders: messages, tools, documents and variables, as transformers' apply_chat_template takes them.
// Immutable; safe to share between threads. Every text in it is the user's: it never turns into control tokens. Only
// the common names of roles are the program's own words, because templates write '<|' + role + '|>'.
class Conversation {
 public:
  // A list of messages, or an object with `messages` and, where wanted, `tools` and `documents` (lists), `variables`
  // (an object: enable_thinking and the like), `add_generation_prompt` (a boolean), `template` (the name of one of
  // several templates). Messages are objects of any content: the template says what it takes. Errors name line and
  // column, or the field.
  static Result<Conversation> parse(std::string_view json);
  static Result<Conversation> create(const std::vector<ChatMessage>& messages);
  ~Conversation();
  Conversation(Conversation&&) noexcept;
  Conversation& operator=(Conversation&&) noexcept;

  bool has_tools() const;  // a list was given, be it empty
  std::optional<bool> add_generation_prompt() const;
  std::optional<std::string> template_name() const;

 private:
  friend class ChatTemplate;
  struct State;
  explicit Conversation(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

// A piece of rendered text and where it came from: only text of the template itself may become control tokens.
struct RenderedPart {
  std::string text;
  bool from_template = true;  // false: (part of) a message
};

struct ChatRenderOptions {
  bool add_generation_prompt = true;  // unless the conversation says
  std::string bos_token, eos_token;   // texts that the template's variables hold
  std::string unk_token, pad_token;   // the same; undefined when empty
  int64_t now_unix_seconds = 0;       // for strftime_now
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
  // values, the limits on steps, memory and output size; with line and column.
  Result<std::vector<RenderedPart>> render(const Conversation& conversation, const ChatRenderOptions& options) const;
  Result<std::vector<RenderedPart>> render(const std::vector<ChatMessage>& messages,
                                           const ChatRenderOptions& options) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

// All templates of a model: most have one, some have others for tools or documents.
class ChatTemplates {
 public:
  // The name of the one that is used unless another fits better.
  static constexpr std::string_view kDefault = "default";

  // Errors name the template if there are several. No sources: no templates.
  static Result<ChatTemplates> compile(const std::vector<std::pair<std::string, std::string_view>>& named_sources);

  bool empty() const { return templates_.empty(); }
  // The one that the conversation names; else "tool_use" if it has tools; else "default"; as transformers chooses.
  // Errors list the names that there are.
  Result<const ChatTemplate*> choose(const Conversation& conversation) const;

 private:
  const ChatTemplate* find(std::string_view name) const;
  std::vector<std::pair<std::string, ChatTemplate>> templates_;
};

}  // namespace gale::text
