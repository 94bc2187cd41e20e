#include "scheduler/cluster_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace scheduler {
namespace {

using Ids = std::map<std::string_view, NodeId>;

Ids IdsOf(const Cluster& cluster) {
  Ids ids;
  for (NodeId n = 0; n < cluster.nodes.size(); ++n) ids.emplace(cluster.nodes[n].name, n);
  return ids;
}

bool SameLayout(const PartitionLayout& a, const PartitionLayout& b) {
  return a.compute == b.compute && a.slots == b.slots &&
         std::ranges::equal(a.profiles, b.profiles, [](const PartitionProfile& x, const PartitionProfile& y) {
           return x.name == y.name && x.compute == y.compute && x.slots == y.slots && x.starts == y.starts;
         });
}

bool SameKind(const Cluster& a, KindId of_a, const Cluster& b, KindId of_b) {
  const DeviceKind& x = a.kinds[of_a];
  const DeviceKind& y = b.kinds[of_b];
  if (x.name != y.name || (x.layout == kNone) != (y.layout == kNone)) return false;
  return x.layout == kNone || SameLayout(a.layouts[x.layout], b.layouts[y.layout]);
}

bool SameSize(const NodeType& a, const NodeType& b) {
  return a.cpu_milli == b.cpu_milli && a.memory_mib == b.memory_mib && a.devices == b.devices &&
         a.link_domain == b.link_domain && a.numa == b.numa && a.idle_watts == b.idle_watts;
}

// The names of level and domain, from the node outwards.
std::vector<std::pair<std::string_view, std::string_view>> PlaceOf(const Cluster& cluster, const Node& node) {
  std::vector<std::pair<std::string_view, std::string_view>> place;
  for (DomainId d = node.domain; d != kNone; d = cluster.fabric.domains[d].parent) {
    const Domain& domain = cluster.fabric.domains[d];
    place.emplace_back(cluster.fabric.levels[domain.level], domain.name);
  }
  return place;
}

bool SameNode(const Cluster& a, NodeId of_a, const Cluster& b, NodeId of_b) {
  const Node& x = a.nodes[of_a];
  const Node& y = b.nodes[of_b];
  const NodeType& type_x = a.types[x.type];
  const NodeType& type_y = b.types[y.type];
  if (!SameSize(type_x, type_y) || x.labels != y.labels || PlaceOf(a, x) != PlaceOf(b, y)) return false;
  return type_x.devices == 0 || (SameKind(a, type_x.kind, b, type_y.kind) &&
                                 a.kinds[type_x.kind].memory_mib == b.kinds[type_y.kind].memory_mib);
}

// The kind of a node that keeps its earlier devices. A kind that now has other partitions is another kind.
KindId KindIn(Cluster& to, const Cluster& from, KindId kind) {
  for (KindId k = 0; k < to.kinds.size(); ++k) {
    if (SameKind(to, k, from, kind)) return k;
  }
  DeviceKind copy = from.kinds[kind];
  if (std::ranges::find(to.kinds, copy.name, &DeviceKind::name) != to.kinds.end()) copy.name += "-as-held";
  if (copy.layout != kNone) {
    to.layouts.push_back(from.layouts[copy.layout]);
    copy.layout = static_cast<uint32_t>(to.layouts.size() - 1);
  }
  to.kinds.push_back(std::move(copy));
  return static_cast<KindId>(to.kinds.size() - 1);
}

TypeId TypeIn(Cluster& to, NodeType type) {
  const auto same = std::ranges::find_if(to.types, [&](const NodeType& other) {
    return SameSize(other, type) && (type.devices == 0 || other.kind == type.kind);
  });
  if (same != to.types.end()) return static_cast<TypeId>(same - to.types.begin());
  to.types.push_back(std::move(type));
  return static_cast<TypeId>(to.types.size() - 1);
}

// The type as it was found, with room for the devices, CPU and memory that are held.
NodeType WithUse(const Cluster& to, const NodeType& found, const Cluster& before, const NodeType& had,
                 const NodeUse& use, Cluster& kinds_of) {
  NodeType type = found;
  const auto highest = static_cast<uint8_t>(std::bit_width(use.devices));
  if (highest > 0 && (found.devices == 0 || !SameKind(to, found.kind, before, had.kind))) {
    type = had;
    type.kind = KindIn(kinds_of, before, had.kind);
  } else if (highest > found.devices) {
    type.devices = highest;
    type.link_domain.clear();
    type.numa.clear();
  }
  type.cpu_milli = std::max(type.cpu_milli, use.cpu_milli);
  type.memory_mib = std::max(type.memory_mib, use.memory_mib);
  return type;
}

DomainId RootOf(const Fabric& fabric) {
  const auto root = std::ranges::find(fabric.domains, kNone, &Domain::parent);
  return root == fabric.domains.end() ? 0 : static_cast<DomainId>(root - fabric.domains.begin());
}

}  // namespace

