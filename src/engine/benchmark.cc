// Times prefill, decoding at several depths and passes of several columns, in interleaved rounds.
#include "engine/benchmark.h"

#include <algorithm>
#include <chrono>

#include "base/bandwidth.h"

namespace gale::engine {
namespace {

constexpr size_t kBandwidthBytes = size_t{512} << 20;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Tokens that look random but are the same in every run.
std::vector<text::Token> some_tokens(size_t count, uint32_t vocabulary) {
  std::vector<text::Token> tokens(count);
  uint32_t state = 12345;
  for (text::Token& token : tokens) {
    state = state * 1664525u + 1013904223u;  // the usual linear congruential generator
    token = static_cast<text::Token>((state >> 8) % vocabulary);
  }
  return tokens;
}

class Benchmark {
 public:
  Benchmark(Engine& engine, const BenchmarkOptions& options, const std::atomic<bool>* cancel)
      : engine_(engine), options_(options), cancel_(cancel) {
    uint32_t longest = options.prefill;
    for (const uint32_t depth : options.depths) longest = std::max(longest, depth);
    tokens_ = some_tokens(longest + options.passes + options.max_columns, engine.program().vocabulary);
    logits_.resize(static_cast<size_t>(options.max_columns) * engine.program().vocabulary);
  }

  Status time_bandwidth(std::vector<double>& out) {
    auto bandwidth = measure_read_bandwidth(engine_.cpu_executor()->team(), kBandwidthBytes, /*repeats=*/2);
    if (!bandwidth) return std::move(bandwidth).error();
    out.push_back(*bandwidth);
    return {};
  }

  Status time_prefill(std::vector<double>& out) {
    auto session = engine_.new_session();
    if (!session) return std::move(session).error();
    const auto start = std::chrono::steady_clock::now();
    if (auto status = (*session)->append({tokens_.data(), options_.prefill}, cancel_); !status)
      return std::move(status).error();
    out.push_back(seconds_since(start));
    return {};
  }

  // One session per depth stays open over all rounds, since filling it takes long.
  Result<std::unique_ptr<Session>> session_at(uint32_t depth) {
    auto session = engine_.new_session();
    if (!session) return session;
    if (auto status = (*session)->append({tokens_.data(), depth}, cancel_); !status) return std::move(status).error();
    return session;
  }

  Status time_decode(Session& session, uint32_t depth, std::vector<double>& out) {
    if (auto status = session.rewind(depth); !status) return std::move(status).error();
    for (uint32_t pass = 0; pass < options_.passes; ++pass) {
      const auto start = std::chrono::steady_clock::now();
      if (auto status = session.append({tokens_.data() + depth + pass, 1}, cancel_); !status)
        return std::move(status).error();
      out.push_back(seconds_since(start));
    }
    return session.rewind(depth);
  }

  Status time_columns(Session& session, uint32_t columns, std::vector<double>& out) {
    const size_t before = session.tokens().size();
    const size_t vocabulary = engine_.program().vocabulary;
    for (uint32_t pass = 0; pass < std::max(1u, options_.passes / 4); ++pass) {
      const auto start = std::chrono::steady_clock::now();
      if (auto status = session.append_with_logits({tokens_.data() + before, columns},
                                                   {logits_.data(), columns * vocabulary}, columns);
          !status)
        return std::move(status).error();
      out.push_back(seconds_since(start));
      if (auto status = session.rewind(before); !status) return std::move(status).error();
    }
    return {};
  }

  // Phases of whatever `work` runs.
  Result<std::vector<exec::PhaseTiming>> profile(const std::function<Status()>& work) {
    engine_.cpu_executor()->set_profiling(true);
    const Status status = work();
    auto phases = engine_.cpu_executor()->take_profile();
    engine_.cpu_executor()->set_profiling(false);
    if (!status) return status.error();
    return phases;
  }

