// `gale convert`: writes a model as a GGUF file of other types.
#include <chrono>
#include <utility>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "engine/convert.h"

namespace gale::cli {
namespace {

constexpr Option kOptions[] = {
    {"--type", "TYPE", "how the matrices are stored",
     "q4_k_m|q4_k_s|q5_k_m|q5_k_s|q6_k|q8_0|q4_0|q4_1|q5_0|q5_1|iq4_nl|mxfp4|q4_k|q5_k|bf16|f16|f32"},
    {"--requantize", "", "also take tensors that are quantised already, at the price of some quality"},
    {"--threads", "N", "threads (default: the physical cores that this process may use)"},
};

int run(const Arguments& arguments) {
  if (auto status = check_operands(arguments, kConvertCommand, 2, 2, "from where to where?"); !status)
    return usage_error(status.error().message);
  const auto type = arguments.text("--type");
  if (!type) return usage_error("which type? give --type, for example --type q4_k_m");
  engine::ConvertOptions options;
  options.mix = format::find_quantisation_mix(*type);
  options.requantise = arguments.has("--requantize");
  const auto threads = arguments.integer("--threads", 0, 1, 1024);
  if (!threads) return usage_error(threads.error().message);
  options.threads = static_cast<int>(*threads);
  options.cancel = &interrupted();

  const std::string& out = arguments.operands()[1];
  if (out == "-") return usage_error("a model can't be written to standard output; give the name of the new file");
  const auto start = std::chrono::steady_clock::now();
  const auto result = [&] {
    Progress progress("converting, MB");
    uint64_t shown = 0;  // in thousandths: pieces are done faster than a terminal can show
    options.progress = [&](uint64_t done, uint64_t total) {
      if (std::exchange(shown, done * 1000 / total) == done * 1000 / total) return;
      progress.update(done / 1'000'000, total / 1'000'000);
    };
    return engine::convert(arguments.operands()[0], out, options);
  }();
  if (!result) return report(result.error());
  print_note(fmt::format("{}: {:.1f} MB, {} tensors, {} of them encoded, in {:.1f} s", out,
                         static_cast<double>(result->bytes) * 1e-6, result->tensors, result->encoded,
                         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
  for (const format::TensorType kind : result->without_kernels) {
    print_note(
        fmt::format("gale: there is no CPU kernel for {} yet: Gale runs this file with --executor reference only",
                    format::type_name(kind)));
  }
  return kExitSuccess;
}

}  // namespace

const Command kConvertCommand = {
    "convert",
    "SOURCE OUT --type TYPE",
    "write a model as a GGUF file of another type",
    "SOURCE is a GGUF file (of a split one any part) or a directory with safetensors files; OUT is the new file.\n"
    "The _m and _s types are mixes: the tensors that matter most get more bits. mxfp4 is for the experts of a\n"
    "mixture; the rest becomes q8_0. Norms and other small tensors stay F32. Tensors that have their type already\n"
    "are copied bit for bit.",
    kOptions,
    run};

}  // namespace gale::cli
