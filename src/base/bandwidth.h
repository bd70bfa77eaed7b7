// The speed of memory as this process sees it: the yardstick for every "% of the limit".
#pragma once

#include <cstddef>

#include "base/result.h"
#include "base/team.h"

namespace gale {

// Bytes per second at which all members together read `bytes` of memory front to back, each its own part: the best of
// `repeats` rounds. `bytes` should be several times the last-level cache. Error: not enough memory.
Result<double> measure_read_bandwidth(Team& team, size_t bytes, int repeats);

}  // namespace gale
