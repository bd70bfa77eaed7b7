// Engine: a loaded model ready to answer; Session: one conversation with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"
#include "engine/model_text.h"
#include "engine/sampler.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/pass.h"
#include "format/checkpoint.h"
#include "model/hparams.h"
#include "model/program.h"

namespace gale::engine {

enum class ExecutorKind { cpu, reference };

struct EngineOptions {
  ExecutorKind executor = ExecutorKind::cpu;
  int threads = 0;         // 0: chosen from the machine
  std::optional<Isa> isa;  // nullopt: choose_isa()
  exec::CacheType cache_type = exec::CacheType::f16;
  uint32_t context = 0;  // positions of a session; 0: the trained context, less if memory is short
  uint32_t chunk = 512;  // most columns of one prefill pass
};

enum class StopReason { end_token, stop_string, length, context_full, cancelled };
std::string_view name(StopReason reason);

struct GenerateOptions {
  SamplingOptions sampling;
  uint32_t max_tokens = UINT32_MAX;
  std::vector<std::string> stops;
  bool ignore_end = false;                    // go on past tokens that end a turn
  const std::atomic<bool>* cancel = nullptr;  // looked at before every pass
};

struct GenerateResult {
  StopReason reason = StopReason::length;
  std::vector<text::Token> tokens;  // without the token that ended the turn
  uint32_t passes = 0;              // of one column each, after the first token
  double seconds = 0;               // that these passes took, with sampling and text
};

class Session;

class Engine {
 public:
  // Reads, checks and loads a model file. Errors say what is wrong with the file or what this machine lacks.
  static Result<std::unique_ptr<Engine>> open(const std::string& path, const EngineOptions& options = {});
  ~Engine();

  const format::Checkpoint& checkpoint() const;
  const model::Hparams& hparams() const;
  const model::Program& program() const;
  bool has_tokenizer() const;
  const text::Tokenizer& tokenizer() const;  // only if has_tokenizer()
  bool has_chat_template() const;            // false: text is completed as it is
  const ModelText& model_text() const;       // all of that; conversations with tools and more
  uint32_t context() const;
  // Bytes that one pass of one column at position `depth` must read: weights and cache.
  uint64_t pass_bytes(uint64_t depth) const;
  // Bytes per second that this machine's memory gives to the engine's threads (measured, tens of milliseconds).
  Result<double> memory_bandwidth();
  // Null with the reference executor.
  exec::CpuExecutor* cpu_executor();
  // "2 threads, avx2, context 2048, cache F16": one line for people.
  std::string describe() const;

  // Tokens of a conversation by the file's template (control tokens only where the template wrote them). `lost` (may be
  // null) gets the number of bytes that the vocabulary can't spell.
  Result<std::vector<text::Token>> encode_chat(const std::vector<text::ChatMessage>& messages,
                                               bool add_generation_prompt = true, size_t* lost = nullptr) const;

  Result<std::unique_ptr<Session>> new_session();

  struct State;

 private:
  friend class Session;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A growing list of tokens and its cache. Used by one thread at a time; cancel may be set from another.
class Session {
 public:
  ~Session();
  const std::vector<text::Token>& tokens() const;

  // Runs the tokens through the model in chunks. Errors: token out of range; "prompt of N tokens doesn't fit the
  // context of M", with nothing appended; cancelled (what was done up to then stays). `progress` (may be empty) is told
  // after every pass how many tokens are done.
  Status append(std::span<const text::Token> tokens, const std::atomic<bool>* cancel = nullptr,
                const std::function<void(size_t done, size_t total)>& progress = {});
  // Logits after the last token [vocabulary]; empty before the first append.
  std::span<const float> logits() const;
  // Runs tokens and writes the logits of every one of them: [tokens.size() x vocabulary]. `chunk` columns a pass.
  // Errors as append's.
  Status append_with_logits(std::span<const text::Token> tokens, std::span<float> logits, uint32_t chunk,
                            const std::atomic<bool>* cancel = nullptr);
  // Samples, hands text to `on_text` as it becomes final (may be empty), and appends, until something stops it.
  // The session stays consistent whatever the reason: tokens() are exactly those in the cache or about to be.
  Result<GenerateResult> generate(const GenerateOptions& options, const std::function<void(std::string_view)>& on_text);
  // Forgets all tokens from `length` on.
  Status rewind(size_t length);

 private:
  friend class Engine;
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gale::engine
