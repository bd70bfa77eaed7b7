// What a conversation is made of: values of the template language.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja_value.h"

namespace gale::text {

struct Conversation::State {
  jinja::Value messages, tools = jinja::None{}, documents = jinja::None{};
  std::vector<std::pair<std::string, jinja::Value>> variables;
  std::optional<bool> add_generation_prompt;
  std::optional<std::string> template_name;
};

}  // namespace gale::text
