#include "gateway/config/shares.h"

#include <fmt/format.h>

#include <algorithm>

#include "plugins/devices/device.h"

namespace gateway::config {
namespace {

// A kind that MPS does not know; empty: none.
std::string KindBeyondMps(const scheduler::DeviceAsk& ask, const Scaling& scaling) {
  const auto beyond = [](const std::string& kind) {
    return plugins::devices::VendorOf(kind) != plugins::devices::Vendor::kNvidia;
  };
  if (!ask.kinds.empty()) {
    const auto found = std::ranges::find_if(ask.kinds, beyond);
    return found == ask.kinds.end() ? std::string() : *found;
  }
  const auto found = std::ranges::find_if(scaling.nodes.kinds, beyond, &scheduler::DeviceKind::name);
  return found == scaling.nodes.kinds.end() ? std::string() : found->name;
}

}  // namespace

std::string WhyNotShared(const scheduler::DeviceAsk& ask, const Scaling& scaling) {
  if (ask.milli == 0 || scaling.shares == Shares::kAccounted) return {};
  if (scaling.launcher != LauncherKind::kProcess) return {};  // has a refusal of its own
  if (scaling.shares == Shares::kRefused) {
    return "asks for a share of a device, which nothing enforces here; set scaling.shares to mps (NVIDIA's "
           "MPS "
           "enforces it) or to accounted (it is only counted), or ask for whole devices by count";
  }
  if (const std::string kind = KindBeyondMps(ask, scaling); !kind.empty()) {
    return fmt::format("asks for a share of {}, which MPS cannot enforce: it is for NVIDIA's devices; {}",
                       kind, ask.kinds.empty() ? "name a kind" : "ask for whole devices by count");
  }
  if (ask.memory_mib == 0)
    return "asks for a share of a device without memory, such as memory: 20GiB, which MPS enforces, too";
  return {};
}

}  // namespace gateway::config
