#include "plugins/launchers/kubernetes/discovery.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "conf/text.h"
#include "plugins/devices/device.h"
#include "scheduler/state/partitions.h"

namespace plugins::launchers::kubernetes {
namespace {

using scheduler::Cluster;
using scheduler::PartitionLayout;
using scheduler::PartitionProfile;

constexpr std::string_view kRoot = "cluster";
// Some remain for kinds that nodes have left and that are still held.
constexpr size_t kMostKinds = scheduler::kMaxKinds / 2;

std::string LabelOf(const Node& node, std::string_view label) {
  const auto found = node.labels.find(std::string(label));
  return found == node.labels.end() ? std::string() : found->second;
}

std::string FirstLabelOf(const Node& node, const auto& labels) {
  for (const std::string_view label : labels) {
    if (std::string value = LabelOf(node, label); !value.empty()) return value;
  }
  return {};
}

std::string Lower(std::string_view text) {
  return absl::AsciiStrToLower({text.data(), text.size()});
}

// "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", where each instance counts as a device, and "…-SHARED", where the
// plugin gives one device to several pods.
std::string FormOf(std::string_view product) {
  const std::string text = Lower(product);
  if (const size_t mig = text.find("-mig-"); mig != std::string::npos) return text.substr(mig);
  return text.ends_with("-shared") ? "-shared" : "";
}

std::string KindOfNvidia(const Node& node) {
  constexpr std::array<std::string_view, 4> kProducts{
      "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name",
      "k8s.amazonaws.com/accelerator"};
  const std::string product = FirstLabelOf(node, kProducts);
  return devices::KindOf(devices::Vendor::kNvidia, product) + FormOf(product);
}

std::string KindOfAmd(const Node& node) {
  constexpr std::array<std::string_view, 2> kProducts{"amd.com/gpu.product-name",
                                                      "beta.amd.com/gpu.product-name"};
  return devices::KindOf(devices::Vendor::kAmd, FirstLabelOf(node, kProducts));
}

// The resource shows the generation, and the label of Huawei's exporter shows the chip.
std::string KindOfHuawei(const Node& node, std::string_view resource) {
  std::string chip = LabelOf(node, "node.kubernetes.io/npu.chip.name");
  if (chip.empty()) chip = resource.substr(resource.find('/') + 1);
  return devices::KindOf(devices::Vendor::kAscend, chip);
}

std::string KindOf(const Node& node, const DeviceResource& row) {
  if (!row.kind.empty()) return row.kind;
  if (row.resource.starts_with("nvidia.com/")) return KindOfNvidia(node);
  if (row.resource.starts_with("amd.com/")) return KindOfAmd(node);
  if (row.resource.starts_with("huawei.com/")) return KindOfHuawei(node, row.resource);
  std::string kind = Lower(std::string_view(row.resource).substr(row.resource.find('/') + 1));
  for (char& c : kind) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '-';
  }
  return kind;
}

// The memory of one device, in MiB; 0: no label has it.
int64_t MemoryOf(const Node& node, const DeviceResource& row) {
  if (row.resource.starts_with("nvidia.com/"))
    return conf::ReadNumber<int64_t>(LabelOf(node, "nvidia.com/gpu.memory")).value_or(0);
  if (!row.resource.starts_with("amd.com/")) return 0;
  const std::string vram = LabelOf(node, "amd.com/gpu.vram");  // "192G"
  return ReadBytes(vram.ends_with('G') ? vram + "i" : vram).value_or(0) >> 20;
}

// Instances of one profile on a node.
struct Offer {
  std::string profile{};
  uint32_t count = 0;
};

std::vector<Offer> OffersOf(const Node& node) {
  std::vector<Offer> offers;
  for (const auto& [resource, count] : node.devices) {
    if (count > 0 && resource.starts_with(kMigPrefix))
      offers.push_back({resource.substr(kMigPrefix.size()), count});
  }
  return offers;
}

const PartitionProfile* ProfileOf(const PartitionLayout& layout, const std::string& name) {
  const auto found = std::ranges::find(layout.profiles, name, &PartitionProfile::name);
  return found == layout.profiles.end() ? nullptr : &*found;
}

// The known layout that has all of these profiles; of several, the one that is named after the kind.
const PartitionLayout* LayoutWith(const std::vector<Offer>& offers, std::string_view kind) {
  const PartitionLayout* first = nullptr;
  for (const std::string_view name : scheduler::KnownLayoutNames()) {
    const PartitionLayout* const layout = scheduler::FindKnownLayout(name);
    if (!std::ranges::all_of(offers, [&](const Offer& offer) { return ProfileOf(*layout, offer.profile); }))
      continue;
    if (!kind.empty() && fmt::format("-{}-", name).find(fmt::format("-{}-", kind)) != std::string::npos)
      return layout;
    if (first == nullptr) first = layout;
  }
  return first;
}

// The devices of a node, for the planner.
struct NodeDevices {
  std::string kind{};
  uint32_t count = 0;
  int64_t memory_mib = 0;
  std::optional<PartitionLayout> layout{};
};

// How many devices these instances fill, and the layout with only their profiles, each in as many places of a device as
// it has instances. Absent: no number of equally partitioned devices has just these instances.
std::optional<NodeDevices> AsCut(const std::string& kind, const std::vector<Offer>& offers,
                                 const PartitionLayout& known) {
  uint32_t compute = 0;
  uint32_t slots = 0;
  for (const Offer& offer : offers) {
    const PartitionProfile& profile = *ProfileOf(known, offer.profile);
    compute += offer.count * profile.compute;
    slots += offer.count * profile.slots;
  }
  NodeDevices out;
  out.count =
      std::max((compute + known.compute - 1) / known.compute, (slots + known.slots - 1) / known.slots);
  PartitionLayout layout{.compute = known.compute, .slots = known.slots};
  std::string name = kind + "-mig";
  if (offers.size() == 1) {
    layout.profiles.push_back(*ProfileOf(known, offers.front().profile));
    name += "-" + offers.front().profile;
  } else {
    std::vector<std::pair<PartitionProfile, uint32_t>> largest_first;
    for (const Offer& offer : offers) {
      const uint32_t each = (offer.count + out.count - 1) / out.count;
      largest_first.emplace_back(*ProfileOf(known, offer.profile), each);
      name += fmt::format("{}{}x{}", name.ends_with("-mig") ? "-" : "+", each, offer.profile);
    }
    std::ranges::sort(largest_first, {}, [](const auto& entry) {
      return std::pair(-int{entry.first.slots}, std::string_view(entry.first.name));
    });
    std::set<uint32_t> taken;
    for (auto& [profile, each] : largest_first) {
      std::vector<uint8_t> starts;
      for (const uint8_t start : profile.starts) {
        if (starts.size() == each) break;
        bool free = true;
        for (uint32_t slot = start; slot < uint32_t{start} + profile.slots; ++slot)
          free = free && !taken.contains(slot);
        if (!free) continue;
        for (uint32_t slot = start; slot < uint32_t{start} + profile.slots; ++slot) taken.insert(slot);
        starts.push_back(start);
      }
      if (starts.size() < each) return std::nullopt;
      profile.starts = std::move(starts);
      layout.profiles.push_back(std::move(profile));
    }
  }
  layout.name = name;
  out.kind = std::move(name);
  out.layout = std::move(layout);
  return out;
}

NodeDevices DevicesOf(const Node& node, const DeviceTable& table, std::vector<std::string>& left_out) {
  NodeDevices out;
  const std::vector<Offer> offers = OffersOf(node);
  if (const DeviceResource* const row = table.RowOf(node)) {
    out.kind = KindOf(node, *row);
    out.count = node.devices.at(row->resource);
    out.memory_mib = MemoryOf(node, *row);
    if (!offers.empty()) {
      left_out.push_back(
          fmt::format("MIG instances of node {}: it has whole devices too, which are used", node.name));
    }
  } else if (!offers.empty()) {
    const DeviceResource nvidia{.resource = "nvidia.com/gpu"};
    const std::string kind = KindOf(node, nvidia);
    const PartitionLayout* const known = LayoutWith(offers, kind);
    std::optional<NodeDevices> cut = known == nullptr ? std::nullopt : AsCut(kind, offers, *known);
    if (cut) {
      out = *std::move(cut);
      out.memory_mib = MemoryOf(node, nvidia);
    } else {
      left_out.push_back(fmt::format(
          "MIG instances of node {}: {}", node.name,
          known == nullptr ? "their profiles are in no known layout" : "its devices are not cut alike"));
    }
  }
  if (out.count > scheduler::kMaxDevices) {
    left_out.push_back(fmt::format("devices of node {}: it has {} of kind {}, and {} are used", node.name,
                                   out.count, out.kind, scheduler::kMaxDevices));
    out.count = scheduler::kMaxDevices;
  }
  return out;
}

// Types stay few: what the kubelet keeps for itself differs a little from node to node.
int64_t Rounded(int64_t amount, int64_t step) {
  return amount < step ? amount : amount - amount % step;
}

class Builder {
 public:
  explicit Builder(const Discovery& how) : how_(how) {}

