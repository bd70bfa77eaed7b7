// `gale logits`: raw float32 logits of every position, to check Gale against another engine or an oracle.
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "engine/convert.h"

namespace gale::cli {
namespace {

constexpr auto kOptions = with_engine_options({
    {"--tokens", "LIST", "token ids: 1,2,3 or 5-9"},
    {"--text", "TEXT",
     "text to turn into tokens (special tokens are recognised, BOS is added where the model wants it)"},
    {"--out", "FILE", "where the logits go: little-endian float32 [tokens x vocabulary]; '-' is standard output"},
    {"--chunk", "N", "columns per pass (default 512)"},
});

int run(const Arguments& arguments) {
  if (auto status = check_operands(arguments, kLogitsCommand, 1, 1); !status)
    return usage_error(status.error().message);
  if (arguments.has("--tokens") == arguments.has("--text")) return usage_error("give either --tokens or --text");
  const auto out = arguments.text("--out");
  if (!out) return usage_error("where shall the logits go? give --out FILE");
  auto options = engine_options(arguments);
  if (!options) return usage_error(options.error().message);
  const auto chunk = arguments.integer("--chunk", options->chunk, 1, options->chunk);
  if (!chunk) return usage_error(chunk.error().message);

  auto engine = engine::Engine::open(arguments.operands()[0], *options);
  if (!engine) return report(engine.error());
  if (auto status = engine::check_is_no_source((*engine)->checkpoint(), *out); !status) return report(status.error());
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
  const size_t values = tokens.size() * (*engine)->program().vocabulary, bytes = values * sizeof(float);
  // More tokens than the context has are the session's matter.
  if (tokens.size() <= (*engine)->context() && bytes > available_memory_bytes()) {
    return report(fail(ErrorKind::limit,
                       "the logits of {} tokens take {} bytes, but {} are available; give fewer tokens", tokens.size(),
                       bytes, available_memory_bytes()));
  }
  const auto room = PageBuffer::allocate(bytes, /*huge_pages=*/false);
  if (!room) return report(room.error());
  const std::span<float> logits(reinterpret_cast<float*>(room->data()), values);
  if (const Status status =
          (*session)->append_with_logits(tokens, logits, static_cast<uint32_t>(*chunk), &interrupted());
      !status) {
    return report(status.error());
  }
  const std::string_view content(reinterpret_cast<const char*>(room->data()), bytes);
  if (const Status status = write_file(*out, content); !status) return report(status.error());
  return kExitSuccess;
}

}  // namespace

const Command kLogitsCommand = {
    "logits", "MODEL --tokens LIST --out FILE", "write the logits of every position of a text", "", kOptions, run};

}  // namespace gale::cli
