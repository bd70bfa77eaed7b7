// Opens a model: checkpoint, program, tokenizer, chat template, executor.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "base/bandwidth.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/engine_state.h"

namespace gale::engine {
namespace {

// A session's cache may take this share of the memory that is free once the weights are there.
constexpr double kCacheShare = 0.5;
// Bytes read to measure bandwidth: several times the last-level cache of desktop machines.
constexpr size_t kBandwidthBytes = size_t{256} << 20;

// Chooses the context: what was asked for, or the trained one as far as memory goes.
Result<uint32_t> choose_context(const EngineOptions& options, const model::Program& program, Executor& executor) {
  const auto bytes = [&](uint32_t positions) -> uint64_t {
    if (const auto* e = std::get_if<std::unique_ptr<exec::CpuExecutor>>(&executor)) return (*e)->cache_bytes(positions);
    return model::cache_bytes(program, positions, sizeof(double));
  };
  const size_t available = available_memory_bytes();
  if (options.context > 0) {
    if (bytes(options.context) > available) {
      return fail(ErrorKind::limit,
                  "a context of {} positions needs {:.2f} GB for its cache, but only {:.2f} GB of memory are "
                  "available; ask for a "
                  "smaller one with --context",
                  options.context, static_cast<double>(bytes(options.context)) * 1e-9,
                  static_cast<double>(available) * 1e-9);
    }
    return options.context;
  }
  uint32_t context = program.context_length;
  while (context > 256 && static_cast<double>(bytes(context)) > kCacheShare * static_cast<double>(available))
    context /= 2;
  if (context < program.context_length) {
    log(LogLevel::warning, "context is {} instead of the trained {}: the cache of the whole would not fit the memory",
        context, program.context_length);
  }
  return context;
}

}  // namespace

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::end_token:
      return "end of turn";
    case StopReason::stop_string:
      return "stop string";
    case StopReason::length:
      return "length";
    case StopReason::context_full:
      return "context full";
    case StopReason::cancelled:
      return "cancelled";
  }
  return "unknown";
}

namespace {

// Blocks beyond the number in the settings: the model would speak, but not as it was trained.
void warn_of_unused_blocks(const format::Checkpoint& checkpoint, const model::Program& program) {
  std::vector<std::string> names = model::unused_tensors(checkpoint, program);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("blk."); });
  if (names.empty()) return;
  log(LogLevel::warning, "no step uses '{}'{}: the settings may not be those of this model", names.front(),
      names.size() > 1 ? fmt::format(" and {} more tensors of blocks", names.size() - 1) : "");
}

}  // namespace

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(const std::string& path, const EngineOptions& options) {
  auto checkpoint = format::Checkpoint::open(path);
  if (!checkpoint) return std::move(checkpoint).error();
  auto state = std::make_unique<State>();
  state->options = options;
  state->checkpoint = std::move(*checkpoint);
  auto hparams = model::read_hparams(state->checkpoint);
  if (!hparams) return in_file(path, hparams.error());
  state->hparams = std::move(*hparams);
  auto program = model::build_program(state->checkpoint, state->hparams);
  if (!program) return in_file(path, program.error());
  state->program = std::move(*program);
  warn_of_unused_blocks(state->checkpoint, state->program);

  auto text = ModelText::of(state->checkpoint);
  if (!text) return in_file(path, text.error());
  state->model_text = std::move(*text);

  if (options.executor == ExecutorKind::reference) {
    auto executor = exec::ReferenceExecutor::create(state->program);
    if (!executor) return in_file(path, executor.error());
    state->executor = std::move(*executor);
  } else {
    exec::CpuOptions cpu;
    cpu.threads = options.threads > 0 ? options.threads : default_thread_count();
    cpu.pin_threads = static_cast<size_t>(cpu.threads) <= allowed_processors().size();
    cpu.cache_type = options.cache_type;
    cpu.max_columns = options.chunk;
    if (options.isa) {
      cpu.isa = *options.isa;
    } else {
      const auto isa = choose_isa();
      if (!isa) return isa.error();
      cpu.isa = *isa;
    }
    state->options.threads = cpu.threads;
    state->options.isa = cpu.isa;
    auto executor = exec::CpuExecutor::create(state->program, state->checkpoint, cpu);
    if (!executor) return in_file(path, executor.error());
    state->executor = std::move(*executor);
  }
  const auto context = choose_context(options, state->program, state->executor);
  if (!context) return in_file(path, context.error());
  state->context = *context;
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

const format::Checkpoint& Engine::checkpoint() const {
  return state_->checkpoint;
}
const model::Hparams& Engine::hparams() const {
  return state_->hparams;
}
const model::Program& Engine::program() const {
  return state_->program;
}
const ModelText& Engine::model_text() const {
  return state_->model_text;
}
bool Engine::has_tokenizer() const {
  return state_->model_text.has_tokenizer();
}
const text::Tokenizer& Engine::tokenizer() const {
  return state_->model_text.tokenizer();
}
bool Engine::has_chat_template() const {
  return state_->model_text.has_chat_template();
}
uint32_t Engine::context() const {
  return state_->context;
}

exec::CpuExecutor* Engine::cpu_executor() {
  auto* executor = std::get_if<std::unique_ptr<exec::CpuExecutor>>(&state_->executor);
  return executor != nullptr ? executor->get() : nullptr;
}

uint64_t Engine::pass_bytes(uint64_t depth) const {
  return model::weight_bytes(state_->program) +
         model::cache_bytes(state_->program, depth, exec::bytes_per_element(state_->options.cache_type));
}

Result<std::vector<text::Token>> Engine::encode_chat(const std::vector<text::ChatMessage>& messages,
                                                     bool add_generation_prompt, size_t* lost) const {
  const auto conversation = text::Conversation::create(messages);
  if (!conversation) return conversation.error();
  return state_->model_text.encode_chat(*conversation, add_generation_prompt, lost);
}

Result<double> Engine::memory_bandwidth() {
  if (state_->bandwidth) return *state_->bandwidth;
  exec::CpuExecutor* executor = cpu_executor();
  if (executor == nullptr) return fail(ErrorKind::unsupported, "the reference executor has no limit to compare with");
  auto bandwidth = measure_read_bandwidth(executor->team(), kBandwidthBytes, /*repeats=*/4);
  if (bandwidth) state_->bandwidth = *bandwidth;
  return bandwidth;
}

std::string Engine::describe() const {
  if (state_->options.executor == ExecutorKind::reference)
    return fmt::format("reference executor, context {}", state_->context);
  return fmt::format("{} thread{}, {}, context {}, cache {}", state_->options.threads,
                     state_->options.threads == 1 ? "" : "s", gale::name(*state_->options.isa), state_->context,
                     exec::name(state_->options.cache_type));
}

}  // namespace gale::engine