  void Add(const Node& node, NodeDevices has) {
    scheduler::Node out{.name = node.name};
    if (has.count > 0) {
      const std::optional<scheduler::KindId> kind = KindFor(has, node.name);
      out.type = TypeFor(node, kind ? has : NodeDevices(), kind.value_or(0));
    } else {
      out.type = TypeFor(node, has, 0);
    }
    for (const auto& [label, of] : how_.labels) {
      if (std::string value = LabelOf(node, of); !value.empty()) out.labels[label] = std::move(value);
    }
    Path path;
    for (size_t i = how_.topology.size(); i-- > 0;) {
      std::string value = FirstLabelOf(node, how_.topology[i].labels);
      if (!value.empty()) path.emplace_back(i, std::move(value));
    }
    for (size_t depth = 1; depth <= path.size(); ++depth)
      domains_.emplace(Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(depth)), 0);
    paths_.push_back(std::move(path));
    out_.cluster.nodes.push_back(std::move(out));
  }

  Discovered Take() {
    BuildFabric();
    return std::move(out_);
  }

  std::vector<std::string>& left_out() { return out_.left_out; }

 private:
  // The domains that a node is in, from the widest to the nearest: index of the level, and the label's value.
  using Path = std::vector<std::pair<size_t, std::string>>;

  std::optional<scheduler::KindId> KindFor(NodeDevices& has, const std::string& node) {
    Cluster& cluster = out_.cluster;
    const auto known = std::ranges::find(cluster.kinds, has.kind, &scheduler::DeviceKind::name);
    if (known != cluster.kinds.end()) {
      // The smallest device of the kind decides how much memory a run may rely on.
      if (has.memory_mib > 0 && (known->memory_mib == 0 || has.memory_mib < known->memory_mib))
        known->memory_mib = has.memory_mib;
      if (has.layout && known->layout == scheduler::kNone) known->layout = Keep(*std::move(has.layout));
      return static_cast<scheduler::KindId>(known - cluster.kinds.begin());
    }
    if (cluster.kinds.size() == kMostKinds) {
      left_out().push_back(
          fmt::format("devices of node {}: there are {} kinds of devices already, and {} is one more", node,
                      kMostKinds, has.kind));
      return std::nullopt;
    }
    scheduler::DeviceKind kind{.name = has.kind, .memory_mib = has.memory_mib};
    if (has.layout) kind.layout = Keep(*std::move(has.layout));
    cluster.kinds.push_back(std::move(kind));
    return static_cast<scheduler::KindId>(cluster.kinds.size() - 1);
  }

