#include "gateway/config/cut_devices.h"

#include <fmt/format.h>

#include <algorithm>

namespace gateway::config {
namespace {

// Without devices, for a machine on which all are partitioned.
constexpr std::string_view kNone = "uncut";

}  // namespace

std::vector<std::string> UncutKinds(const Scaling& scaling) {
  std::vector<std::string> kinds;
  if (!scaling.probed) return kinds;
  bool some_cut = false;
  for (const plugins::devices::LocalNode& node : scaling.probed->nodes) {
    if (node.devices.empty()) continue;
    if (node.devices.front().cut) {
      some_cut = true;
    } else {
      kinds.push_back(node.devices.front().kind);
    }
  }
  if (!some_cut) return {};
  if (kinds.empty()) kinds.emplace_back(kNone);
  return kinds;
}

std::vector<std::string> UncutKinds(const scheduler::Cluster& found) {
  std::vector<std::string> kinds;
  bool some_cut = false;
  for (const scheduler::DeviceKind& kind : found.kinds) {
    if (kind.layout == scheduler::kNone) {
      kinds.push_back(kind.name);
    } else {
      some_cut = true;
    }
  }
  if (!some_cut) return {};
  if (kinds.empty()) kinds.emplace_back(kNone);
  return kinds;
}

std::string AsksForCut(const scheduler::DeviceAsk& ask, const std::vector<std::string>& uncut) {
  if (uncut.empty() || !ask.profile.empty() || ask.kinds.empty()) return {};
  const std::string& kind = ask.kinds.front();
  if (std::ranges::find(uncut, kind) != uncut.end()) return {};
  return fmt::format("{} is cut into instances; ask for an instance by profile", kind);
}

void AskForUncut(scheduler::Ask& ask, const std::vector<std::string>& uncut) {
  if (uncut.empty()) return;
  for (scheduler::DeviceAsk& device : ask.devices) {
    if (device.profile.empty() && device.kinds.empty()) device.kinds = uncut;
  }
}

}  // namespace gateway::config