void AddUse(NodeUses& uses, const Holding& holding) {
  if (holding.node == kNone) return;
  NodeUse& use = uses[holding.node];
  use.devices |= holding.devices;
  use.cpu_milli += holding.cpu_milli;
  use.memory_mib += holding.memory_mib;
}

ClusterChange ChangeCluster(const Cluster& before, const Cluster& found, const NodeUses& uses) {
  ClusterChange out;
  out.cluster = found;
  out.cluster.resources = before.resources;  // no launcher finds them
  out.cluster.nodes.clear();
  out.places.assign(before.nodes.size(), kNone);
  const Ids had = IdsOf(before);
  const Ids have = IdsOf(found);
  std::set<std::string_view> names;
  for (const auto& [name, id] : have) names.insert(name);
  for (const auto& [id, use] : uses) {
    if (id < before.nodes.size()) names.insert(before.nodes[id].name);
  }
  for (const std::string_view name : names) {
    const auto was = had.find(name);
    const auto is = have.find(name);
    const auto use = was == had.end() ? uses.end() : uses.find(was->second);
    Node node = is != have.end() ? found.nodes[is->second] : before.nodes[was->second];
    if (is == have.end()) {
      NodeType type = before.types[node.type];
      if (type.devices > 0) type.kind = KindIn(out.cluster, before, type.kind);
      node.type = TypeIn(out.cluster, std::move(type));
      node.domain = RootOf(out.cluster.fabric);
      out.held_back.emplace_back(name);
    } else if (use != uses.end()) {
      const TypeId wanted = node.type;
      NodeType type =
          WithUse(found, found.types[wanted], before, before.type_of(was->second), use->second, out.cluster);
      node.type = TypeIn(out.cluster, std::move(type));
      const NodeType& kept = out.cluster.types[node.type];
      if (!SameSize(kept, found.types[wanted]) || (kept.devices > 0 && kept.kind != found.types[wanted].kind))
        out.held_back.emplace_back(name);
    }
    const auto id = static_cast<NodeId>(out.cluster.nodes.size());
    out.cluster.nodes.push_back(std::move(node));
    if (was == had.end()) {
      out.joined.emplace_back(name);
    } else {
      out.places[was->second] = id;
      if (!SameNode(before, was->second, out.cluster, id)) out.changed.emplace_back(name);
    }
  }
  for (const auto& [name, id] : had) {
    if (out.places[id] == kNone) out.left.emplace_back(name);
  }
  return out;
}

void ApplyTo(Snapshot& snapshot, const ClusterChange& change) {
  const auto move = [&](std::vector<MemberAt>& members) {
    for (MemberAt& member : members) member.holding.node = change.places[member.holding.node];
  };
  for (JobState& job : snapshot.jobs) {
    move(job.members);
    move(job.leaving);
    move(job.job.pinned);
  }
  if (!snapshot.health.empty()) {
    std::vector<NodeHealth> health(change.cluster.nodes.size());
    for (NodeId n = 0; n < change.places.size() && n < snapshot.health.size(); ++n) {
      if (change.places[n] == kNone) continue;
      NodeHealth& of = health[change.places[n]];
      of = std::move(snapshot.health[n]);
      const uint32_t there = (uint32_t{1} << change.cluster.type_of(change.places[n]).devices) - 1;
      of.broken_devices &= there;
    }
    snapshot.health = std::move(health);
  }
  snapshot.reserved.clear();
  const Cluster& before = snapshot.cluster;
  const bool same_numbers =
      std::ranges::equal(before.kinds, change.cluster.kinds, {}, &DeviceKind::name, &DeviceKind::name) &&
      std::ranges::equal(before.layouts, change.cluster.layouts, SameLayout);
  if (!same_numbers) snapshot.demand = {};
  snapshot.cluster = change.cluster;
}

}  // namespace scheduler