  uint32_t Keep(PartitionLayout layout) {
    out_.cluster.layouts.push_back(std::move(layout));
    return static_cast<uint32_t>(out_.cluster.layouts.size() - 1);
  }

  scheduler::TypeId TypeFor(const Node& node, const NodeDevices& has, scheduler::KindId kind) {
    constexpr int64_t kCore = 1000;
    constexpr int64_t kGib = 1024;
    scheduler::NodeType type{.cpu_milli = Rounded(node.cpu_milli, kCore),
                             .memory_mib = Rounded(node.memory_mib, kGib),
                             .kind = kind,
                             .devices = static_cast<uint8_t>(has.count)};
    const auto [at, added] =
        types_.try_emplace(std::tuple(kind, type.devices, type.cpu_milli, type.memory_mib),
                           static_cast<scheduler::TypeId>(out_.cluster.types.size()));
    if (!added) return at->second;
    type.name =
        fmt::format("{}{}-cpu-{}-gib", has.count == 0 ? "" : fmt::format("{}x{}-", has.count, has.kind),
                    type.cpu_milli / kCore, type.memory_mib / kGib);
    out_.cluster.types.push_back(std::move(type));
    return at->second;
  }

  // Levels without a domain are left out. A value that occurs in several domains is named together with the domains above
  // it.
  void BuildFabric() {
    scheduler::Fabric& fabric = out_.cluster.fabric;
    std::set<size_t> used;
    std::map<std::string_view, int> named;
    for (const auto& [path, id] : domains_) {
      used.insert(path.back().first);
      ++named[path.back().second];
    }
    std::map<size_t, uint8_t> level_of;
    for (const size_t level : used) {
      level_of[level] = static_cast<uint8_t>(fabric.levels.size());
      fabric.levels.push_back(how_.topology[level].level);
    }
    const auto root = static_cast<uint8_t>(fabric.levels.size());
    fabric.levels.emplace_back(kRoot);
    fabric.domains.push_back({.name = std::string(kRoot), .level = root});
    // In the order of the map a domain comes after the one above it.
    for (auto& [path, id] : domains_) {
      id = static_cast<scheduler::DomainId>(fabric.domains.size());
      scheduler::DomainId parent = 0;
      if (path.size() > 1) parent = domains_.at(Path(path.begin(), path.end() - 1));
      std::string name = path.back().second;
      if (named[name] > 1 && parent != 0) name = fmt::format("{}/{}", fabric.domains[parent].name, name);
      fabric.domains.push_back(
          {.name = std::move(name), .level = level_of[path.back().first], .parent = parent});
    }
    for (size_t n = 0; n < paths_.size(); ++n)
      out_.cluster.nodes[n].domain = paths_[n].empty() ? 0 : domains_.at(paths_[n]);
  }

