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

inline std::vector<ChatMessage> messages_of(const nlohmann::json& json) {
  std::vector<ChatMessage> messages;
  for (const auto& item : json.value("messages", nlohmann::json::array())) {
    messages.push_back({item.at("role").get<std::string>(), item.at("content").get<std::string>()});
  }
  return messages;
}

inline CaseResult render_case(const std::string& source, const nlohmann::json& json) {
  CaseResult out;
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled.ok()) {
    out.message = compiled.error().message;
    return out;
  }
  ChatRenderOptions options;
  options.add_generation_prompt = json.value("add_generation_prompt", true);
  options.bos_token = json.value("bos_token", "<s>");
  options.eos_token = json.value("eos_token", "</s>");
  options.now_unix_seconds = json.value("now", int64_t{0});
  auto rendered = compiled->render(messages_of(json), options);
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
