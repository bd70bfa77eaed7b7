// The border of the Jinja interpreter: compile and render with errors as values and the conversation as variables.
#include "text/chat_template.h"

#include <new>

#include "text/jinja_evaluator.h"
#include "text/jinja_parser.h"

namespace gale::text {

using namespace jinja;  // NOLINT: the interpreter is this file's vocabulary

struct ChatTemplate::State {
  std::unique_ptr<const Tree> tree;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const State> state) : state_(std::move(state)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

namespace {

constexpr size_t kMaxSourceBytes = 4u << 20;  // published templates have up to 30 KB

Error error_at(ErrorKind kind, std::string_view source, size_t position, std::string_view message) {
  const Place place = place_of(source, position);
  return fail(kind, "chat template, line {}, column {}: {}", place.line, place.column, message);
}

Value conversation(Context& context, const std::vector<ChatMessage>& messages) {
  std::vector<Value> items;
  for (const ChatMessage& message : messages) {
    std::vector<std::pair<Value, Value>> entries;
    entries.emplace_back(make_text(context, "role"), make_text(context, message.role, false));
    entries.emplace_back(make_text(context, "content"), make_text(context, message.content, false));
    items.push_back(make_dict(context, std::move(entries)));
  }
  return make_sequence(context, std::move(items));
}

}  // namespace

Result<ChatTemplate> ChatTemplate::compile(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return fail(ErrorKind::limit, "the chat template has {} bytes, the limit is {}", source.size(), kMaxSourceBytes);
  }
  try {
    auto state = std::make_unique<State>();
    state->tree = parse(source);
    return ChatTemplate(std::move(state));
  } catch (const SyntaxFailure& failure) {
    return error_at(ErrorKind::invalid_input, normalize_source(source), failure.position, failure.message);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::limit, "not enough memory to compile the chat template of {} bytes", source.size());
  }
}

Result<std::vector<RenderedPart>> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                                       const ChatRenderOptions& options) const {
  Context context;
  context.now_unix_seconds = options.now_unix_seconds;
  try {
    std::vector<std::pair<std::string, Value>> variables;
    variables.emplace_back("messages", conversation(context, messages));
    variables.emplace_back("add_generation_prompt", options.add_generation_prompt);
    variables.emplace_back("bos_token", make_text(context, options.bos_token));
    variables.emplace_back("eos_token", make_text(context, options.eos_token));
    variables.emplace_back("tools", None{});
    variables.emplace_back("documents", None{});
    const MarkedText text = evaluate(*state_->tree, context, std::move(variables));
    std::vector<RenderedPart> parts;
    text.for_each_run(0, text.size(), [&](std::string_view bytes, bool from_template) {
      parts.push_back({std::string(bytes), from_template});
    });
    return parts;
  } catch (const Failure& failure) {
    return error_at(failure.kind, state_->tree->source, context.position, failure.message);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::limit, "not enough memory to render the chat template");
  }
}

}  // namespace gale::text
