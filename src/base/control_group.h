// Control groups of this process: the folders whose limits apply to it, in both versions of the interface.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace gale {

// Text of a small file without the line end; nullopt if it can't be read.
std::optional<std::string> read_small_file(const std::string& path);

enum class ControlGroupVersion { v1, v2 };

// Calls visit(version, folder) for the group of this process that `controller` ("cpu", "memory") governs and for every
// group above it, up to the root. `root` is put before "/proc" and "/sys".
void for_each_control_group(const std::string& root, const std::string& controller,
                            const std::function<void(ControlGroupVersion version, const std::string& folder)>& visit);

}  // namespace gale
