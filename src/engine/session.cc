// Sessions: append tokens in chunks, generate until something stops, rewind.
#include <algorithm>
#include <chrono>

#include "engine/engine_state.h"

namespace gale::engine {

struct Session::State {
  Engine::State* engine = nullptr;
  exec::SequenceId sequence = 0;
  bool open = false;
  std::vector<text::Token> tokens;
  size_t cached = 0;          // tokens[0, cached) have been run
  bool logits_valid = false;  // logits belong to the last of tokens, which has been run
  std::vector<float> logits;  // [vocabulary]

  Status open_sequence() {
    auto id = std::visit([&](auto& executor) { return executor->open_sequence(engine->context); }, engine->executor);
    if (!id) return std::move(id).error();
    sequence = *id;
    open = true;
    cached = 0;
    return {};
  }
  void close_sequence() {
    if (open) std::visit([&](auto& executor) { executor->close_sequence(sequence); }, engine->executor);
    open = false;
  }
  Status run(std::span<const exec::Column> columns, std::span<float> out) {
    return std::visit([&](auto& executor) { return executor->run(columns, out); }, engine->executor);
  }
  // Makes the cache hold exactly the first `length` tokens, or fewer where those can't be had any more.
  Status shorten(size_t length) {
    if (cached <= length) return {};
    if (std::visit([&](auto& executor) { return executor->truncate(sequence, static_cast<uint32_t>(length)); },
                   engine->executor)) {
      cached = length;
      return {};
    }
    close_sequence();
    return open_sequence();
  }
  Status check_tokens(std::span<const text::Token> more) const {
    for (const text::Token token : more) {
      if (token < 0 || static_cast<uint32_t>(token) >= engine->program.vocabulary) {
        return fail(ErrorKind::invalid_input, "token {} is out of range: the vocabulary has {} tokens", token,
                    engine->program.vocabulary);
      }
    }
    if (more.size() > engine->context - std::min<size_t>(engine->context, tokens.size())) {
      if (tokens.empty()) {
        return fail(ErrorKind::limit,
                    "a prompt of {} tokens doesn't fit the context of {}; shorten it or ask for a larger "
                    "context with --context",
                    more.size(), engine->context);
      }
      return fail(ErrorKind::limit,
                  "{} tokens behind the {} that are there don't fit the context of {}; shorten the "
                  "conversation or ask for a larger context with --context",
                  more.size(), tokens.size(), engine->context);
    }
    return {};
  }

  // Runs what is in tokens but not in the cache. `all` empty: only the last token's logits are kept; else
  // it gets those of every token from `first_wanted` on.
  Status catch_up(const std::atomic<bool>* cancel, const std::function<void(size_t, size_t)>& progress,
                  std::span<float> all = {}, size_t first_wanted = 0, uint32_t chunk = 0) {
    const size_t vocabulary = engine->program.vocabulary;
    const size_t start = cached, total = tokens.size() - start;
    if (chunk == 0) chunk = engine->options.chunk;
    std::vector<exec::Column> columns;
    while (cached < tokens.size()) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
        return fail(ErrorKind::cancelled, "cancelled after {} of {} tokens", cached - start, total);
      }
      const size_t count = std::min<size_t>(chunk, tokens.size() - cached);
      columns.clear();
      size_t wanted = 0;
      const size_t first_row = std::max(cached, first_wanted);
      for (size_t i = 0; i < count; ++i) {
        const bool last = cached + i + 1 == tokens.size();
        const bool wants = all.empty() ? last : cached + i >= first_wanted;
        wanted += wants;
        columns.push_back({sequence, static_cast<uint32_t>(cached + i), tokens[cached + i], wants});
      }
      std::span<float> out;
      if (all.empty() && wanted > 0) {
        logits.resize(vocabulary);
        out = logits;
      } else if (wanted > 0) {
        out = all.subspan((first_row - first_wanted) * vocabulary, wanted * vocabulary);
      }
      if (auto status = run(columns, out); !status) return std::move(status).error();
      cached += count;
      if (progress) progress(cached - start, total);
    }
    if (total > 0) {
      if (!all.empty()) logits.assign(all.end() - static_cast<std::ptrdiff_t>(vocabulary), all.end());
      logits_valid = true;
    }
    return {};
  }
  // Makes `logits` those of the last token.
  Status ensure_logits(const std::atomic<bool>* cancel) {
    if (tokens.empty()) return fail(ErrorKind::invalid_input, "there is nothing to go on from: append a token first");
    if (cached == tokens.size() && !logits_valid)
      if (auto status = shorten(tokens.size() - 1); !status) return std::move(status).error();
    return catch_up(cancel, {});
  }
};

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() {
  state_->close_sequence();
}

