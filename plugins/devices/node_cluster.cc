#include "plugins/devices/node_cluster.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "scheduler/state/partitions.h"

namespace plugins::devices {
namespace {

using scheduler::PartitionLayout;
using scheduler::PartitionProfile;

bool CutAlike(const Device& a, const Device& b) {
  return a.cut == b.cut &&
         std::ranges::equal(a.instances, b.instances, [](const Instance& x, const Instance& y) {
           return x.profile == y.profile && x.start == y.start;
         });
}

// The known layout that has all of these profiles: it says how large each is.
const PartitionLayout* LayoutWith(const std::vector<Instance>& instances) {
  for (const std::string_view name : scheduler::KnownLayoutNames()) {
    const PartitionLayout* const layout = scheduler::FindKnownLayout(name);
    if (std::ranges::all_of(instances, [&](const Instance& i) {
          return std::ranges::find(layout->profiles, i.profile, &PartitionProfile::name) !=
                 layout->profiles.end();
        }))
      return layout;
  }
  return nullptr;
}

// `known` with each profile only where an instance of it stands.
PartitionLayout Narrow(const PartitionLayout& known, const Device& device) {
  PartitionLayout layout = known;
  layout.name = device.kind + "-as-cut";
  layout.profiles.clear();
  for (PartitionProfile profile : known.profiles) {
    profile.starts.clear();
    for (const Instance& instance : device.instances) {
      if (instance.profile == profile.name) profile.starts.push_back(instance.start);
    }
    if (!profile.starts.empty()) layout.profiles.push_back(std::move(profile));
  }
  return layout;
}

}  // namespace

NodeResources ThisMachine() {
  NodeResources node;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) node.name = name.data();
  node.cpu_milli = int64_t{1000} * std::max(1, get_nprocs());
  struct sysinfo info{};
  if (sysinfo(&info) == 0)
    node.memory_mib = static_cast<int64_t>(uint64_t{info.totalram} * info.mem_unit >> 20);
  return node;
}

NodeCluster MakeNodeCluster(const NodeResources& node, const std::vector<Device>& found) {
  NodeCluster out;
  const Device* chosen = nullptr;
  const auto alike = [&](const Device& a) {
    return std::ranges::count_if(
        found, [&](const Device& b) { return b.trouble.empty() && b.kind == a.kind && CutAlike(a, b); });
  };
  for (const Device& device : found) {
    if (device.trouble.empty() && (!chosen || alike(device) > alike(*chosen))) chosen = &device;
  }
  for (const Device& device : found) {
    const std::string who = fmt::format("device {} ({})", device.visible, device.kind);
    if (!device.trouble.empty()) {
      out.left_out.push_back(fmt::format("{}: {}", who, device.trouble));
    } else if (device.kind != chosen->kind) {
      out.left_out.push_back(
          fmt::format("{}: a node has devices of one kind, and most are {}", who, chosen->kind));
    } else if (!CutAlike(device, *chosen)) {
      out.left_out.push_back(fmt::format("{}: it is not cut into the same instances as most", who));
    } else if (out.devices.size() == scheduler::kMaxDevices) {
      out.left_out.push_back(fmt::format("{}: a node has at most {}", who, scheduler::kMaxDevices));
    } else {
      out.devices.push_back(device);
    }
  }

  scheduler::NodeType type{.name = node.name,
                           .cpu_milli = node.cpu_milli,
                           .memory_mib = node.memory_mib,
                           .devices = static_cast<uint8_t>(out.devices.size())};
  if (!out.devices.empty()) {
    scheduler::DeviceKind kind{.name = out.devices.front().kind,
                               .memory_mib = out.devices.front().memory_mib};
    if (out.devices.front().cut) {
      if (const PartitionLayout* known = LayoutWith(out.devices.front().instances)) {
        kind.layout = 0;
        out.cluster.layouts.push_back(Narrow(*known, out.devices.front()));
      } else {
        out.left_out.push_back(
            fmt::format("instances of {}: their profiles are in no known layout", kind.name));
      }
    }
    out.cluster.kinds.push_back(std::move(kind));
    for (const Device& device : out.devices) type.link_domain.push_back(device.link_domain);
    if (std::ranges::all_of(out.devices, [](const Device& d) { return d.numa.has_value(); })) {
      for (const Device& device : out.devices) type.numa.push_back(*device.numa);
    }
  }
  out.cluster.types.push_back(std::move(type));
  out.cluster.nodes.push_back({.name = node.name});
  out.cluster.fabric = scheduler::FlatFabric();
  return out;
}

}  // namespace plugins::devices
