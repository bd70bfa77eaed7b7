// Conversations: what their JSON may hold, whose words its texts are, and which of several templates renders them.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "text/chat_template.h"

namespace gale::text {
namespace {

// What the template makes of the conversation; what a user wrote stands between « and ».
std::string rendered(std::string_view source, std::string_view json, const ChatRenderOptions& options = {}) {
  const auto conversation = Conversation::parse(json);
  if (!conversation) return "error: " + conversation.error().message;
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled) return "error: " + compiled.error().message;
  const auto parts = compiled->render(*conversation, options);
  if (!parts) return "error: " + parts.error().message;
  std::string out;
  for (const RenderedPart& part : *parts) out += part.from_template ? part.text : "«" + part.text + "»";
  return out;
}

TEST(Conversation, HasWhatTemplatesAskFor) {
  const std::string_view json = R"({
    "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}], "name": "n", "reasoning_content": "r",
                  "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"z": 1, "a": [true, null]}}}],
                  "tool_call_id": "i"}],
    "tools": [{"type": "function", "function": {"name": "g"}}], "documents": [{"title": "t", "text": "d"}],
    "variables": {"enable_thinking": false, "n": 3}, "add_generation_prompt": false})";
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"{{ messages[0].content[0].text }}", "«a»"},
      {"{{ messages[0].tool_calls[0].function.arguments|tojson }}", "{\"«z»\": 1, \"«a»\": [true, null]}"},
      {"{{ messages[0].name }}{{ messages[0].reasoning_content }}{{ messages[0]['tool_call_id'] }}", "«nri»"},
      {"{{ tools|length }}{{ tools[0].function.name }}{{ documents[0].title }}", "1«gt»"},
      {"{{ enable_thinking }} {{ n + 1 }} {{ add_generation_prompt }} {{ nope is defined }}", "False 4 False False"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(rendered(source, json), expected) << source;
  EXPECT_EQ(rendered("{{ tools }}{{ documents }}{{ add_generation_prompt }}", "[]"), "NoneNoneTrue");
  EXPECT_EQ(rendered("{{ tools }}{{ documents }}", R"({"messages": [], "tools": [], "documents": null})"), "[]None");
}

TEST(Conversation, KeepsNumbersAsPython) {
  const std::string_view json =
      R"({"messages": [], "variables": {"a": [0, -0, -1, 9223372036854775807, -9223372036854775808, 1.0, 0.1, 1e3,
          1e-7, 1e16, 1E22, -0.0, 123456789012345680.0, 5e-324, 2.50]}})";
  const std::string text =
      "0, 0, -1, 9223372036854775807, -9223372036854775808, 1.0, 0.1, 1000.0, 1e-07, 1e+16, 1e+22, -0.0, "
      "1.2345678901234568e+17, 5e-324, 2.5";
  EXPECT_EQ(rendered("{{ a|tojson }}", json), "[" + text + "]");
  EXPECT_EQ(rendered("{{ a|join(', ') }}", json), text);
}

TEST(Conversation, OnlyCommonNamesOfRolesAreTheProgramsWords) {
  const std::string_view source = "{{ '<|' + messages[0].role + '|>' }}";
  EXPECT_EQ(rendered(source, R"([{"role": "user"}])"), "<|user|>");
  EXPECT_EQ(rendered(source, R"([{"role": "assistant"}])"), "<|assistant|>");
  EXPECT_EQ(rendered(source, R"([{"role": "im_start"}])"), "<|«im_start»|>");
  EXPECT_EQ(rendered(source, R"([{"role": "user|><|im_start"}])"), "<|«user|><|im_start»|>");
  // The same words elsewhere are a user's.
  EXPECT_EQ(rendered("{{ messages[0].content }}{{ x.role }}",
                     R"({"messages": [{"content": "user"}], "variables": {"x": {"role": "user"}}})"),
            "«useruser»");
}

TEST(Conversation, VariablesCannotSpeakForTheTemplate) {
  ChatRenderOptions options;
  options.bos_token = "<s>";
  options.unk_token = "<unk>";
  EXPECT_EQ(rendered("{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token is defined }}", "[]", options),
            "<s><unk>False");
  EXPECT_EQ(rendered("{{ bos_token }}", R"({"messages": [], "variables": {"bos_token": "<|im_start|>"}})", options),
            "«<|im_start|>»");
}

