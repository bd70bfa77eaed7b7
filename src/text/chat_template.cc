// The border of the Jinja interpreter: compile and render with errors as values and the conversation as variables.
#include "text/chat_template.h"

#include <new>

#include "text/conversation_state.h"
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

Result<std::vector<RenderedPart>> ChatTemplate::render(const Conversation& conversation,
                                                       const ChatRenderOptions& options) const {
  Context context;
  context.now_unix_seconds = options.now_unix_seconds;
  try {
    const Conversation::State& given = *conversation.state_;
    std::vector<std::pair<std::string, Value>> variables = given.variables;  // the first of a name counts
    variables.emplace_back("messages", given.messages);
    variables.emplace_back("tools", given.tools);
    variables.emplace_back("documents", given.documents);
    variables.emplace_back("add_generation_prompt",
                           given.add_generation_prompt.value_or(options.add_generation_prompt));
    variables.emplace_back("bos_token", make_text(context, options.bos_token));
    variables.emplace_back("eos_token", make_text(context, options.eos_token));
    if (!options.unk_token.empty()) variables.emplace_back("unk_token", make_text(context, options.unk_token));
    if (!options.pad_token.empty()) variables.emplace_back("pad_token", make_text(context, options.pad_token));
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

Result<std::vector<RenderedPart>> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                                       const ChatRenderOptions& options) const {
  const auto conversation = Conversation::create(messages);
  if (!conversation) return conversation.error();
  return render(*conversation, options);
}

Result<ChatTemplates> ChatTemplates::compile(
    const std::vector<std::pair<std::string, std::string_view>>& named_sources) {
  ChatTemplates out;
  for (const auto& [name, source] : named_sources) {
    if (out.find(name) != nullptr) return fail(ErrorKind::invalid_input, "two chat templates are named '{}'", name);
    auto compiled = ChatTemplate::compile(source);
    if (!compiled) {
      if (named_sources.size() == 1) return std::move(compiled).error();
      return fail(compiled.error().kind, "chat template '{}': {}", name, compiled.error().message);
    }
    out.templates_.emplace_back(name, *std::move(compiled));
  }
  return out;
}

const ChatTemplate* ChatTemplates::find(std::string_view name) const {
  for (const auto& [other, compiled] : templates_) {
    if (other == name) return &compiled;
  }
  return nullptr;
}

Result<const ChatTemplate*> ChatTemplates::choose(const Conversation& conversation) const {
  if (empty()) return fail(ErrorKind::unsupported, "the model has no chat template");
  std::string names;
  for (const auto& entry : templates_) names += (names.empty() ? "" : ", ") + entry.first;
  if (const auto wanted = conversation.template_name()) {
    if (const ChatTemplate* named = find(*wanted)) return named;
    return fail(ErrorKind::not_found, "the model has no chat template '{}'; there are: {}", *wanted, names);
  }
  if (conversation.has_tools()) {
    if (const ChatTemplate* with_tools = find("tool_use")) return with_tools;
  }
  if (const ChatTemplate* usual = find(kDefault)) return usual;
  return fail(ErrorKind::not_found,
              "the model has several chat templates and none is named 'default'; name one in the conversation's "
              "'template': {}",
              names);
}

}  // namespace gale::text
