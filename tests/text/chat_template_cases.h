// Reads chat template cases from JSON and renders them; shared by the golden tests and the differential driver.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/chat_template.h"

namespace gale::text {

struct CaseResult {
  bool ok = false;
  std::string text;     // all parts joined
  std::string message;  // of the error
  std::vector<RenderedPart> parts;
};

using CaseJson = nlohmann::ordered_json;  // templates see the order of keys

// The conversation of a case: its messages, and tools, documents and variables where it has them.
inline Result<Conversation> conversation_of(const CaseJson& json) {
  CaseJson fields = {{"messages", json.value("messages", CaseJson::array())}};
  for (const char* name : {"tools", "documents", "variables", "add_generation_prompt"}) {
    if (json.contains(name)) fields[name] = json[name];
  }
  return Conversation::parse(fields.dump(-1, ' ', false, CaseJson::error_handler_t::replace));
}

inline CaseResult render_case(const std::string& source, const CaseJson& json) {
  CaseResult out;
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled.ok()) {
    out.message = compiled.error().message;
    return out;
  }
  ChatRenderOptions options;
  options.bos_token = json.value("bos_token", "<s>");
  options.eos_token = json.value("eos_token", "</s>");
  options.now_unix_seconds = json.value("now", int64_t{0});
  const auto conversation = conversation_of(json);
  if (!conversation.ok()) {
    out.message = conversation.error().message;
    return out;
  }
  auto rendered = compiled->render(*conversation, options);
  if (!rendered.ok()) {
    out.message = rendered.error().message;
    return out;
  }
  out.ok = true;
  out.parts = *std::move(rendered);
  for (const RenderedPart& part : out.parts) out.text += part.text;
  return out;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace gale::text
