// Finding the control groups of this process through /proc/self/cgroup and /proc/self/mountinfo.
#include "base/control_group.h"

#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace gale {

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
  for (const std::string& entry : list) {
    if (entry == item) return true;
  }
  return false;
}

// Where a hierarchy is mounted and which of its groups is visible there ("/" unless a container shows only its own
// part).
struct Mount {
  ControlGroupVersion version = ControlGroupVersion::v2;
  std::string folder;
  std::string group;
};

// Lines are "36 25 0:31 GROUP FOLDER options fields - TYPE source super-options".
std::vector<Mount> find_mounts(const std::string& root, const std::string& controller) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> left = split(std::string_view(line).substr(0, dash), ' ');
    const std::vector<std::string> right = split(std::string_view(line).substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    if (right[0] == "cgroup2") {
      mounts.push_back({ControlGroupVersion::v2, left[4], left[3]});
    } else if (right[0] == "cgroup" && contains(split(right[2], ','), controller)) {
      mounts.push_back({ControlGroupVersion::v1, left[4], left[3]});
    }
  }
  if (mounts.empty()) {  // no mountinfo: the usual places
    mounts.push_back({ControlGroupVersion::v2, "/sys/fs/cgroup", "/"});
    mounts.push_back({ControlGroupVersion::v1, "/sys/fs/cgroup/" + controller, "/"});
  }
  return mounts;
}

// Path of this process' group in the hierarchy; nullopt if it has none.
std::optional<std::string> group_path(const std::string& root, const std::string& controller,
                                      ControlGroupVersion version) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:memory:/path", for v2 "0::/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool matches = version == ControlGroupVersion::v2 ? line.substr(0, first) == "0" && controllers.empty()
                                                            : contains(split(controllers, ','), controller);
    if (matches) return line.substr(second + 1);
  }
  return std::nullopt;
}

// `path` relative to the group that is visible at the mount. A group outside of it (a container with the host's view of
// /proc) is not reachable: the mounted group itself is the nearest one known.
std::string below(const std::string& path, const std::string& mounted) {
  if (mounted == "/") return path;
  if (path == mounted) return "";
  if (path.size() > mounted.size() && path.compare(0, mounted.size(), mounted) == 0 && path[mounted.size()] == '/') {
    return path.substr(mounted.size());
  }
  return "";
}

}  // namespace

std::optional<std::string> read_small_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  std::string result = text.str();
  while (!result.empty() && (result.back() == '\n' || result.back() == ' ')) result.pop_back();
  return result;
}

void for_each_control_group(const std::string& root, const std::string& controller,
                            const std::function<void(ControlGroupVersion, const std::string&)>& visit) {
  for (const Mount& mount : find_mounts(root, controller)) {
    const std::optional<std::string> group = group_path(root, controller, mount.version);
    if (!group) continue;
    std::string relative = below(*group, mount.group);
    while (!relative.empty() && relative.back() == '/') relative.pop_back();
    // A path with ".." names a group outside this process' name space; only what is mounted can be read.
    if (relative.find("/..") != std::string::npos) relative.clear();
    while (true) {
      visit(mount.version, root + mount.folder + relative);
      if (relative.empty()) break;
      const size_t slash = relative.rfind('/');
      relative.resize(slash == std::string::npos ? 0 : slash);
    }
  }
}

}  // namespace gale
