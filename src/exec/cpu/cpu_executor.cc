// Runs passes on a team of threads: checks the columns, walks the lowered steps with a barrier after each, commits the
// cache.
#include "exec/cpu/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "base/checked.h"
#include "exec/cpu/pass_state.h"

namespace gale::exec {

struct CpuExecutor::State {
  const model::Program* program = nullptr;
  CpuOptions options;
  std::unique_ptr<Team> team;
  TiledWeights weights;
  LoweredProgram lowered;
  std::unique_ptr<KvCache> cache;
  PassState pass;
  bool profiling = false;
  std::vector<double> step_seconds;  // by step, summed over `profiled_passes`
  std::vector<uint64_t> step_bytes;
  uint64_t profiled_passes = 0;
};

Status prepare(PassState& pass, const model::Program& program, size_t max_columns) {
  for (const model::Buffer& buffer : program.buffers) {
    auto memory = PageBuffer::allocate(max_columns * buffer.width * sizeof(float), /*huge_pages=*/false);
    if (!memory) return std::move(memory).error();
    pass.widths.push_back(buffer.width);
    pass.memory.push_back(std::move(*memory));
  }
  bool int8 = false, float32 = false;
  size_t embedding_row = 0;  // bytes
  for (const LoweredStep& step : pass.program->steps) {
    if (const auto* matrix = std::get_if<LoweredMatrix>(&step.action))
      int8 |= matrix->needs_int8, float32 |= matrix->needs_float;
    if (const auto* embed = std::get_if<LoweredEmbed>(&step.action); embed && embed->tiled == nullptr)
      embedding_row = std::max<size_t>(embedding_row, embed->weight->row_bytes());
  }
  const auto allocate = [&](PanelKind kind, size_t columns, PageBuffer& out) -> Status {
    const size_t full = panel_bytes(kind, pass.program->largest_input, kMaxKernelColumns);
    auto memory = PageBuffer::allocate(full * divide_up<size_t>(columns, kMaxKernelColumns), /*huge_pages=*/false);
    if (!memory) return std::move(memory).error();
    out = std::move(*memory);
    return {};
  };
  pass.scratch.resize(static_cast<size_t>(pass.team->size()));
  if (int8)
    if (auto status = allocate(PanelKind::int8, max_columns, pass.int8_panels); !status)
      return std::move(status).error();
  if (float32)
    if (auto status = allocate(PanelKind::float32, max_columns, pass.float_panels); !status)
      return std::move(status).error();
  for (ThreadScratch& scratch : pass.scratch) {
    if (int8)
      if (auto status = allocate(PanelKind::int8, kNarrowColumns, scratch.int8_panel); !status)
        return std::move(status).error();
    if (float32)
      if (auto status = allocate(PanelKind::float32, kNarrowColumns, scratch.float_panel); !status)
        return std::move(status).error();
    scratch.row.resize(pass.program->largest_input);
    scratch.sum.resize(pass.program->largest_input);
    scratch.key.resize(pass.program->largest_head);
    scratch.embedding_row.resize(embedding_row);
  }
  pass.angles.resize(pass.program->ropes.size());
  return {};
}

void run_embed(const LoweredEmbed& step, PassState& pass, int member) {
  const size_t width = step.weight->row_length();
  for (size_t c = static_cast<size_t>(member); c < pass.columns.size(); c += static_cast<size_t>(pass.team->size())) {
    const size_t token = static_cast<size_t>(pass.columns[c].token);
    float* out = pass.row(step.output, c);
    if (step.tiled != nullptr) {
      decode_tile_row(step.tiled->type, step.tiled->height, width, step.tiled->tile_row(token / step.tiled->height),
                      static_cast<uint32_t>(token % step.tiled->height), out);
    } else {
      // The type was decoded once when the executor was made, so this can't fail.
      std::vector<std::byte>& buffer = pass.scratch[static_cast<size_t>(member)].embedding_row;
      (void)format::decode_rows(*step.weight, token, 1, buffer, {out, width});
    }
    if (step.scale != 1) pass.vector->scale(out, step.scale, width);
  }
}

namespace {

// An embedding that stays in the file must be of a type that can be decoded.
Status check_embeddings(const LoweredProgram& lowered) {
  for (const LoweredStep& step : lowered.steps) {
    const auto* embed = std::get_if<LoweredEmbed>(&step.action);
    if (embed == nullptr || embed->tiled != nullptr) continue;
    std::vector<float> row(embed->weight->row_length());
    std::vector<std::byte> buffer;
    if (Status status = format::decode_rows(*embed->weight, 0, 1, buffer, row); !status) return status;
  }
  return {};
}

// Groups the columns by sequence and checks that each continues its sequence.
Status group_columns(std::span<const Column> columns, const KvCache& cache, uint32_t vocabulary,
                     std::vector<SequenceColumns>& sequences) {
  sequences.clear();
  for (size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    if (column.token < 0 || static_cast<uint32_t>(column.token) >= vocabulary) {
      return fail(ErrorKind::invalid_input, "token {} is out of range: the vocabulary has {} tokens", column.token,
                  vocabulary);
    }
    if (!cache.is_open(column.sequence)) return fail(ErrorKind::not_found, "sequence {} is not open", column.sequence);
    auto it = std::find_if(sequences.begin(), sequences.end(), [&](const auto& s) { return s.id == column.sequence; });
    if (it == sequences.end()) {
      sequences.push_back({column.sequence, cache.length(column.sequence), {}});
      it = sequences.end() - 1;
    }
    if (column.position != it->end_position()) {
      return fail(ErrorKind::invalid_input,
                  "column {} of sequence {} is at position {}, but the sequence goes on at {}", c, column.sequence,
                  column.position, it->end_position());
    }
    it->columns.push_back(static_cast<uint32_t>(c));
  }
  return {};
}

}  // namespace

CpuExecutor::CpuExecutor(std::unique_ptr<State> state) : state_(std::move(state)) {}
CpuExecutor::~CpuExecutor() = default;

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::create(const model::Program& program,
                                                         const format::Checkpoint& checkpoint,
                                                         const CpuOptions& options) {
  if (auto status = model::validate(program); !status) return std::move(status).error();
  if (options.max_columns == 0) return fail(ErrorKind::invalid_input, "a pass must have room for at least one column");
  auto state = std::make_unique<State>();
  state->program = &program;
  state->options = options;
  std::vector<int> processors;  // that the threads are pinned to: of different cores where there are enough
  if (options.pin_threads) {
    processors = one_processor_per_core(allowed_processors());
    if (static_cast<size_t>(options.threads) > processors.size()) processors = allowed_processors();
  }
  auto team = Team::create({options.threads, std::move(processors)});
  if (!team) return std::move(team).error();
  state->team = std::move(*team);

  const MatrixKernels& kernels = matrix_kernels(options.isa);
  auto weights = TiledWeights::load(program, checkpoint, kernels.height, *state->team);
  if (!weights) return std::move(weights).error();
  state->weights = std::move(*weights);
  auto lowered = lower(program, checkpoint, state->weights, kernels, options.threads);
  if (!lowered) return std::move(lowered).error();
  state->lowered = std::move(*lowered);
  if (auto status = check_embeddings(state->lowered); !status) return std::move(status).error();
  auto cache = KvCache::create(program.caches, options.cache_type);
  if (!cache) return std::move(cache).error();
  state->cache = std::move(*cache);

  PassState& pass = state->pass;
  pass.program = &state->lowered;
  pass.matrix = &kernels;
  pass.vector = &vector_kernels(options.isa);
  pass.attention = &attention_kernels(options.isa, options.cache_type);
  pass.cache = state->cache.get();
  pass.team = state->team.get();
  pass.vocabulary = program.vocabulary;
  if (auto status = prepare(pass, program, options.max_columns); !status) return std::move(status).error();
  return std::unique_ptr<CpuExecutor>(new CpuExecutor(std::move(state)));
}

Result<SequenceId> CpuExecutor::open_sequence(uint32_t max_positions) {
  return state_->cache->open(max_positions);
}
void CpuExecutor::close_sequence(SequenceId id) {
  state_->cache->close(id);
}
bool CpuExecutor::truncate(SequenceId id, uint32_t length) {
  return state_->cache->truncate(id, length);
}
uint32_t CpuExecutor::length(SequenceId id) const {
  return state_->cache->length(id);
}
uint64_t CpuExecutor::cache_bytes(uint32_t positions) const {
  return state_->cache->bytes(positions);
}
uint64_t CpuExecutor::weight_memory_bytes() const {
  return state_->weights.bytes();
}
Team& CpuExecutor::team() {
  return *state_->team;
}

Status CpuExecutor::run(std::span<const Column> columns, std::span<float> logits) {
  State& state = *state_;
  PassState& pass = state.pass;
  if (columns.empty()) return {};
  if (columns.size() > state.options.max_columns) {
    return fail(ErrorKind::limit, "a pass of {} columns is larger than the {} that this executor was made for",
                columns.size(), state.options.max_columns);
  }
  if (auto status = group_columns(columns, *state.cache, state.program->vocabulary, pass.sequences); !status)
    return std::move(status).error();
  pass.wanted.clear();
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].wants_logits) pass.wanted.push_back(static_cast<uint32_t>(c));
  }
  if (logits.size() != pass.wanted.size() * pass.vocabulary) {
    return fail(ErrorKind::invalid_input, "room for {} logits was given, but {} columns want {} each", logits.size(),
                pass.wanted.size(), pass.vocabulary);
  }
  for (const SequenceColumns& sequence : pass.sequences) {
    if (auto status = state.cache->reserve(sequence.id, static_cast<uint32_t>(sequence.columns.size())); !status)
      return std::move(status).error();
  }
  pass.columns = columns;
  pass.logits = logits;
  for (size_t r = 0; r < pass.angles.size(); ++r) {
    const size_t size = columns.size() * state.lowered.ropes[r].frequency.size();
    if (pass.angles[r].cos.size() < size) pass.angles[r].cos.resize(size), pass.angles[r].sin.resize(size);
  }
  prepare_attention(pass);

  const std::vector<LoweredStep>& steps = state.lowered.steps;
  using Clock = std::chrono::steady_clock;
  const bool profiling = state.profiling;
  state.team->run([&](int member) {
    fill_angles(pass, member);
    Clock::time_point before = profiling ? Clock::now() : Clock::time_point{};
    for (size_t i = 0; i < steps.size(); ++i) {
      if (const auto* matrix = std::get_if<LoweredMatrix>(&steps[i].action)) {
        run_matrix(*matrix, pass, member);
      } else if (const auto* attention = std::get_if<LoweredAttention>(&steps[i].action)) {
        run_attention(*attention, i, pass, member);
      } else {
        run_embed(std::get<LoweredEmbed>(steps[i].action), pass, member);
      }
      if (i + 1 < steps.size()) {
        if (const auto* next = std::get_if<LoweredMatrix>(&steps[i + 1].action)) prefetch_weights(*next, member);
      }
      state.team->barrier(member);
      if (profiling && member == 0) {
        const Clock::time_point now = Clock::now();
        state.step_seconds[i] += std::chrono::duration<double>(now - before).count();
        before = now;
      }
    }
  });
  if (profiling) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (const auto* matrix = std::get_if<LoweredMatrix>(&steps[i].action)) {
        const bool skipped = matrix->epilogue == model::MatrixStep::Epilogue::logits && pass.wanted.empty();
        state.step_bytes[i] += skipped ? 0 : matrix->bytes;
      } else if (const auto* attention = std::get_if<LoweredAttention>(&steps[i].action)) {
        state.step_bytes[i] += attention_bytes(*attention, pass);
      }
    }
    ++state.profiled_passes;
  }
  for (const SequenceColumns& sequence : pass.sequences) {
    state.cache->commit(sequence.id, static_cast<uint32_t>(sequence.columns.size()));
  }
  return {};
}

void CpuExecutor::set_profiling(bool on) {
  state_->profiling = on;
  state_->step_seconds.assign(state_->lowered.steps.size(), 0);
  state_->step_bytes.assign(state_->lowered.steps.size(), 0);
  state_->profiled_passes = 0;
}

std::vector<PhaseTiming> CpuExecutor::take_profile() {
  std::vector<PhaseTiming> profile;
  std::map<std::string, size_t> index;
  const double passes = std::max<double>(1, static_cast<double>(state_->profiled_passes));
  for (size_t i = 0; i < state_->lowered.steps.size() && state_->profiled_passes > 0; ++i) {
    const std::string& name = state_->lowered.steps[i].name;
    const auto [it, added] = index.emplace(name, profile.size());
    if (added) profile.push_back({name, 0, 0});
    profile[it->second].bytes += static_cast<uint64_t>(static_cast<double>(state_->step_bytes[i]) / passes);
    profile[it->second].seconds += state_->step_seconds[i] / passes;
  }
  set_profiling(state_->profiling);
  return profile;
}

}  // namespace gale::exec
