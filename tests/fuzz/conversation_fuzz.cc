// Fuzzes conversations: any JSON is refused or rendered by every template of a set, and no text of it, whatever the
// template does with it, becomes a control token.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace {

using namespace gale::text;

// They print every text of the conversation somewhere, in the ways that published templates have. None of them writes a
// control token itself, so any that comes out was made of a user's text.
constexpr std::string_view kTemplates[] = {
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content | trim }}{% elif m.content is "
    "iterable %}{% for p in m.content %}{{ p.text or p }}{% endfor %}{% endif %}{{ m.name ~ m.reasoning_content }}"
    "{% for c in m.tool_calls or [] %}{{ (c.function or c).name ~ (c.function or c).arguments | string }}{% endfor %}"
    "{% endfor %}{{ tools | tojson }}{{ documents | tojson(indent=2) }}",
    "{{ messages }}{{ tools }}{{ documents }}{{ enable_thinking }}",
    "{{ messages | tojson | upper }}{{ (messages | tojson)[::-1] }}{{ (messages | string).split('|') | join('_') }}",
    "{% macro walk(v) %}{% if v is mapping %}{% for k, x in v | dictsort %}{{ k }}:{{ walk(x) }}{% endfor %}"
    "{% elif v is sequence and v is not string %}{% for x in v %}{{ walk(x) }}{% endfor %}{% else %}{{ v | e }}"
    "{{ '%s' % (v,) }}{{ '{}'.format(v) }}{% endif %}{% endmacro %}{{ walk(messages) }}{{ walk(tools) }}",
    "{% for m in messages | groupby('role') %}{{ m[0] ~ m[1] | map(attribute='content') | list }}{% endfor %}",
    "{% for c in messages | string %}{{ c }}{% endfor %}{{ messages | string | replace(' ', '') | indent | title }}",
    "{{ messages[0].content.replace('x', '') ~ messages[1].content }}{{ messages | map('tojson') | join }}",
    "{% for m in messages %}{{ m.content.strip('x').upper().lower() + m.role }}{% endfor %}",
};
constexpr std::string_view kControl[] = {"<|a|>", "<s>", "</s>", "|>", "<|", "x", "[INST]"};

Tokenizer make_tokenizer() {
  static const std::string bytes = [] {
    std::string all;
    for (int b = 0; b < 128; ++b) all += static_cast<char>(b);
    return all;
  }();
  static std::vector<std::string_view> tokens;
  static std::vector<int64_t> kinds;
  for (size_t b = '!'; b < 127; ++b) {
    tokens.push_back(std::string_view(bytes).substr(b, 1));
    kinds.push_back(static_cast<int64_t>(TokenKind::normal));
  }
  for (const std::string_view text : kControl) {
    tokens.push_back(text);
    kinds.push_back(static_cast<int64_t>(TokenKind::control));
  }
  VocabularySource source;
  source.model = "gpt2";
  source.pre_tokenizer = "gpt-2";
  source.tokens = tokens;
  source.kinds = kinds;
  auto tokenizer = Tokenizer::create(source);
  if (!tokenizer) std::abort();
  return *std::move(tokenizer);
}

std::vector<ChatTemplate> compile_all() {
  std::vector<ChatTemplate> out;
  for (const std::string_view source : kTemplates) {
    auto compiled = ChatTemplate::compile(source);
    if (!compiled) std::abort();
    out.push_back(*std::move(compiled));
  }
  return out;
}

// Control tokens among those of the rendered text.
size_t control_tokens(const Tokenizer& tokenizer, const std::vector<RenderedPart>& rendered) {
  std::vector<PromptPart> parts;
  for (const RenderedPart& part : rendered) parts.push_back({part.text, part.from_template});
  const std::vector<Token> tokens = tokenizer.encode(parts, {.special = true});
  return static_cast<size_t>(std::count_if(tokens.begin(), tokens.end(),
                                           [&](Token token) { return tokenizer.kind(token) == TokenKind::control; }));
}

// What the template wrote itself holds these texts only where its own literals do: JSON's and Python's punctuation,
// names of types, never the characters < and |.
bool has_control_text(const std::vector<RenderedPart>& rendered) {
  return std::any_of(rendered.begin(), rendered.end(), [](const RenderedPart& part) {
    return part.from_template && part.text.find('|') != std::string::npos;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer tokenizer = make_tokenizer();
  static const std::vector<ChatTemplate> templates = compile_all();
  const auto conversation = Conversation::parse({reinterpret_cast<const char*>(data), size});
  if (!conversation) {
    if (conversation.error().message.empty()) __builtin_trap();
    return 0;
  }
  for (const ChatTemplate& one : templates) {
    const auto rendered = one.render(*conversation, {});
    if (!rendered) continue;
    // The joined text of the user alone, then with the template's words around it.
    if (has_control_text(*rendered)) __builtin_trap();
    size_t allowed = 0;  // what the template's own words hold: 'x' of "Undefined..." has none, "<...>" of values may
    for (const RenderedPart& part : *rendered) {
      if (part.from_template) allowed += control_tokens(tokenizer, {part});
    }
    if (control_tokens(tokenizer, *rendered) > allowed) __builtin_trap();
  }
  return 0;
}
