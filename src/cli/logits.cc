// `gale logits`: raw float32 logits of every position, to check Gale against another engine or an oracle.
#include "cli/commands.h"
#include "cli/terminal.h"

namespace gale::cli {
namespace {

constexpr auto kOptions = with_engine_options({
    {"--tokens", "LIST", "token ids: 1,2,3 or 5-9"},
    {"--text", "TEXT",
     "text to turn into tokens (special tokens are recognised, BOS is added where the model wants it)"},
    {"--out", "FILE", "where the logits go: little-endian float32 [tokens x vocabulary]; '-' is standard output"},
    {"--chunk", "N", "columns per pass (default 512)"},
});

int usage_error(std::string_view message) {
  print_error(message);
  return kExitUsage;
}

int run(const Arguments& arguments) {
  if (arguments.operands().size() != 1)
    return usage_error("which model? usage: gale logits MODEL --tokens LIST --out FILE");
  if (arguments.has("--tokens") == arguments.has("--text")) return usage_error("give either --tokens or --text");
  const auto out = arguments.text("--out");
  if (!out) return usage_error("where shall the logits go? give --out FILE");
  auto options = engine_options(arguments);
  if (!options) return usage_error(options.error().message);
  const auto chunk = arguments.integer("--chunk", options->chunk, 1, options->chunk);
  if (!chunk) return usage_error(chunk.error().message);

  auto engine = engine::Engine::open(arguments.operands()[0], *options);
  if (!engine) return report(engine.error());
  std::vector<text::Token> tokens;
  if (const auto list = arguments.text("--tokens")) {
    auto parsed = parse_token_list(*list);
    if (!parsed) return usage_error(parsed.error().message);
    tokens = std::move(*parsed);
  } else if (!(*engine)->has_tokenizer()) {
    return report(
        fail(ErrorKind::unsupported, "{}: the file has no vocabulary; use --tokens", arguments.operands()[0]));
  } else {
    tokens = (*engine)->tokenizer().encode(*arguments.text("--text"), {.special = true, .add_bos_eos = true});
  }
  auto session = (*engine)->new_session();
  if (!session) return report(session.error());
  std::vector<float> logits(tokens.size() * (*engine)->program().vocabulary);
  if (const Status status = (*session)->append_with_logits(tokens, logits, static_cast<uint32_t>(*chunk)); !status) {
    return report(status.error());
  }
  const std::string_view bytes(reinterpret_cast<const char*>(logits.data()), logits.size() * sizeof(float));
  if (const Status status = write_file(*out, bytes); !status) return report(status.error());
  return kExitSuccess;
}

}  // namespace

const Command kLogitsCommand = {
    "logits", "MODEL --tokens LIST --out FILE", "write the logits of every position of a text", "", kOptions, run};

}  // namespace gale::cli
