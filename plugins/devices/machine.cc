#include "plugins/devices/machine.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
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

// The known layout that has all of these profiles, with their sizes.
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

// `known` with each profile only in the places where the device has an instance of it.
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

// A kind also fixes how its devices are cut: devices of one product that are cut in another way than the
// first form a kind of their own.
void NameApart(std::vector<std::vector<Device>>& groups) {
  std::map<std::string, int> seen;
  for (std::vector<Device>& group : groups) {
    if (group.empty()) continue;
    const int nth = ++seen[group.front().kind];
    if (nth == 1) continue;
    const std::string apart = nth == 2 ? "-cut" : fmt::format("-cut-{}", nth - 1);
    for (Device& device : group) device.kind += apart;
  }
}

void AddKind(const Device& device, MachineCluster& out) {
  scheduler::DeviceKind kind{.name = device.kind, .memory_mib = device.memory_mib};
  if (device.cut) {
    if (const PartitionLayout* known = LayoutWith(device.instances)) {
      kind.layout = static_cast<uint32_t>(out.cluster.layouts.size());
      out.cluster.layouts.push_back(Narrow(*known, device));
    } else {
      out.left_out.push_back(
          fmt::format("instances of {}: their profiles are in no known layout", kind.name));
    }
  }
  out.cluster.kinds.push_back(std::move(kind));
}

void Describe(const std::vector<Device>& group, scheduler::NodeType& type) {
  const bool numa_known = std::ranges::all_of(group, [](const Device& d) { return d.numa.has_value(); });
  type.link_domain.reserve(group.size());
  type.numa.reserve(group.size());
  for (const Device& device : group) {
    type.link_domain.push_back(device.link_domain);
    if (numa_known) type.numa.push_back(*device.numa);
  }
}

}  // namespace

MachineResources ThisMachine() {
  MachineResources node;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) node.name = name.data();
  node.cpu_milli = int64_t{1000} * std::max(1, get_nprocs());
  struct sysinfo info{};
  if (sysinfo(&info) == 0)
    node.memory_mib = static_cast<int64_t>(uint64_t{info.totalram} * info.mem_unit >> 20);
  return node;
}

MachineCluster MakeMachineCluster(const MachineResources& machine, const std::vector<Device>& found) {
  MachineCluster out;
  std::vector<std::vector<Device>> groups;
  size_t usable = 0;
  for (const Device& device : found) {
    const auto group = std::ranges::find_if(
        groups, [&](const auto& g) { return g.front().kind == device.kind && CutAlike(g.front(), device); });
    const std::string who = fmt::format("device {} ({})", device.visible, device.kind);
    if (!device.trouble.empty()) {
      out.left_out.push_back(fmt::format("{}: {}", who, device.trouble));
      continue;
    }
    if (group != groups.end() && group->size() == scheduler::kMaxDevices) {
      out.left_out.push_back(fmt::format("{}: a node has at most {}", who, scheduler::kMaxDevices));
      continue;
    }
    ++usable;
    (group == groups.end() ? groups.emplace_back() : *group).push_back(device);
  }
  out.cluster.fabric = scheduler::FlatFabric();
  if (groups.empty()) groups.emplace_back();
  NameApart(groups);
  for (std::vector<Device>& group : groups) {
    std::string name =
        groups.size() == 1 ? machine.name : fmt::format("{}-{}", machine.name, group.front().kind);
    const auto parts = static_cast<int64_t>(std::max<size_t>(usable, 1));
    const int64_t share = group.empty() ? 1 : static_cast<int64_t>(group.size());
    scheduler::NodeType type{.name = name,
                             .cpu_milli = machine.cpu_milli * share / parts,
                             .memory_mib = machine.memory_mib * share / parts,
                             .kind = static_cast<scheduler::KindId>(out.cluster.kinds.size()),
                             .devices = static_cast<uint8_t>(group.size())};
    if (group.empty()) {
      type.kind = 0;
    } else {
      AddKind(group.front(), out);
      Describe(group, type);
    }
    out.cluster.nodes.push_back(
        {.name = name, .type = static_cast<scheduler::TypeId>(out.cluster.types.size())});
    out.cluster.types.push_back(std::move(type));
    out.nodes.push_back({.name = std::move(name), .devices = std::move(group)});
  }
  return out;
}

std::vector<LocalNode> LocalNodesOf(const scheduler::Cluster& cluster) {
  std::array<int, std::size(kVendorWords)> next{};
  std::vector<LocalNode> nodes;
  nodes.reserve(cluster.nodes.size());
  for (scheduler::NodeId id = 0; id < cluster.nodes.size(); ++id) {
    const scheduler::NodeType& type = cluster.type_of(id);
    LocalNode& node = nodes.emplace_back();
    node.name = cluster.nodes[id].name;
    node.devices.reserve(type.devices);
    for (uint8_t place = 0; place < type.devices; ++place) {
      const scheduler::DeviceKind& kind = cluster.kinds[type.kind];
      const Vendor vendor = VendorOf(kind.name);
      node.devices.push_back({.vendor = vendor,
                              .kind = kind.name,
                              .product = kind.name,
                              .memory_mib = kind.memory_mib,
                              .visible = std::to_string(next[static_cast<size_t>(vendor)]++)});
    }
  }
  return nodes;
}

}  // namespace plugins::devices
