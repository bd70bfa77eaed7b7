// Fuzzes the chat template interpreter: any source compiles or fails, and renders or fails, within its limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

namespace {

constexpr std::string_view kConversation = R"({
  "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " <b> é \u0000 1,2\n"},
               {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f",
                "arguments": {"x": [1, -2.5, true], "y": {"z": ""}}}}]},
               {"role": "tool", "content": [{"type": "text", "text": "3"}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {"type": "array"}}}}}],
  "documents": [{"title": "t", "text": "d"}], "variables": {"enable_thinking": true, "n": 3}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto conversation = gale::text::Conversation::parse(kConversation);
  const auto compiled = gale::text::ChatTemplate::compile({reinterpret_cast<const char*>(data), size});
  if (!compiled) return 0;
  gale::text::ChatRenderOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  const auto rendered = compiled->render(*conversation, options);
  if (!rendered) return 0;
  for (size_t i = 0; i < rendered->size(); ++i) {
    // Parts are not empty and alternate.
    if ((*rendered)[i].text.empty()) __builtin_trap();
    if (i > 0 && (*rendered)[i].from_template == (*rendered)[i - 1].from_template) __builtin_trap();
  }
  return 0;
}