Result<std::unique_ptr<Session>> Engine::new_session() {
  auto state = std::make_unique<Session::State>();
  state->engine = state_.get();
  if (auto status = state->open_sequence(); !status) return std::move(status).error();
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

const std::vector<text::Token>& Session::tokens() const {
  return state_->tokens;
}

std::span<const float> Session::logits() const {
  return state_->logits_valid && state_->cached == state_->tokens.size() ? std::span<const float>(state_->logits)
                                                                         : std::span<const float>();
}

Status Session::append(std::span<const text::Token> tokens, const std::atomic<bool>* cancel,
                       const std::function<void(size_t, size_t)>& progress) {
  if (auto status = state_->check_tokens(tokens); !status) return std::move(status).error();
  if (tokens.empty()) return {};
  const size_t before = state_->tokens.size();
  state_->tokens.insert(state_->tokens.end(), tokens.begin(), tokens.end());
  state_->logits_valid = false;
  const Status status = state_->catch_up(cancel, progress);
  // After an error what was run stays, the rest is forgotten, so that tokens() tells the truth.
  if (!status) state_->tokens.resize(std::max(before, state_->cached));
  return status;
}

Status Session::append_with_logits(std::span<const text::Token> tokens, std::span<float> logits, uint32_t chunk,
                                   const std::atomic<bool>* cancel) {
  if (auto status = state_->check_tokens(tokens); !status) return std::move(status).error();
  if (logits.size() != tokens.size() * state_->engine->program.vocabulary) {
    return fail(ErrorKind::invalid_input, "room for {} logits was given for {} tokens of {} each", logits.size(),
                tokens.size(), state_->engine->program.vocabulary);
  }
  if (chunk == 0 || chunk > state_->engine->options.chunk) {
    return fail(ErrorKind::invalid_input, "a chunk of {} columns was asked for; possible are 1 to {}", chunk,
                state_->engine->options.chunk);
  }
  if (tokens.empty()) return {};
  const size_t before = state_->tokens.size();
  state_->tokens.insert(state_->tokens.end(), tokens.begin(), tokens.end());
  state_->logits_valid = false;
  const Status status = state_->catch_up(cancel, {}, logits, before, chunk);
  if (!status) state_->tokens.resize(std::max(before, state_->cached));
  return status;
}

Result<GenerateResult> Session::generate(const GenerateOptions& options,
                                         const std::function<void(std::string_view)>& on_text) {
  State& state = *state_;
  if (auto status = validate(options.sampling); !status) return std::move(status).error();
  const ModelText& model_text = state.engine->model_text;
  const text::Tokenizer* tokenizer = model_text.has_tokenizer() ? &model_text.tokenizer() : nullptr;
  GenerateResult result;
  if (Status status = state.ensure_logits(options.cancel); !status) {
    if (status.error().kind != ErrorKind::cancelled) return std::move(status).error();
    result.reason = StopReason::cancelled;
    return result;
  }
  if (state.tokens.size() >= state.engine->context) {  // an empty answer would look like success
    return fail(ErrorKind::limit,
                "{} tokens fill the context of {}: there is no room for an answer; shorten the prompt or ask for a "
                "larger context with --context",
                state.tokens.size(), state.engine->context);
  }
  Sampler sampler(options.sampling);
  std::optional<text::StreamingDetokenizer> detokenizer;
  if (tokenizer != nullptr) detokenizer.emplace(*tokenizer, /*continues=*/true);
  text::StopStrings stops(options.stops);
  const auto show = [&](std::string_view text) {
    if (on_text && !text.empty()) on_text(text);
  };
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    if (result.tokens.size() >= options.max_tokens) {
      result.reason = StopReason::length;
      break;
    }
    if (state.tokens.size() >= state.engine->context) {
      result.reason = StopReason::context_full;
      break;
    }
    if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
      result.reason = StopReason::cancelled;
      break;
    }
    if (!result.tokens.empty()) {
      if (auto status = state.catch_up(nullptr, {}); !status) return std::move(status).error();
      ++result.passes;
    }
    const auto token = sampler.sample(state.logits, state.tokens);
    if (!token) return token.error();
    if (tokenizer != nullptr && !options.ignore_end && tokenizer->ends_turn(*token)) {
      result.reason = StopReason::end_token;
      break;
    }
    result.tokens.push_back(*token);
    state.tokens.push_back(*token);
    state.logits_valid = false;
    if (detokenizer) show(stops.push(detokenizer->push(*token)));
    if (stops.stopped()) {
      result.reason = StopReason::stop_string;
      break;
    }
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (detokenizer && !stops.stopped()) {
    show(stops.push(detokenizer->finish()));
    show(stops.finish());
  }
  return result;
}

Status Session::rewind(size_t length) {
  if (length > state_->tokens.size()) {
    return fail(ErrorKind::invalid_input, "can't rewind to {} tokens: there are {}", length, state_->tokens.size());
  }
  if (length == state_->tokens.size()) return {};
  if (auto status = state_->shorten(length); !status) return std::move(status).error();
  state_->tokens.resize(length);
  state_->logits_valid = false;
  return {};
}

}  // namespace gale::engine
