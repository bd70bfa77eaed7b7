// `gale run`: one answer, or a chat.
#include <algorithm>
#include <chrono>

#include "cli/commands.h"
#include "cli/terminal.h"

namespace gale::cli {
namespace {

constexpr auto kOptions = with_engine_options({
    {"--system", "TEXT", "system message of the conversation"},
    {"--raw", "", "complete the text as it is, without the chat template"},
    {"--max-tokens", "N", "longest answer in tokens (default: until the model ends it)"},
    {"--temperature", "T", "0 is greedy: always the likeliest token (default 0.8)"},
    {"--top-k", "K", "choose among the K likeliest tokens; 0: off (default 40)"},
    {"--top-p", "P", "choose among the likeliest tokens that together have probability P; 1: off (default 0.95)"},
    {"--min-p", "P", "drop tokens less likely than P times the likeliest; 0: off (default 0.05)"},
    {"--repeat-penalty", "X", "makes the last 64 tokens less likely; 1: off (default 1)"},
    {"--seed", "N", "the same seed gives the same answer (default: a fresh one)"},
    {"--stop", "TEXT", "end the answer before this text; may be repeated"},
    {"--ignore-end", "", "go on where the model would end its turn"},
    {"--quiet", "", "don't print the line about speed"},
});

Result<engine::GenerateOptions> generate_options(const Arguments& arguments) {
  engine::GenerateOptions options;
  const auto temperature = arguments.number("--temperature", 0.8, 0, 100);
  if (!temperature) return temperature.error();
  options.sampling.temperature = static_cast<float>(*temperature);
  const auto top_k = arguments.integer("--top-k", 40, 0, UINT32_MAX);
  if (!top_k) return top_k.error();
  options.sampling.top_k = static_cast<uint32_t>(*top_k);
  const auto top_p = arguments.number("--top-p", 0.95, 0, 1);
  if (!top_p) return top_p.error();
  options.sampling.top_p = static_cast<float>(*top_p);
  const auto min_p = arguments.number("--min-p", 0.05, 0, 1);
  if (!min_p) return min_p.error();
  options.sampling.min_p = static_cast<float>(*min_p);
  const auto penalty = arguments.number("--repeat-penalty", 1, 0.01, 100);
  if (!penalty) return penalty.error();
  options.sampling.repeat_penalty = static_cast<float>(*penalty);
  if (arguments.has("--seed")) {
    const auto seed = arguments.integer("--seed", 0, 0, UINT64_MAX);
    if (!seed) return seed.error();
    options.sampling.seed = *seed;
  }
  const auto max_tokens = arguments.integer("--max-tokens", UINT32_MAX, 1, UINT32_MAX);
  if (!max_tokens) return max_tokens.error();
  options.max_tokens = static_cast<uint32_t>(*max_tokens);
  options.stops = arguments.texts("--stop");
  options.ignore_end = arguments.has("--ignore-end");
  options.cancel = &interrupted();
  return options;
}

// What one answer took.
struct Turn {
  size_t prompt_tokens = 0;
  double prompt_seconds = 0;
  engine::GenerateResult answer;
};

// "prompt 31 tokens, 912 tok/s; answer 120 tokens, 401 tok/s, 81 % of the limit (end of turn)"
std::string speed_line(engine::Engine& engine, const engine::Session& session, const Turn& turn) {
  std::string line =
      fmt::format("prompt {} tokens, {:.0f} tok/s; answer {} tokens", turn.prompt_tokens,
                  static_cast<double>(turn.prompt_tokens) / turn.prompt_seconds, turn.answer.tokens.size());
  if (turn.answer.passes > 0 && turn.answer.seconds > 0) {
    const double passes = turn.answer.passes;
    line += fmt::format(", {:.0f} tok/s", passes / turn.answer.seconds);
    if (const auto bandwidth = engine.memory_bandwidth()) {
      // Bytes grow linearly with depth (windows aside), so the middle of the answer stands for all of it.
      const uint64_t middle = session.tokens().size() - turn.answer.tokens.size() / 2;
      const double limit_seconds = static_cast<double>(engine.pass_bytes(middle)) * passes / *bandwidth;
      line += fmt::format(", {:.0f} % of the limit", 100 * limit_seconds / turn.answer.seconds);
    }
  }
  return line + fmt::format(" ({})", name(turn.answer.reason));
}

// Appends what is new and generates; text goes to standard output as it is made.
Result<Turn> answer(engine::Session& session, std::span<const text::Token> prompt,
                    const engine::GenerateOptions& options) {
  Turn turn;
  turn.prompt_tokens = prompt.size();
  Status written;
  const auto start = std::chrono::steady_clock::now();
  {
    Progress progress("prompt");
    if (auto status =
            session.append(prompt, options.cancel, [&](size_t done, size_t total) { progress.update(done, total); });
        !status)
      return std::move(status).error();
  }
  turn.prompt_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  auto generated = session.generate(options, [&](std::string_view text) {
    if (!written) return;
    written = write_output(text);
    if (!written) interrupted().store(true);  // nobody reads on: stop within one pass
  });
  if (!written) {
    interrupted().store(false);
    return written.error();
  }
  if (!generated) return generated.error();
  turn.answer = std::move(*generated);
  return turn;
}

int run_once(engine::Engine& engine, const std::string& prompt, const Arguments& arguments,
             const engine::GenerateOptions& options) {
  std::vector<text::Token> tokens;
  size_t lost = 0;
  if (engine.has_chat_template() && !arguments.has("--raw")) {
    std::vector<text::ChatMessage> messages;
    if (const auto system = arguments.text("--system")) messages.push_back({"system", *system});
    messages.push_back({"user", prompt});
    auto encoded = engine.encode_chat(messages, /*add_generation_prompt=*/true, &lost);
    if (!encoded) return report(encoded.error());
    tokens = std::move(*encoded);
  } else {
    if (arguments.has("--system")) {
      return report(fail(ErrorKind::unsupported, "this model has no chat template, so --system has no meaning"));
    }
    tokens = engine.tokenizer().encode(prompt, {.special = false, .add_bos_eos = true}, &lost);
  }
  note_lost(lost);
  if (tokens.empty()) return report(fail(ErrorKind::invalid_input, "the prompt is empty"));
  auto session = engine.new_session();
  if (!session) return report(session.error());
  const auto turn = answer(**session, tokens, options);
  if (!turn) return report(turn.error());
  if (const Status status = write_output("\n"); !status) return report(status.error());
  if (!arguments.has("--quiet")) print_note(speed_line(engine, **session, *turn));
  return turn->answer.reason == engine::StopReason::cancelled ? kExitInterrupted : kExitSuccess;
}

// Tokens of the conversation that the session doesn't hold yet; what it holds beyond the common beginning is forgotten.
Result<std::vector<text::Token>> continue_session(engine::Session& session, const std::vector<text::Token>& wanted) {
  size_t common = 0;
  while (common < wanted.size() && common < session.tokens().size() && wanted[common] == session.tokens()[common])
    ++common;
  common = std::min(common, wanted.size() - 1);  // at least one token has to be run for fresh logits
  if (auto status = session.rewind(common); !status) return std::move(status).error();
  return std::vector<text::Token>(wanted.begin() + static_cast<std::ptrdiff_t>(common), wanted.end());
}

int chat(engine::Engine& engine, const Arguments& arguments, const engine::GenerateOptions& options) {
  if (!engine.has_chat_template()) {
    return report(fail(ErrorKind::unsupported,
                       "this model has no chat template; give it a text to complete: gale run MODEL \"...\""));
  }
  auto session = engine.new_session();
  if (!session) return report(session.error());
  std::vector<text::ChatMessage> messages;
  if (const auto system = arguments.text("--system")) messages.push_back({"system", *system});
  print_note(fmt::format("{}; Ctrl-C stops an answer, Ctrl-D ends the chat", engine.describe()));
  LineReader reader;
  size_t lost_before = 0;  // in earlier messages, which every turn encodes again
  for (;;) {
    const auto line = reader.read("> ");
    if (!line) break;
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    messages.push_back({"user", *line});
    size_t lost = 0;
    auto encoded = engine.encode_chat(messages, /*add_generation_prompt=*/true, &lost);
    if (!encoded) return report(encoded.error());
    note_lost(lost - std::min(lost, lost_before));
    lost_before = lost;
    const auto fresh = continue_session(**session, *encoded);
    if (!fresh) return report(fresh.error());
    const auto turn = answer(**session, *fresh, options);
    if (!turn && turn.error().kind != ErrorKind::cancelled) {
      if (turn.error().kind != ErrorKind::limit) return report(turn.error());
      print_error(turn.error().message);  // the conversation goes on without this message
      messages.pop_back();
      continue;
    }
    if (const Status status = write_output("\n"); !status) return report(status.error());
    interrupted().store(false);
    if (!turn) {
      print_note("(cancelled before the answer began; this message is forgotten)");
      messages.pop_back();
      continue;
    }
    messages.push_back({"assistant", engine.tokenizer().decode(turn->answer.tokens)});
    if (!arguments.has("--quiet")) print_note(speed_line(engine, **session, *turn));
  }
  if (input_is_terminal()) print_note("");
  return kExitSuccess;
}

int run(const Arguments& arguments) {
  if (arguments.operands().empty()) return usage_error("which model? usage: gale run MODEL [PROMPT]");
  if (arguments.has("--raw") && arguments.has("--system")) return usage_error("give either --raw or --system");
  const auto options = engine_options(arguments);
  const auto generate = generate_options(arguments);
  if (!options || !generate) return usage_error((!options ? options.error() : generate.error()).message);
  std::string prompt;
  for (size_t i = 1; i < arguments.operands().size(); ++i) prompt += (i > 1 ? " " : "") + arguments.operands()[i];
  const bool from_input = prompt == "-" || (prompt.size() >= 2 && prompt.substr(prompt.size() - 2) == " -");
  const bool is_chat = arguments.operands().size() == 1 && input_is_terminal();
  if (from_input || (arguments.operands().size() == 1 && !is_chat)) {
    auto input = read_input();
    if (!input) return report(input.error());
    if (from_input) prompt.pop_back();
    prompt += *input;
    if (prompt.empty()) return kExitSuccess;  // nothing was asked
  }
  auto engine = engine::Engine::open(arguments.operands()[0], *options);
  if (!engine) return report(engine.error());
  if (interrupted().load()) return kExitInterrupted;  // while the model was loaded
  if (!(*engine)->has_tokenizer()) {
    return report(fail(ErrorKind::unsupported,
                       "{}: the file has no vocabulary, so it can't read or write text; 'gale logits' "
                       "takes token ids",
                       arguments.operands()[0]));
  }
  return is_chat ? chat(**engine, arguments, *generate) : run_once(**engine, prompt, arguments, *generate);
}

}  // namespace

const Command kRunCommand = {
    "run",
    "MODEL [PROMPT]",
    "answer a prompt, or chat",
    "Answers PROMPT and prints the answer as it is made; then, to standard error, the speed. A PROMPT that is or ends\n"
    "with '-' takes standard input in its place. Without PROMPT: a chat if standard input is a terminal, else "
    "standard\n"
    "input is the prompt. Models without a chat template complete the text.",
    kOptions,
    run};

}  // namespace gale::cli