  const Discovery& how_;
  Discovered out_;
  std::map<std::tuple<scheduler::KindId, uint8_t, int64_t, int64_t>, scheduler::TypeId> types_;
  std::map<Path, scheduler::DomainId> domains_;
  std::vector<Path> paths_;  // by node
};

}  // namespace

std::vector<TopologyLevel> DefaultTopology() {
  return {{"nvlink",
           {"nvidia.com/gpu.clique", "accelerator.topograph.run/domain",
            "network.topology.nvidia.com/accelerator"}},
          {"rack", {"topology.kubernetes.io/rack"}},
          {"leaf",
           {"fabric.topograph.run/tier-0", "network.topology.nvidia.com/leaf",
            "cloud.google.com/gce-topology-subblock", "topology.k8s.aws/network-node-layer-3"}},
          {"spine",
           {"fabric.topograph.run/tier-1", "network.topology.nvidia.com/spine",
            "cloud.google.com/gce-topology-block", "topology.k8s.aws/network-node-layer-2"}},
          {"core",
           {"fabric.topograph.run/tier-2", "network.topology.nvidia.com/core",
            "topology.k8s.aws/network-node-layer-1"}},
          {"zone", {"topology.kubernetes.io/zone"}}};
}

Discovered Discover(const std::map<std::string, Node>& nodes, const std::map<std::string, HeldOnNode>& held,
                    const DeviceTable& table, const Discovery& how) {
  Builder builder(how);
  bool raised = false;
  for (const auto& [name, node] : nodes) {
    NodeDevices has = DevicesOf(node, table, builder.left_out());
    const auto holds = held.find(name);
    if (holds != held.end() && holds->second.devices > has.count) {
      if (has.count == 0) has.kind = holds->second.kind;
      if (has.kind == holds->second.kind) {
        has.count = holds->second.devices;
        raised = true;
      }
    }
    builder.Add(node, std::move(has));
  }
  Discovered out = builder.Take();
  out.raised = raised;
  return out;
}

}  // namespace plugins::launchers::kubernetes