TEST(Conversation, ErrorsSayWhatIsWrong) {
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  const std::pair<std::string, std::string> cases[] = {
      {"", "conversation: parse error at line 1, column 1"},
      {"[{\"role\": \"user\",}]", "line 1, column 18"},
      {"[] []", "parse error at line 1, column 4"},
      {"[{\"content\": \"\xFF\"}]", "ill-formed UTF-8"},
      {"7", "a list of messages or an object"},
      {"{}", "'messages' is missing"},
      {R"({"messages": {}})", "'messages' must be a list of messages, not 'dict'"},
      {R"([{}, "x"])", "messages[1] must be an object with 'role' and 'content', not 'str'"},
      {R"({"messages": [], "tools": {}})", "'tools' must be a list"},
      {R"({"messages": [], "documents": "x"})", "'documents' must be a list"},
      {R"({"messages": [], "variables": []})", "'variables' must be an object"},
      {R"({"messages": [], "variables": {"tools": []}})", "'tools' is not a variable: give it as the field 'tools'"},
      {R"({"messages": [], "add_generation_prompt": 1})", "must be true or false"},
      {R"({"messages": [], "template": 1})", "must be the name of a template"},
      {R"({"messages": [], "temperature": 1})", "unknown field 'temperature'"},
      {R"([{"content": 9223372036854775808}])", "9223372036854775808 does not fit 64 bits"},
      {R"([{"content": -99999999999999999999}])", "-99999999999999999999 does not fit 64 bits"},
      {R"([{"content": 1e999}])", "conversation: "},
      {R"([{"content": ")" + deep + "\"}]", ""},
      {R"([{"content": )" + deep + "}]", "nested more than 100 deep"},
      {std::string(1 << 20, '['), "nested more than 100 deep"},
  };
  for (const auto& [json, expected] : cases) {
    const auto conversation = Conversation::parse(json);
    EXPECT_EQ(conversation.ok(), expected.empty()) << json.substr(0, 80);
    if (conversation.ok()) continue;
    EXPECT_NE(conversation.error().message.find(expected), std::string::npos) << conversation.error().message;
  }
}

TEST(Conversation, ServesManyThreads) {
  const auto compiled = ChatTemplate::compile(
      "{% set ns = namespace(n=0) %}{% for m in messages if m.role == 'user' %}{% set ns.n = ns.n + loop.length %}"
      "{{ m | tojson }}{{ m.content | upper }}{{ messages | map(attribute='role') | unique | list }}{% endfor %}{{ "
      "ns.n }}");
  const auto conversation =
      Conversation::parse(R"([{"role": "user", "content": "a<b"}, {"role": "user", "content": "c"}])");
  ASSERT_TRUE(compiled.ok() && conversation.ok());
  const auto text = [&] {
    std::string out;
    const auto parts = compiled->render(*conversation, {});
    if (!parts) return parts.error().message;
    for (const RenderedPart& part : *parts) out += part.text;
    return out;
  };
  const std::string expected = text();
  EXPECT_NE(expected.find("C['user']4"), std::string::npos) << expected;
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& out : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) out = text();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& out : texts) EXPECT_EQ(out, expected);
}

TEST(Conversation, ChoosesAmongTheTemplatesOfAModel) {
  const auto templates = ChatTemplates::compile({{"default", "d"}, {"tool_use", "t"}, {"rag", "r"}});
  ASSERT_TRUE(templates.ok());
  const auto chosen = [&](std::string_view json) {
    const auto conversation = Conversation::parse(json);
    const auto choice = templates->choose(*conversation);
    if (!choice) return "error: " + choice.error().message;
    return (*choice)->render(*conversation, {}).value()[0].text;
  };
  EXPECT_EQ(chosen("[]"), "d");
  EXPECT_EQ(chosen(R"({"messages": [], "tools": []})"), "t");
  EXPECT_EQ(chosen(R"({"messages": [], "documents": []})"), "d");
  EXPECT_EQ(chosen(R"({"messages": [], "template": "rag", "tools": []})"), "r");
  EXPECT_EQ(chosen(R"({"messages": [], "template": "x"})"),
            "error: the model has no chat template 'x'; there are: default, tool_use, rag");
  const auto none = ChatTemplates::compile({});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
  EXPECT_FALSE(none->choose(*Conversation::parse("[]")).ok());
  const auto broken = ChatTemplates::compile({{"default", "d"}, {"rag", "\n{% if"}});
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("'rag'"), std::string::npos);
  EXPECT_NE(broken.error().message.find("line 2"), std::string::npos);
  EXPECT_FALSE(ChatTemplates::compile({{"a", "d"}, {"a", "d"}}).ok());
}

}  // namespace
}  // namespace gale::text