 private:
  Engine& engine_;
  const BenchmarkOptions& options_;
  const std::atomic<bool>* cancel_;
  std::vector<text::Token> tokens_;
  std::vector<float> logits_;
};

}  // namespace

Result<BenchmarkReport> run_benchmark(Engine& engine, const BenchmarkOptions& options, const std::atomic<bool>* cancel,
                                      const std::function<void(std::string_view)>& note) {
  if (engine.cpu_executor() == nullptr) return fail(ErrorKind::unsupported, "only the CPU executor can be benchmarked");
  if (options.rounds == 0 || options.passes == 0)
    return fail(ErrorKind::invalid_input, "at least one round and one pass are needed");
  if (static_cast<uint64_t>(options.prefill) > engine.context()) {
    return fail(ErrorKind::limit, "prefill of {} tokens doesn't fit the context of {}", options.prefill,
                engine.context());
  }
  std::vector<uint32_t> depths;
  for (const uint32_t depth : options.depths) {
    if (static_cast<uint64_t>(depth) + options.passes + options.max_columns <= engine.context()) {
      depths.push_back(depth);
    } else if (note) {
      note(fmt::format("depth {} is left out: the context is {}", depth, engine.context()));
    }
  }
  Benchmark benchmark(engine, options, cancel);
  std::vector<std::unique_ptr<Session>> sessions;
  for (const uint32_t depth : depths) {
    auto session = benchmark.session_at(depth);
    if (!session) return std::move(session).error();
    sessions.push_back(std::move(*session));
  }
  auto base = benchmark.session_at(0);
  if (!base) return std::move(base).error();

  std::vector<double> bandwidths, prefills;
  std::vector<std::vector<double>> decodes(depths.size()), columns(options.max_columns);
  std::vector<double> warm_up;
  if (auto status = benchmark.time_decode(**base, 0, warm_up); !status) return std::move(status).error();
  for (uint32_t round = 0; round < options.rounds; ++round) {
    if (auto status = benchmark.time_bandwidth(bandwidths); !status) return std::move(status).error();
    if (options.prefill > 0)
      if (auto status = benchmark.time_prefill(prefills); !status) return std::move(status).error();
    for (size_t d = 0; d < depths.size(); ++d)
      if (auto status = benchmark.time_decode(*sessions[d], depths[d], decodes[d]); !status)
        return std::move(status).error();
    for (uint32_t c = 1; c <= options.max_columns; ++c)
      if (auto status = benchmark.time_columns(**base, c, columns[c - 1]); !status) return std::move(status).error();
  }

  BenchmarkReport report;
  report.bandwidth = median(bandwidths);
  report.prefill_tokens = options.prefill;
  report.prefill_seconds = median(prefills);
  const auto measurement = [&](uint32_t depth, uint32_t count, std::vector<double>& times) {
    PassMeasurement m{depth, count, median(times), engine.pass_bytes(depth + (count == 1 ? options.passes / 2 : count)),
                      0};
    m.limit_share = static_cast<double>(m.bytes) / report.bandwidth / m.seconds;
    return m;
  };
  for (size_t d = 0; d < depths.size(); ++d) report.decode.push_back(measurement(depths[d], 1, decodes[d]));
  for (uint32_t c = 1; c <= options.max_columns; ++c) report.columns.push_back(measurement(0, c, columns[c - 1]));
  for (const size_t d :
       depths.size() > 1 ? std::vector<size_t>{0, depths.size() - 1} : std::vector<size_t>(depths.size(), 0)) {
    auto phases = benchmark.profile([&] { return benchmark.time_decode(*sessions[d], depths[d], warm_up); });
    if (!phases) return std::move(phases).error();
    report.phases.push_back({depths[d], std::move(*phases)});
  }
  if (options.prefill > 0) {
    auto phases = benchmark.profile([&] { return benchmark.time_prefill(prefills); });
    if (!phases) return std::move(phases).error();
    report.prefill_phases = std::move(*phases);
  }
  return report;
}

}  // namespace gale::engine
