// What an engine owns, shared with its sessions.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "engine/engine.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/reference/reference_executor.h"

namespace gale::engine {

using Executor = std::variant<std::unique_ptr<exec::CpuExecutor>, std::unique_ptr<exec::ReferenceExecutor>>;

struct Engine::State {
  EngineOptions options;
  // In the order of dependence: what comes later points into what comes before.
  format::Checkpoint checkpoint;
  model::Hparams hparams;
  model::Program program;
  ModelText model_text;
  Executor executor;
  uint32_t context = 0;
  std::optional<double> bandwidth;
};

}  // namespace gale::engine
