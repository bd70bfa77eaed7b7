// `gale tokenize`: text to tokens and back, and conversations by the template of a model, without its weights.
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "engine/model_text.h"
#include "text/unicode.h"

namespace gale::cli {
namespace {

constexpr Option kOptions[] = {
    {"--ids", "", "print the ids alone, in one line: 1,2,3"},
    {"--json", "", "print JSON: tokens with id, text and kind; with --template also the text and who wrote what"},
    {"--decode", "IDS", "the other way: print the text of these tokens (1,2,3 or 5-9; '-': from standard input)"},
    {"--special", "", "control tokens written in TEXT become those tokens; with --decode, they are printed"},
    {"--no-bos", "", "don't add BOS and EOS where the model wants them"},
    {"--template", "FILE",
     "a conversation as JSON ('-': from standard input): a list of messages, or an object with messages, tools, "
     "documents, variables"},
};

bool is_utf8(std::string_view bytes) {
  std::string storage;
  size_t changed = 0;
  text::repair_utf8(bytes, storage, &changed);
  return changed == 0;
}

// In quotes, so that spaces are seen; control characters and broken characters as escapes.
std::string in_quotes(std::string_view bytes) {
  std::string out = "\"";
  while (!bytes.empty()) {
    const text::Utf8Char next = text::decode_utf8(bytes);
    const size_t length = std::max<size_t>(next.length, 1);
    const auto first = static_cast<uint8_t>(bytes[0]);
    if (first == '"' || first == '\\') {
      out += fmt::format("\\{}", bytes[0]);
    } else if (first == '\n') {
      out += "\\n";
    } else if (first == '\t') {
      out += "\\t";
    } else if (next.length == 0 || first < 0x20 || first == 0x7F) {
      out += fmt::format("\\x{:02X}", first);
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return out + "\"";
}

std::string_view kind_name(text::TokenKind kind) {
  switch (kind) {
    case text::TokenKind::control:
      return "control";
    case text::TokenKind::user_defined:
      return "user-defined";
    case text::TokenKind::unknown:
      return "unknown";
    case text::TokenKind::byte:
      return "byte";
    case text::TokenKind::unused:
      return "unused";
    case text::TokenKind::normal:
      break;
  }
  return "normal";
}

std::string table(const text::Tokenizer& tokenizer, std::span<const text::Token> tokens) {
  std::string out;
  for (const text::Token token : tokens) {
    const text::TokenKind kind = tokenizer.kind(token);
    out += fmt::format("{:>7}  {}{}\n", token, in_quotes(tokenizer.piece(token, /*special=*/true)),
                       kind == text::TokenKind::normal ? "" : fmt::format("  {}", kind_name(kind)));
  }
  return out;
}

// A text of JSON, or the list of its bytes where they are no UTF-8.
nlohmann::ordered_json json_text(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

nlohmann::ordered_json json_tokens(const text::Tokenizer& tokenizer, std::span<const text::Token> tokens) {
  auto out = nlohmann::ordered_json::array();
  for (const text::Token token : tokens) {
    out.push_back({{"id", token},
                   {"piece", json_text(tokenizer.piece(token, /*special=*/true))},
                   {"kind", kind_name(tokenizer.kind(token))}});
  }
  return out;
}

std::string id_line(std::span<const text::Token> tokens) {
  return fmt::format("{}\n", fmt::join(tokens, ","));
}

int print(std::string_view text) {
  const Status status = write_output(text);
  return status ? kExitSuccess : report(status.error());
}

int decode(const text::Tokenizer& tokenizer, std::string list, bool special) {
  if (list == "-") {
    auto input = read_input();
    if (!input) return report(input.error());
    list = std::move(*input);
    while (!list.empty() && (list.back() == '\n' || list.back() == '\r')) list.pop_back();
  }
  const auto tokens = parse_token_list(list);
  if (!tokens) return usage_error(tokens.error().message);
  for (const text::Token token : *tokens) {
    if (token < 0 || static_cast<size_t>(token) >= tokenizer.size()) {
      return report(fail(ErrorKind::invalid_input, "token {} is out of range: the vocabulary has {} tokens", token,
                         tokenizer.size()));
    }
  }
  // Exactly the bytes, so that the output of two commands can be compared.
  return print(tokenizer.decode(*tokens, special) + (output_is_terminal() ? "\n" : ""));
}

int tokenize_conversation(const engine::ModelText& model, const std::string& path, const Arguments& arguments) {
  const auto json = read_file(path);
  if (!json) return report(json.error());
  const auto conversation = text::Conversation::parse(*json);
  if (!conversation) {
    return report(path == "-" ? conversation.error() : in_file(path, conversation.error()));
  }
  const auto rendered = model.render(*conversation);
  if (!rendered) return report(in_file(arguments.operands()[0], rendered.error()));
  size_t lost = 0;
  const std::vector<text::Token> tokens = model.encode(*rendered, &lost);
  note_lost(lost);
  if (arguments.has("--ids")) return print(id_line(tokens));
  std::string whole;
  for (const text::RenderedPart& part : *rendered) whole += part.text;
  if (!arguments.has("--json")) return print(whole + "\n\n" + table(model.tokenizer(), tokens));
  auto parts = nlohmann::ordered_json::array();
  for (const text::RenderedPart& part : *rendered) {
    parts.push_back({{"text", json_text(part.text)}, {"from_template", part.from_template}});
  }
  const nlohmann::ordered_json out = {
      {"text", json_text(whole)}, {"parts", parts}, {"tokens", json_tokens(model.tokenizer(), tokens)}};
  return print(out.dump() + "\n");
}

int tokenize_text(const text::Tokenizer& tokenizer, std::string_view text, const Arguments& arguments) {
  size_t lost = 0;
  const std::vector<text::Token> tokens =
      tokenizer.encode(text, {.special = arguments.has("--special"), .add_bos_eos = !arguments.has("--no-bos")}, &lost);
  note_lost(lost);
  if (arguments.has("--ids")) return print(id_line(tokens));
  if (!arguments.has("--json")) return print(table(tokenizer, tokens));
  return print(nlohmann::ordered_json({{"tokens", json_tokens(tokenizer, tokens)}}).dump() + "\n");
}

int run(const Arguments& arguments) {
  const auto& operands = arguments.operands();
  if (operands.empty()) return usage_error("which model? usage: gale tokenize MODEL [TEXT]");
  const auto ids = arguments.text("--decode"), conversation = arguments.text("--template");
  if (ids && conversation) return usage_error("give either --decode or --template");
  if ((ids || conversation) && operands.size() > 1) {
    return usage_error(fmt::format("a text beside {} has no meaning", ids ? "--decode" : "--template"));
  }
  if (arguments.has("--ids") && arguments.has("--json")) return usage_error("give either --ids or --json");
  const auto model = engine::ModelText::open(operands[0]);
  if (!model) return report(model.error());
  if (ids) return decode(model->tokenizer(), *ids, arguments.has("--special"));
  if (conversation) return tokenize_conversation(*model, *conversation, arguments);
  if (operands.size() > 1) {
    return tokenize_text(model->tokenizer(), fmt::format("{}", fmt::join(operands.begin() + 1, operands.end(), " ")),
                         arguments);
  }
  const auto input = read_input();
  if (!input) return report(input.error());
  return tokenize_text(model->tokenizer(), *input, arguments);
}

}  // namespace

const Command kTokenizeCommand = {
    "tokenize",
    "MODEL [TEXT]",
    "turn text into tokens and back, or a conversation by the template",
    "Prints id and text of each token. Without TEXT, standard input is read. MODEL is a GGUF file or a directory with "
    "the\n"
    "files of a tokenizer; weights are not read. What stands in a conversation never becomes a control token.",
    kOptions,
    run};

}  // namespace gale::cli
