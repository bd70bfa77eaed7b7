// Chat templates: renders against jinja2's, marks of origin, places of errors, limits.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "text/chat_template_cases.h"

namespace gale::text {
namespace {

const std::string kFolder = std::string(GALE_TEST_DIR) + "/text/templates/";

constexpr int64_t kNoon = 1721044800;  // 15 July 2024, UTC: what make_golden.py renders with

void expect_joined(const std::vector<RenderedPart>& parts, const std::string& label) {
  for (size_t i = 1; i < parts.size(); ++i) {
    EXPECT_NE(parts[i].from_template, parts[i - 1].from_template) << "parts are joined: " << label;
  }
}

// The outcome that jinja2 had: a text, or null for an error.
void expect_outcome(const CaseResult& result, const CaseJson& expected, const std::string& label) {
  if (expected.is_null()) {
    EXPECT_FALSE(result.ok) << label << "\nrendered: " << result.text;
    EXPECT_NE(result.message.find("line "), std::string::npos) << label << "\n" << result.message;
  } else {
    EXPECT_TRUE(result.ok) << label << "\n" << result.message;
    EXPECT_EQ(result.text, expected.get<std::string>()) << label;
  }
  expect_joined(result.parts, label);
}

CaseJson conversation_named(const std::string& name) {
  for (CaseJson& item : CaseJson::parse(read_text(kFolder + "conversations.json"))) {
    if (item["name"] == name) return item;
  }
  ADD_FAILURE() << "no conversation '" << name << "'";
  return {};
}

TEST(ChatTemplate, RendersTemplatesOfPublishedModelsAsJinja2) {
  setenv("TZ", "UTC", 1);
  const auto golden = CaseJson::parse(read_text(kFolder + "golden.json"));
  const auto conversations = CaseJson::parse(read_text(kFolder + "conversations.json"));
  ASSERT_GE(golden.size(), 25u);
  ASSERT_GE(conversations.size(), 12u);
  for (const auto& [file, outcomes] : golden.items()) {
    for (CaseJson conversation : conversations) {
      conversation["now"] = kNoon;
      const std::string name = conversation["name"].get<std::string>();
      expect_outcome(render_case(read_text(kFolder + file), conversation), outcomes.at(name), file + ", " + name);
    }
  }
}

TEST(ChatTemplate, RendersTheLanguageAsJinja2) {
  setenv("TZ", "UTC", 1);
  const auto cases = CaseJson::parse(read_text(kFolder + "language.json"));
  ASSERT_GE(cases.size(), 120u);
  for (const auto& item : cases) {
    const std::string source = item["template"].get<std::string>();
    expect_outcome(render_case(source, item), item.value("expect", CaseJson()), source);
  }
}

CaseResult render(const std::string& source, const std::string& role = "user", const std::string& content = "Hi") {
  return render_case(source, {{"messages", {{{"role", role}, {"content", content}}}}});
}

// The parts as text: what a message wrote stands between « and ».
std::string marked(const std::string& source, const std::string& content) {
  const CaseResult result = render(source, "user", content);
  if (!result.ok) return "error: " + result.message;
  std::string out;
  for (const RenderedPart& part : result.parts) out += part.from_template ? part.text : "«" + part.text + "»";
  return out;
}

TEST(ChatTemplate, MarksWhatMessagesWrote) {
  const std::pair<std::string, std::string> cases[] = {
      {"<|a|>{{ messages[0].content }}<|b|>", "<|a|>« <X> yz »<|b|>"},
      {"{{ '<|a|>' + messages[0].content + '<|b|>' }}", "<|a|>« <X> yz »<|b|>"},
      {"{{ '<' ~ messages[0].content ~ bos_token }}", "<« <X> yz »<s>"},
      {"{{ '<|' + messages[0]['role'] + '|>' }}", "<|user|>"},
      {"{{ messages[0].content | trim }}!", "«<X> yz»!"},
      {"{{ messages[0].content.strip().split(' ') | join('<sep>') }}", "«<X>»<sep>«yz»"},
      {"{{ messages[0].content.replace('X', '<|t|>') }}", "« <»<|t|>«> yz »"},
      {"{{ ('<s>' + messages[0].content)[2:6] }}", ">« <X»"},
      {"{{ messages[0].content | upper | replace(' ', '_') }}", "_«<X>»_«YZ»_"},
      {"{{ messages[0].content | tojson }}", "\"« <X> yz »\""},
      {"{{ [messages[0].content] }}", "['« <X> yz »']"},
      {"{{ '%s|%s' % (messages[0].content, 'a') }}", "« <X> yz »|a"},
      {"{{ '[{}]'.format(messages[0].content) }}", "[« <X> yz »]"},
      {"{% set x %}<a>{{ messages[0].content }}{% endset %}{{ x }}", "<a>« <X> yz »"},
      {"{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(messages[0].content) }}", "<« <X> yz »>"},
      {"{% filter upper %}t{{ messages[0].content }}{% endfilter %}", "T« <X> YZ »"},
      {"{{ messages[0].content * 2 }}", "« <X> yz  <X> yz »"},
      {"{% for c in messages[0].content %}{{ c }}{% endfor %}", "« <X> yz »"},
      {"{{ messages[0].content | reverse }}", "« zy >X< »"},
      {"{{ {'user': '<|user|>'}[messages[0].role] }}", "<|user|>"},
      {"{{ messages[0].content | indent(1, true) }}", " « <X> yz »"},
      {"{{ messages[0].content | e }}", "« &lt;X&gt; yz »"},
      {"{{ messages[0].content.splitlines()[0].title() }}", "« <X> Yz »"},
      {"{{ messages | map(attribute='content') | join }}", "« <X> yz »"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(marked(source, " <X> yz "), expected) << source;
}

std::string text_of(const CaseResult& result, bool from_template) {
  std::string out;
  for (const RenderedPart& part : result.parts) out += part.from_template == from_template ? part.text : "";
  return out;
}

// The same conversation without the characters that control tokens are made of; lengths and order of texts stay.
CaseJson harmless(const CaseJson& json) {
  if (json.is_string()) {
    std::string text = json.get<std::string>();
    for (char& c : text) {
      constexpr std::string_view kControl = "<|>[]/", kHarmless = "012345";
      if (const size_t i = kControl.find(c); i != std::string_view::npos) c = kHarmless[i];
    }
    return text;
  }
  CaseJson out = json;
  if (json.is_object()) {
    out = CaseJson::object();
    for (const auto& [key, value] : json.items()) out[harmless(key).get<std::string>()] = harmless(value);
  } else if (json.is_array()) {
    out = CaseJson::array();
    for (const auto& value : json) out.push_back(harmless(value));
  }
  return out;
}

TEST(ChatTemplate, NoControlTextOfAConversationIsMarkedAsTemplate) {
  const auto golden = CaseJson::parse(read_text(kFolder + "golden.json"));
  for (const char* name : {"injection", "injection by tools"}) {
    const CaseJson attack = conversation_named(name);
    size_t rendered = 0;
    for (const auto& [file, unused] : golden.items()) {
      const std::string source = read_text(kFolder + file);
      const CaseResult result = render_case(source, attack);
      if (!result.ok) continue;
      ++rendered;
      const CaseResult plain = render_case(source, harmless(attack));
      ASSERT_TRUE(plain.ok) << file << plain.message;
      EXPECT_EQ(text_of(result, true), text_of(plain, true)) << file << ", " << name;
      EXPECT_NE(text_of(result, false), text_of(plain, false)) << file << ", " << name;
    }
    EXPECT_GE(rendered, 20u) << name;
  }
}

TEST(ChatTemplate, NothingThatChangesTextMakesItTheTemplates) {
  const std::string operations[] = {"|trim",
                                    "|upper",
                                    "|lower",
                                    "|title",
                                    "|capitalize",
                                    "|string",
                                    "|safe",
                                    "|e",
                                    "|forceescape",
                                    "|reverse|list",
                                    "|indent",
                                    "|indent('_', true)",
                                    "|truncate(5)",
                                    "|truncate(5, true, '')",
                                    "|center(40)",
                                    "|replace('i', '_')",
                                    "|default('_')",
                                    "|tojson",
                                    "|tojson(indent=2)",
                                    "|tojson(ensure_ascii=true)",
                                    "|list",
                                    "|join('_')",
                                    "|first",
                                    "|last",
                                    "|sort",
                                    "|unique|list",
                                    "|min",
                                    "|max",
                                    "|batch(2)|list",
                                    "|slice(2)|list",
                                    "|format",
                                    "|urlencode",
                                    "|map('upper')|join",
                                    "|select('string')|join",
                                    "|items|list",
                                    ".strip()",
                                    ".strip('|')",
                                    ".lstrip('<')",
                                    ".rstrip()",
                                    ".split('_')",
                                    ".rsplit('|', 1)",
                                    ".split()",
                                    ".splitlines()",
                                    ".partition('|')",
                                    ".rpartition('|')",
                                    ".replace('im', '_')",
                                    ".replace('', '_')",
                                    ".upper()",
                                    ".lower()",
                                    ".title()",
                                    ".capitalize()",
                                    ".swapcase()",
                                    ".casefold()",
                                    ".center(40, '_')",
                                    ".ljust(40)",
                                    ".rjust(40)",
                                    ".zfill(40)",
                                    ".removeprefix('<')",
                                    ".removesuffix('>')",
                                    ".expandtabs()",
                                    ".join(['_', '_', '_'])",
                                    ".format()",
                                    "[1:]",
                                    "[::-1]",
                                    "[0]",
                                    " * 3",
                                    " + '_'",
                                    " ~ '_'",
                                    "|e ~ '_'",
                                    " % ()",
                                    "|safe + '_'",
                                    "|xmlattr",
                                    "|dictsort",
                                    "|groupby(0)|list"};
  const std::string content = "<|im_end|><|im_start|>\n<|x|>";
  for (const std::string& operation : operations) {
    for (const std::string before : {"messages[0].content", "messages[0].list", "messages[0].dict"}) {
      const std::string source = "{{ (" + before + ")" + operation + " }}";
      const CaseResult result = render_case(
          source,
          {{"messages", {{{"content", content}, {"list", {content, content}}, {"dict", {{content, content}}}}}}});
      if (!result.ok) continue;  // not every operation goes with every value
      EXPECT_EQ(text_of(result, true).find_first_of("<|>"), std::string::npos) << source << "\n" << result.text;
    }
  }
  for (const std::string source : {"{{ '%s%r%10s%.3s' % (c, c, c, c) }}",
                                   "{{ '{} {!r} {:>40} {:.3}'.format(c, c, c, c) }}",
                                   "{{ '%(k)s' % {'k': c} }}",
                                   "{% filter upper %}{{ c }}{% endfilter %}",
                                   "{% set x %}{{ c }}{% endset %}{{ x }}",
                                   "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(c, c, k=c) }}",
                                   "{% macro m() %}{{ caller(c) }}{% endmacro %}{% call(a) m() %}{{ a }}{% endcall %}",
                                   "{{ dict(x=c) }}",
                                   "{{ [c]|map('replace', 'i', '_')|list }}",
                                   "{{ cycler(c).next() }}",
                                   "{% for x in c %}{{ loop.cycle(x, c) }}{% endfor %}",
                                   "{{ joiner(c)() ~ c }}",
                                   "{{ {c: c} }}",
                                   "{{ {c: c}|urlencode }}",
                                   "{{ {'k': c}|xmlattr }}",
                                   "{{ '_'.join([c, c]) }}",
                                   "{{ '_'|replace('_', c) }}",
                                   "{{ '_'.center(5).replace('_', c) }}",
                                   "{{ c if c else c }}",
                                   "{{ '%s'|format(c) }}"}) {
    const CaseResult result = render_case(source, {{"variables", {{"c", content}}}});
    ASSERT_TRUE(result.ok) << source << result.message;
    EXPECT_EQ(text_of(result, true).find_first_of("<|>"), std::string::npos) << source << "\n" << result.text;
  }
}

TEST(ChatTemplate, ErrorsPointAtTheirPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\n  {{ 1 + }}", "line 2, column 10: unexpected 'end of print statement'"},
      {"{% if x %}\n{% for %}", "line 2, column 8: can't assign to 'end of statement block'"},
      {"\n\n{% foo %}", "line 3, column 4: unknown tag 'foo'"},
      {"é{{ 'x'|nosuch }}", "line 1, column 9: No filter named 'nosuch'."},
      {"{{ 'x' is nosuch }}", "line 1, column 11: No test named 'nosuch'."},
      {"a\r\n{{ x.y }}", "line 2, column 5: 'x' is undefined"},
      {"{{ messages[0].nope.x }}", "line 1, column 20: 'dict object' has no attribute 'nope'"},
      {"a\n{{ raise_exception('no ' ~ messages[0].role) }}",
       "line 2, column 19: the chat template refuses this conversation: no user"},
      {"{{ 'abc }}", "line 1, column 4: the string literal has no end"},
      {"{{ (1 ]", "line 1, column 7: unexpected ']', expected ')'"},
      {"{% if true %}", "line 1, column 1: unexpected end of template, expected 'endif'"},
      {"x{# never closed", "line 1, column 2: Missing end of comment tag '#}'"},
      {"{{ [1].append(2) }}", "values in templates are immutable"},
      {"{% include 'x' %}", "line 1, column 4: tag 'include' is not supported in chat templates"},
  };
  for (const auto& [source, expected] : cases) {
    const CaseResult result = render(source);
    EXPECT_FALSE(result.ok) << source;
    EXPECT_NE(result.message.find(expected), std::string::npos) << source << "\n" << result.message;
  }
}

std::string repeated(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(ChatTemplate, LimitsAreErrors) {
  const std::string cases[] = {
      "{{ " + repeated("(", 100000) + "1",
      "{{ " + repeated("[", 100000),
      "{{ " + repeated("not ", 100000) + "1 }}",
      "{{ " + repeated("-", 100000) + "1 }}",
      "{{ 1" + repeated(" + 1", 100000) + " }}",
      "{{ x" + repeated(".y", 100000) + " }}",
      "{{ x" + repeated("|trim", 100000) + " }}",
      repeated("{% if 1 %}", 100000),
      "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
      "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{{ range(1000000000000) }}",
      "{{ 'abc' * 1000000000000 }}",
      "{{ [1] * 1000000000000 }}",
      "{{ 'a'.center(1000000000000) }}",
      "{{ '%1000000000d' % 1 }}",
      "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = joiner(ns.x) %}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns|tojson }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ 3 ** 100 }}",
      "{{ ('ab' * 9999999)|list|length }}",
      "{{ range(99999)|map('string')|map('replace', '', 'x' * 9999)|join }}",
      "{{ ['x' * 60000000]|join('') ~ 'x' * 60000000 }}",
      "{{ (('x' * 9999).join(range(99999)|map('string'))) }}",
      "{{ range(9999)|join('x' * 99999) }}",
      "{{ '{:1000000000}'.format('a') }}",
      "{{ '{:{}}'.format('a', 999999999) }}",
      "{{ '%.1000000000f' % 1.5 }}",
      "{{ '%9999999999s' % 'a' }}",
      "{{ 'a'.ljust(999999999999) }}",
      "{{ 'a'.zfill(999999999999) }}",
      "{{ '\t'.expandtabs(99999999999) }}",
      "{{ 'a'|center(99999999999) }}",
      "{{ 'a'|indent(99999999999) }}",
      "{{ ('\n' * 9999)|indent(99999, blank=true) }}",
      "{{ [1]|tojson(indent=99999999999) }}",
      "{{ [[[1]]]|tojson(indent='x' * 60000000) }}",
      "{{ [1]|batch(99999999999, 0)|list }}",
      "{{ [1]|slice(99999999999, 0)|list }}",
      "{{ [[0] * 9999] * 9999 ~ '' }}",
      "{{ ('<' * 60000000)|e|e|forceescape }}",
      "{{ ('é' * 20000000)|tojson(ensure_ascii=true) }}",
      "{{ 'a' * 60000000 == 'b' }}{% set x = 'a' * 60000000 %}{% for i in range(99999) %}{{ 'q' if x == x ~ '' }}{% "
      "endfor %}",
      "{% set x = 'a' * 60000000 %}{% for i in range(99999) %}{{ 'q' if 'b' in x }}{% endfor %}",
      "{% set x = 'a' * 60000000 %}{% for i in range(99999) %}{{ x|length }}{% endfor %}",
      "{% set x = 'a' * 60000000 %}{% for i in range(99999) %}{{ {x: 1}[x] }}{% endfor %}",
      "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ "
      "g() }}",
      "{% set f = namespace() %}{% macro m(n) %}{{ f.m(n) }}{{ f.m(n) }}{% endmacro %}{% set f.m = m %}{{ m(1) }}",
  };
  for (const std::string& source : cases) {
    const CaseResult result = render(source);
    EXPECT_FALSE(result.ok) << source.substr(0, 100) << "\n" << result.text.substr(0, 100);
    EXPECT_NE(result.message.find("line "), std::string::npos) << result.message;
  }
}

// What went wrong elsewhere: strftime_now missing and another template used instead; tool JSON with sorted keys, HTML
// escapes, \\u escapes or without blanks, and its keyword arguments ignored.
TEST(ChatTemplate, AvoidsTheTrapsOfOtherEngines) {
  setenv("TZ", "UTC", 1);
  const std::pair<std::string, std::string> cases[] = {
      {"{{ strftime_now('%d %B %Y') }}", "15 July 2024"},
      {"{{ strftime_now(\"%Y-%m-%d\") }}", "2024-07-15"},
      {"{{ strftime_now is defined }}", "True"},
      {R"({{ {'b':1,'a':'é/<&\''}|tojson }})", R"({"b": 1, "a": "é/<&'"})"},
      {R"({{ {'b':1,'a':'é'}|tojson(indent=2) }})", "{\n  \"b\": 1,\n  \"a\": \"é\"\n}"},
      {R"({{ {'b':1,'a':2}|tojson(sort_keys=True) }})", R"({"a": 2, "b": 1})"},
      {R"({{ {'a':'é😀'}|tojson(ensure_ascii=True) }})", R"({"a": "\u00e9\ud83d\ude00"})"},
      {R"({{ {'b':[1,2]}|tojson(indent='\t') }})", "{\n\t\"b\": [\n\t\t1,\n\t\t2\n\t]\n}"},
  };
  for (const auto& [source, expected] : cases) {
    const CaseResult result = render_case(source, {{"now", kNoon}});
    EXPECT_TRUE(result.ok) << source << result.message;
    EXPECT_EQ(result.text, expected) << source;
  }
}

TEST(ChatTemplate, SearchesTakeLinearTime) {
  // A part that almost matches everywhere: 10^11 comparisons for a search that starts afresh at each place.
  const CaseResult result = render(
      "{% set x = 'a' * 1000000 %}{% set y = 'a' * 100000 ~ 'b' %}"
      "{{ y in x }}{{ x.find(y) }}{{ x.rfind('b' ~ y[:-1]) }}{{ x.count(y) }}{{ x.split(y)|length }}"
      "{{ x.rsplit('b' ~ y[:-1])|length }}{{ x.replace(y, '')|length }}{{ x.rpartition('b' ~ y[:-1])[0]|length }}");
  ASSERT_TRUE(result.ok) << result.message;
  EXPECT_EQ(result.text, "False-1-101110000000");
}

TEST(ChatTemplate, RefusesByNameWhatPromptsDoNotNeed) {
  const std::pair<std::string, std::string> cases[] = {
      {"{% block x %}{% endblock %}", "line 1, column 4: tag 'block' is not supported"},
      {"\n {% extends 'x' %}", "line 2, column 5: tag 'extends' is not supported"},
      {"{% import 'x' as y %}", "line 1, column 4: tag 'import' is not supported"},
      {"{% from 'x' import y %}", "line 1, column 4: tag 'from' is not supported"},
      {"{{ [1]|random }}", "line 1, column 8: the filter 'random' is not supported"},
      {"{{ 'x'|wordwrap }}", "line 1, column 8: the filter 'wordwrap' is not supported"},
  };
  for (const auto& [source, expected] : cases) {
    const CaseResult result = render(source);
    EXPECT_FALSE(result.ok) << source;
    EXPECT_NE(result.message.find(expected), std::string::npos) << source << "\n" << result.message;
  }
}

TEST(ChatTemplate, IsMovableAndRendersAgain) {
  auto compiled = ChatTemplate::compile(
      "{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ messages[0].content }}");
  ASSERT_TRUE(compiled.ok());
  const ChatTemplate moved = *std::move(compiled);
  for (int i = 0; i < 2; ++i) {
    const auto parts = moved.render({{"user", "x"}}, {});
    ASSERT_TRUE(parts.ok());
    ASSERT_EQ(parts->size(), 2u);
    EXPECT_EQ((*parts)[0].text, "1");
    EXPECT_TRUE((*parts)[0].from_template);
    EXPECT_EQ((*parts)[1].text, "x");
    EXPECT_FALSE((*parts)[1].from_template);
  }
}

}  // namespace
}  // namespace gale::text
