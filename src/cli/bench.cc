// `gale bench`: speed against the limit, as a table, JSON and a picture.
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "cli/chart.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "engine/benchmark.h"
#include "engine/convert.h"

namespace gale::cli {
namespace {

constexpr auto kOptions = with_engine_options({
    {"--prefill", "N", "tokens of the prefill measurement; 0: none (default 512)"},
    {"--depths", "LIST", "positions in the cache before decoding (default 0,1k,4k)"},
    {"--columns", "N", "passes of 1 to N columns (default 8)"},
    {"--passes", "N", "decoding passes per round (default 32)"},
    {"--rounds", "N", "interleaved rounds; medians are reported (default 5)"},
    {"--json", "FILE", "also write the figures as JSON; '-' is standard output, without the table"},
    {"--svg", "FILE", "also draw them"},
});

Result<engine::BenchmarkOptions> benchmark_options(const Arguments& arguments) {
  engine::BenchmarkOptions options;
  const auto set = [&](std::string_view name, uint32_t& target, uint64_t least, uint64_t most) -> Status {
    const auto value = arguments.integer(name, target, least, most);
    if (!value) return value.error();
    target = static_cast<uint32_t>(*value);
    return {};
  };
  if (auto status = set("--prefill", options.prefill, 0, 1 << 20); !status) return std::move(status).error();
  if (auto status = set("--columns", options.max_columns, 1, 64); !status) return std::move(status).error();
  if (auto status = set("--passes", options.passes, 1, 10000); !status) return std::move(status).error();
  if (auto status = set("--rounds", options.rounds, 1, 1000); !status) return std::move(status).error();
  if (const auto depths = arguments.text("--depths")) {
    auto parsed = parse_number_list(*depths);
    if (!parsed) return parsed.error();
    options.depths = std::move(*parsed);
  }
  return options;
}

std::string table(const engine::BenchmarkReport& report) {
  std::string out = fmt::format("memory   {:.1f} GB/s (plain read, all threads)\n", report.bandwidth * 1e-9);
  if (report.prefill_seconds > 0) {
    out += fmt::format("prefill  {} tokens: {:.0f} tok/s\n", report.prefill_tokens,
                       report.prefill_tokens / report.prefill_seconds);
  }
  const auto row = [](const engine::PassMeasurement& m) {
    return fmt::format("{:>9.1f} tok/s {:>9.3f} ms {:>8.1f} GB/s {:>5.0f} % of the limit\n", m.tokens_per_second(),
                       m.seconds * 1e3, m.bytes_per_second() * 1e-9, 100 * m.limit_share);
  };
  for (const auto& m : report.decode) out += fmt::format("decode   depth {:<6} {}", m.depth, row(m));
  for (const auto& m : report.columns) {
    out += fmt::format("pass     {} column{:<4} {:>4.2f}x{}", m.columns, m.columns == 1 ? "" : "s",
                       m.seconds / report.columns[0].seconds, row(m));
  }
  const auto list = [&](const std::string& title, const std::vector<exec::PhaseTiming>& phases) {
    out += fmt::format("\n{}:\n", title);
    for (const auto& phase : phases) {
      out +=
          fmt::format("  {:<24} {:>8.1f} us {:>9.2f} MB {:>8.1f} GB/s {:>5.0f} %\n", phase.name, phase.seconds * 1e6,
                      static_cast<double>(phase.bytes) * 1e-6, static_cast<double>(phase.bytes) / phase.seconds * 1e-9,
                      100 * static_cast<double>(phase.bytes) / phase.seconds / report.bandwidth);
    }
  };
  for (const auto& [depth, phases] : report.phases)
    list(fmt::format("phases of a decoding pass at depth {}", depth), phases);
  if (!report.prefill_phases.empty()) list("phases of a prefill pass", report.prefill_phases);
  return out;
}

nlohmann::ordered_json to_json(const engine::BenchmarkReport& report, engine::Engine& engine,
                               const std::string& model) {
  nlohmann::ordered_json out;
  out["model"] = model;
  out["engine"] = engine.describe();
  out["processor"] = processor_name();
  out["version"] = GALE_VERSION;
  out["bandwidth_bytes_per_second"] = report.bandwidth;
  out["prefill"] = {{"tokens", report.prefill_tokens}, {"seconds", report.prefill_seconds}};
  const auto passes = [](const std::vector<engine::PassMeasurement>& list) {
    auto array = nlohmann::ordered_json::array();
    for (const auto& m : list) {
      array.push_back({{"depth", m.depth},
                       {"columns", m.columns},
                       {"seconds", m.seconds},
                       {"bytes", m.bytes},
                       {"tokens_per_second", m.tokens_per_second()},
                       {"limit_share", m.limit_share}});
    }
    return array;
  };
  out["decode"] = passes(report.decode);
  out["columns"] = passes(report.columns);
  const auto list = [](const std::vector<exec::PhaseTiming>& phases) {
    auto array = nlohmann::ordered_json::array();
    for (const auto& p : phases) array.push_back({{"name", p.name}, {"seconds", p.seconds}, {"bytes", p.bytes}});
    return array;
  };
  auto profiles = nlohmann::ordered_json::array();
  for (const auto& [depth, phases] : report.phases) profiles.push_back({{"depth", depth}, {"phases", list(phases)}});
  out["phases"] = profiles;
  out["prefill_phases"] = list(report.prefill_phases);
  return out;
}

Chart to_chart(const engine::BenchmarkReport& report, const std::string& title) {
  Chart chart;
  chart.title = title;
  chart.subtitle = fmt::format("bars: tokens/s; tick: the limit at {:.1f} GB/s", report.bandwidth * 1e-9);
  const auto bar = [&](std::string label, const engine::PassMeasurement& m) {
    const double limit = m.columns / (static_cast<double>(m.bytes) / report.bandwidth);
    chart.bars.push_back({std::move(label), m.tokens_per_second(), limit,
                          fmt::format("{:.0f} tok/s, {:.0f} %", m.tokens_per_second(), 100 * m.limit_share)});
  };
  for (const auto& m : report.decode) bar(fmt::format("decode, depth {}", m.depth), m);
  for (const auto& m : report.columns) {
    if (m.columns > 1) bar(fmt::format("{} columns", m.columns), m);
  }
  return chart;
}

int run(const Arguments& arguments) {
  if (auto status = check_operands(arguments, kBenchCommand, 1, 1); !status) return usage_error(status.error().message);
  const auto options = engine_options(arguments);
  const auto benchmark = benchmark_options(arguments);
  if (!options || !benchmark) return usage_error((!options ? options.error() : benchmark.error()).message);
  const std::string& path = arguments.operands()[0];
  auto engine = engine::Engine::open(path, *options);
  if (!engine) return report(engine.error());
  for (const char* file : {"--json", "--svg"}) {
    const auto out = arguments.text(file);
    if (!out) continue;
    if (auto status = engine::check_is_no_source((*engine)->checkpoint(), *out); !status) return report(status.error());
  }
  const std::string head =
      fmt::format("{}: {}, {:.1f} MB per pass; {}; {}\n", path, (*engine)->hparams().architecture,
                  static_cast<double>((*engine)->pass_bytes(0)) * 1e-6, (*engine)->describe(), processor_name());
  const auto result =
      engine::run_benchmark(**engine, *benchmark, &interrupted(), [](std::string_view n) { print_note(n); });
  if (!result) return report(result.error());
  const auto json = arguments.text("--json");
  if (json != "-") {
    if (const Status status = write_output(head + table(*result)); !status) return report(status.error());
  }
  if (json) {
    if (const Status status = write_file(*json, to_json(*result, **engine, path).dump(2) + "\n"); !status)
      return report(status.error());
  }
  if (const auto svg = arguments.text("--svg")) {
    if (const Status status = write_file(*svg, draw(to_chart(*result, path))); !status) return report(status.error());
  }
  return kExitSuccess;
}

}  // namespace

const Command kBenchCommand = {"bench",
                               "MODEL",
                               "measure speed and how close it is to the limit",
                               "Measures prefill, decoding at several depths, and passes of several columns with "
                               "logits for each. The limit is the bytes\n"
                               "that a pass must read over the memory bandwidth measured in the same run.",
                               kOptions,
                               run};

}  // namespace gale::cli
