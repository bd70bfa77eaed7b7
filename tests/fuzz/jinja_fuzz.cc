// Fuzzes the chat template interpreter: any source compiles or fails, and renders or fails, within its limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto compiled = gale::text::ChatTemplate::compile(source);
  if (!compiled.ok()) return 0;
  gale::text::ChatRenderOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  const auto rendered = compiled->render({{"system", "Be brief."}, {"user", " <b> \xC3\xA9 \xFF 1,2\n"}}, options);
  if (!rendered.ok()) return 0;
  for (size_t i = 0; i < rendered->size(); ++i) {
    // Parts are not empty and alternate.
    if ((*rendered)[i].text.empty()) __builtin_trap();
    if (i > 0 && (*rendered)[i].from_template == (*rendered)[i - 1].from_template) __builtin_trap();
  }
  return 0;
}
