// Lists the buffers that steps read and write, and counts the waits between dependent steps.
#include "model/program_parts.h"

#include <algorithm>

namespace gale::model {
namespace {

Access access(const EmbedStep& step) {
  return {.reads = {}, .writes = {step.output}};
}

Access access(const MatrixStep& step) {
  Access out;
  out.reads.push_back(step.prologue.input);
  if (step.prologue.kind == Prologue::Kind::add_norm) {
    out.reads.push_back(step.prologue.residual);
    out.writes.push_back(step.prologue.sum);
  }
  if (step.epilogue == MatrixStep::Epilogue::logits) return out;
  const size_t outputs = step.epilogue == MatrixStep::Epilogue::gated ? 1 : step.groups.size();
  for (size_t i = 0; i < outputs && i < step.groups.size(); ++i) {
    if (step.epilogue == MatrixStep::Epilogue::add) out.reads.push_back(step.groups[i].output);
    out.writes.push_back(step.groups[i].output);
  }
  return out;
}

Access access(const AttentionStep& step) {
  return {.reads = {step.q, step.k, step.v}, .writes = {step.output}};
}

bool any_of_in(const std::vector<BufferId>& some, const std::vector<BufferId>& others) {
  return std::any_of(some.begin(), some.end(),
                     [&](BufferId id) { return std::find(others.begin(), others.end(), id) != others.end(); });
}

}  // namespace

Access access_of(const Step& step) {
  return std::visit([](const auto& kind) { return access(kind); }, step);
}

size_t count_phases(const Program& program) {
  size_t phases = 0;
  Access phase;  // of the steps since the last wait
  for (const Step& step : program.steps) {
    const Access now = access_of(step);
    const bool waits =
        any_of_in(now.reads, phase.writes) || any_of_in(now.writes, phase.writes) || any_of_in(now.writes, phase.reads);
    if (waits || phases == 0) {
      ++phases;
      phase = {};
    }
    phase.reads.insert(phase.reads.end(), now.reads.begin(), now.reads.end());
    phase.writes.insert(phase.writes.end(), now.writes.begin(), now.writes.end());
  }
  return phases;
}

}  // namespace gale::model
