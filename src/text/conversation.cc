// Conversations from JSON: values of the template language that remember that a user wrote them.
#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

#include "base/json_reason.h"
#include "text/conversation_state.h"
#include "text/unicode.h"

namespace gale::text {

using namespace jinja;  // NOLINT: the values of the interpreter are this file's vocabulary

namespace {

// Names of roles that templates build control tokens from ('<|' + role + '|>'). They say nothing that a user made up,
// so they count as the program's words; any other role is text of the user.
constexpr std::string_view kRoles[] = {"system",   "developer", "user",  "assistant",   "model",  "tool",
                                       "function", "ipython",   "tools", "observation", "context"};

// Variables that a conversation cannot set: they have fields of their own.
constexpr std::string_view kReserved[] = {"messages", "tools", "documents", "add_generation_prompt"};

template <size_t N>
bool is_one_of(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

[[noreturn]] void refuse_number(std::string_view text) {
  throw Failure{ErrorKind::limit, fmt::format("the number {} does not fit 64 bits", text)};
}

// Receives the parser's events and builds the value; a deep nesting is refused before anything recurses over it.
class ValueBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ValueBuilder(Context& context) : context_(context) {}

  Value take() { return std::move(root_); }
  const std::string& syntax_error() const { return syntax_error_; }

  bool null() override { return put(None{}); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(int64_t value) override { return put(value); }
  bool number_unsigned(uint64_t value) override {
    if (value > INT64_MAX) refuse_number(std::to_string(value));
    return put(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos) refuse_number(text);  // an integer of many digits
    return put(value);
  }
  bool string(std::string& value) override { return put(make_text(context_, std::move(value), false)); }
  bool binary(nlohmann::json::binary_t&) override { return false; }  // not in JSON text
  bool key(std::string& name) override {
    open_.back().key = make_text(context_, std::move(name), false);
    return true;
  }
  bool start_object(size_t) override { return open(/*is_dict=*/true); }
  bool start_array(size_t) override { return open(/*is_dict=*/false); }
  bool end_object() override {
    auto entries = std::move(open_.back().entries);
    open_.pop_back();
    return put(make_dict(context_, std::move(entries)));
  }
  bool end_array() override {
    auto items = std::move(open_.back().items);
    open_.pop_back();
    return put(make_sequence(context_, std::move(items)));
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    std::string storage;
    size_t changed = 0;  // the message quotes the input
    syntax_error_ = repair_utf8(json_reason(error.what()), storage, &changed);
    return false;
  }

 private:
  struct Open {
    bool is_dict = false;
    Value key;
    std::vector<Value> items;
    std::vector<std::pair<Value, Value>> entries;
  };

  bool open(bool is_dict) {
    if (open_.size() >= context_.limits.value_depth) {
      throw Failure{ErrorKind::limit,
                    fmt::format("lists or objects nested more than {} deep, the limit", context_.limits.value_depth)};
    }
    open_.emplace_back().is_dict = is_dict;
    return true;
  }

  bool put(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_dict) {
      open_.back().entries.emplace_back(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  Context& context_;
  std::vector<Open> open_;
  Value root_;
  std::string syntax_error_;
};

const Dict* as_dict(const Value& value) {
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value);
  return dict == nullptr ? nullptr : dict->get();
}

const Sequence* as_list(const Value& value) {
  const auto* list = std::get_if<std::shared_ptr<Sequence>>(&value);
  return list == nullptr ? nullptr : list->get();
}

Value message_with_marked_role(Context& context, const Dict& message) {
  std::vector<std::pair<Value, Value>> entries = message.entries;
  for (auto& [key, value] : entries) {
    const MarkedText* role = as_text(value);
    if (role == nullptr || as_text(key)->bytes() != "role" || !is_one_of(kRoles, role->bytes())) continue;
    value = make_text(context, role->bytes(), true);
  }
  return make_dict(context, std::move(entries));
}

Value messages_of(Context& context, const Value& value) {
  const Sequence* list = as_list(value);
  if (list == nullptr) raise("'messages' must be a list of messages, not '{}'", type_name(value));
  std::vector<Value> messages;
  for (size_t i = 0; i < list->items.size(); ++i) {
    const Dict* message = as_dict(list->items[i]);
    if (message == nullptr) {
      raise("messages[{}] must be an object with 'role' and 'content', not '{}'", i, type_name(list->items[i]));
    }
    messages.push_back(message_with_marked_role(context, *message));
  }
  return make_sequence(context, std::move(messages));
}

const Value& list_or_none(std::string_view field, const Value& value) {
  if (!is_none(value) && as_list(value) == nullptr) raise("'{}' must be a list, not '{}'", field, type_name(value));
  return value;
}

std::vector<std::pair<std::string, Value>> variables_of(const Value& value) {
  if (is_none(value)) return {};
  const Dict* dict = as_dict(value);
  if (dict == nullptr) raise("'variables' must be an object, not '{}'", type_name(value));
  std::vector<std::pair<std::string, Value>> variables;
  for (const auto& [key, item] : dict->entries) {
    const std::string& name = as_text(key)->bytes();
    if (is_one_of(kReserved, name)) raise("'{0}' is not a variable: give it as the field '{0}'", name);
    variables.emplace_back(name, item);
  }
  return variables;
}

}  // namespace

Conversation::Conversation(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Conversation::~Conversation() = default;
Conversation::Conversation(Conversation&&) noexcept = default;
Conversation& Conversation::operator=(Conversation&&) noexcept = default;

bool Conversation::has_tools() const {
  return !is_none(state_->tools);
}
std::optional<bool> Conversation::add_generation_prompt() const {
  return state_->add_generation_prompt;
}
std::optional<std::string> Conversation::template_name() const {
  return state_->template_name;
}

Result<Conversation> Conversation::parse(std::string_view json) {
  Context context;
  try {
    ValueBuilder builder(context);
    if (!nlohmann::json::sax_parse(json, &builder)) {
      return fail(ErrorKind::invalid_input, "conversation: {}", builder.syntax_error());
    }
    const Value root = builder.take();
    auto state = std::make_unique<State>();
    const Dict* fields = as_dict(root);
    if (fields == nullptr) {
      if (as_list(root) == nullptr) raise("a list of messages or an object with 'messages' is expected");
      state->messages = messages_of(context, root);
      return Conversation(std::move(state));
    }
    bool has_messages = false;
    for (const auto& [key, value] : fields->entries) {
      const std::string& name = as_text(key)->bytes();
      if (name == "messages") {
        state->messages = messages_of(context, value);
        has_messages = true;
      } else if (name == "tools") {
        state->tools = list_or_none(name, value);
      } else if (name == "documents") {
        state->documents = list_or_none(name, value);
      } else if (name == "variables") {
        state->variables = variables_of(value);
      } else if (name == "add_generation_prompt") {
        const bool* flag = std::get_if<bool>(&value);
        if (flag == nullptr) raise("'add_generation_prompt' must be true or false");
        state->add_generation_prompt = *flag;
      } else if (name == "template") {
        if (as_text(value) == nullptr) raise("'template' must be the name of a template");
        state->template_name = as_text(value)->bytes();
      } else {
        raise("unknown field '{}'; there are messages, tools, documents, variables, add_generation_prompt and template",
              name);
      }
    }
    if (!has_messages) raise("the field 'messages' is missing");
    return Conversation(std::move(state));
  } catch (const Failure& failure) {
    return fail(failure.kind, "conversation: {}", failure.message);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::limit, "not enough memory for a conversation of {} bytes", json.size());
  }
}

Result<Conversation> Conversation::create(const std::vector<ChatMessage>& messages) {
  Context context;
  try {
    std::vector<Value> items;
    for (const ChatMessage& message : messages) {
      std::vector<std::pair<Value, Value>> entries;
      entries.emplace_back(make_text(context, "role"),
                           make_text(context, message.role, is_one_of(kRoles, message.role)));
      entries.emplace_back(make_text(context, "content"), make_text(context, message.content, false));
      items.push_back(make_dict(context, std::move(entries)));
    }
    auto state = std::make_unique<State>();
    state->messages = make_sequence(context, std::move(items));
    return Conversation(std::move(state));
  } catch (const Failure& failure) {
    return fail(failure.kind, "conversation: {}", failure.message);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::limit, "not enough memory for a conversation of {} messages", messages.size());
  }
}

}  // namespace gale::text
