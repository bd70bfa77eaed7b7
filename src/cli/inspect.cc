// `gale inspect`: what is in a model file, the program it becomes, and the memory it needs.
#include <algorithm>
#include <map>

#include "base/cpu.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "exec/cpu/kv_cache.h"
#include "format/check.h"

namespace gale::cli {
namespace {

constexpr Option kOptions[] = {
    {"--tensors", "", "list every tensor"},
    {"--check", "", "read the whole model: NaN and infinite values, tensors that are missing or that nobody uses"},
    {"--program", "", "print the program: one step per line"},
    {"--dot", "", "draw the program for Graphviz"},
    {"--context", "N", "positions for the memory estimate (default: the trained context)"},
    {"--cache-type", "TYPE", "type of cached keys and values for the estimate (default f16)", "f16|f32|q8_0"},
};

std::string gigabytes(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes * 1e-9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes * 1e-6);
  return fmt::format("{:.1f} kB", bytes * 1e-3);
}

std::string shape_text(const format::Tensor& tensor) {
  std::string out;
  for (int d = 0; d < tensor.dimensions; ++d)
    out += fmt::format("{}{}", d > 0 ? " x " : "", tensor.shape[static_cast<size_t>(d)]);
  return out;
}

std::string types_table(const format::Checkpoint& checkpoint) {
  struct Total {
    uint64_t tensors = 0, values = 0, bytes = 0;
  };
  std::map<std::string, Total> totals;
  uint64_t values = 0, bytes = 0;
  bool decoded = false;
  for (const format::Tensor& tensor : checkpoint.tensors()) {
    Total& total = totals[format::type_name(tensor.type)];
    ++total.tensors;
    total.values += tensor.values();
    total.bytes += tensor.byte_size();
    values += tensor.values();
    bytes += tensor.byte_size();
    decoded |= tensor.stored().size() < tensor.byte_size();
  }
  std::vector<std::pair<std::string, Total>> sorted(totals.begin(), totals.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string out = fmt::format("\n{} tensors, {:.1f} M parameters, {}\n", checkpoint.tensors().size(),
                                static_cast<double>(values) * 1e-6, gigabytes(static_cast<double>(bytes)));
  for (const auto& [type, total] : sorted) {
    out += fmt::format("  {:<8} {:>5} tensors {:>12} {:>6.2f} bits per value\n", type, total.tensors,
                       gigabytes(static_cast<double>(total.bytes)),
                       8.0 * static_cast<double>(total.bytes) / static_cast<double>(total.values));
  }
  if (decoded) out += "  sizes are those in memory: some weights take fewer bytes in the files\n";
  return out;
}

Result<std::string> memory_table(const model::Program& program, const model::Hparams& hparams,
                                 const Arguments& arguments) {
  const auto context = arguments.integer("--context", hparams.context_length, 1, UINT32_MAX);
  if (!context) return context.error();
  exec::CacheType type = exec::CacheType::f16;
  if (const auto text = arguments.text("--cache-type")) {
    const auto parsed = exec::parse_cache_type(*text);
    if (!parsed) return parsed.error();
    type = *parsed;
  }
  const auto cache = exec::KvCache::create(program.caches, type);
  if (!cache) return cache.error();
  const double weights = static_cast<double>(model::weight_bytes(program));
  const double keys_values = static_cast<double>((*cache)->bytes(static_cast<uint32_t>(*context)));
  return fmt::format("\nmemory: weights {} + cache {} ({} positions, {}) = {}; {} are available here\n",
                     gigabytes(weights), gigabytes(keys_values), *context, exec::name(type),
                     gigabytes(weights + keys_values), gigabytes(static_cast<double>(available_memory_bytes())));
}

// What the program of the model says about its tensors.
void check_use(const format::Checkpoint& checkpoint, const Result<model::Program>& program,
               format::CheckReport& report) {
  if (!program) {
    // A family that is not known yet says nothing about the file.
    const bool wrong = program.error().kind != ErrorKind::unsupported;
    report.findings.push_back({wrong, program.error().message});
    return;
  }
  for (const std::string& name : model::unused_tensors(checkpoint, *program))
    report.findings.push_back({/*wrong=*/false, fmt::format("tensor '{}' is used by no step", name)});
}

int check(const std::string& path, const format::Checkpoint& checkpoint, const Result<model::Program>& program) {
  format::CheckReport report;
  {
    Progress progress("check, MB:");
    report = format::check_values(
        checkpoint, [&](uint64_t done, uint64_t total) { progress.update(done >> 20, total >> 20); }, &interrupted());
  }
  if (interrupted().exchange(false)) {
    print_note("(interrupted)");
    return kExitInterrupted;
  }
  check_use(checkpoint, program, report);
  std::string out;
  for (const format::Finding& finding : report.findings)
    out += fmt::format("{}: {}\n", finding.wrong ? "wrong" : "note", finding.text);
  const uint64_t wrong = report.count_wrong(), notes = report.findings.size() - wrong;
  out += fmt::format("{}: {} tensors, {} read: {} thing{} wrong, {} note{}\n", path, report.tensors,
                     gigabytes(static_cast<double>(report.bytes)), wrong, wrong == 1 ? "" : "s", notes,
                     notes == 1 ? "" : "s");
  if (const Status status = write_output(out); !status) return gale::cli::report(status.error());
  return wrong == 0 ? kExitSuccess : kExitFailure;
}

int run(const Arguments& arguments) {
  if (auto status = check_operands(arguments, kInspectCommand, 1, 1); !status)
    return usage_error(status.error().message);
  const std::string& path = arguments.operands()[0];
  const auto checkpoint = format::Checkpoint::open(path);
  if (!checkpoint) return report(checkpoint.error());
  const auto hparams = model::read_hparams(*checkpoint);
  const auto program = hparams ? model::build_program(*checkpoint, *hparams) : Result<model::Program>(hparams.error());
  if (arguments.has("--check")) return check(path, *checkpoint, program);

  std::string out;
  if (arguments.has("--program") || arguments.has("--dot")) {
    if (!program) return report(in_file(path, program.error()));
    out = arguments.has("--dot") ? model::to_dot(*program) : model::print(*program);
  } else {
    out = fmt::format("{}: {} in {} file{}\n\n", path, gigabytes(static_cast<double>(checkpoint->total_bytes())),
                      checkpoint->files().size(), checkpoint->files().size() == 1 ? "" : "s");
    for (const std::string& key : checkpoint->metadata().keys()) {
      out += fmt::format("  {} = {}\n", key, format::describe(*checkpoint->metadata().find(key)));
    }
    out += types_table(*checkpoint);
    if (arguments.has("--tensors")) {
      out += "\n";
      for (const format::Tensor& tensor : checkpoint->tensors()) {
        out += fmt::format("  {:<36} {:<8} {:<20} {:>12}\n", tensor.name, format::type_name(tensor.type),
                           shape_text(tensor), gigabytes(static_cast<double>(tensor.byte_size())));
      }
    }
    if (program) {
      const auto memory = memory_table(*program, *hparams, arguments);
      if (!memory) return usage_error(memory.error().message);
      out += *memory;
    } else {
      out += fmt::format("\nGale can't run this model: {}\n", program.error().message);
    }
  }
  const Status status = write_output(out);
  return status ? kExitSuccess : report(status.error());
}

}  // namespace

const Command kInspectCommand = {"inspect", "MODEL",  "show what is in a model file and what it needs",
                                 "",        kOptions, run};

}  // namespace gale::cli
