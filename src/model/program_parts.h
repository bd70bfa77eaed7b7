// What a step touches: its weights, and the buffers that it reads and writes.
#pragma once

#include <vector>

#include "model/program.h"

namespace gale::model {

// In the order in which they are used; no null.
std::vector<Weight> weights_of(const Step& step);

struct Access {
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
};

Access access_of(const Step& step);

// Groups of steps that must wait for what the ones before them wrote.
size_t count_phases(const Program& program);

}  // namespace gale::model
