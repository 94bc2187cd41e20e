#include "plugins/launchers/slurm/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace plugins::launchers::slurm {
namespace {

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const std::string& KindOf(const Gres& gres) {
  return gres.type.empty() ? gres.name : gres.type;
}

class Builder {
 public:
  Builder(const ViewOptions& options, View& view) : options_(options), cluster_(view.cluster), view_(view) {}

  void Add(const Node& from) {
    if (!options_.partition.empty() && !Has(from.partitions, options_.partition)) return;
    Shape shape{from.cpus, from.memory_mib, {}, 0};
    for (const Gres& gres : from.gres) {
      if (!Has(options_.gres, gres.name) || gres.count == 0) continue;
      if (shape.devices > 0) {
        LeaveOut(fmt::format("{} of node {}: a node's devices are of one kind", KindOf(gres), from.name));
      } else if (gres.count > scheduler::kMaxDevices) {
        LeaveOut(fmt::format("{} of node {}: {} devices, at most {} fit", KindOf(gres), from.name, gres.count,
                             scheduler::kMaxDevices));
      } else {
        shape.kind = KindOf(gres);
        shape.devices = static_cast<uint8_t>(gres.count);
      }
    }
    const std::optional<scheduler::TypeId> type = TypeOf(shape, from.name);
    if (!type) return;
    scheduler::Node node;
    node.name = from.name;
    node.type = *type;
    node.health = HealthOf(from);
    ids_[from.name] = static_cast<scheduler::NodeId>(cluster_.nodes.size());
    kind_of_.push_back(shape.kind);
    cluster_.nodes.push_back(std::move(node));
    taken_.emplace_back();
  }

  // The holdings of a job; places that Slurm does not name are left for Fill().
  Occupant Read(const Job& job, bool ours) {
    Occupant occupant{.job = job.id,
                      .name = job.name,
                      .user = job.user,
                      .partition = job.partition,
                      .qos = job.qos,
                      .ours = ours,
                      .preemptible = !ours && (Has(options_.preemptible_partitions, job.partition) ||
                                               Has(options_.preemptible_qos, job.qos)),
                      .started = job.started,
                      .ends = job.ends,
                      .holds = {}};
    const auto share = static_cast<int64_t>(std::max<size_t>(job.nodes.size(), 1));
    for (size_t i = 0; i < job.nodes.size(); ++i) {
      const auto id = ids_.find(job.nodes[i]);
      if (id == ids_.end()) continue;
      NodeShare holding{.node = id->second,
                        .devices = {},
                        .cpu_milli = (int64_t{job.cpus} * 1000 + share - 1) / share,
                        .memory_mib = (job.memory_mib + share - 1) / share};
      uint32_t unnamed = 0;
      for (const Gres& gres : i < job.gres.size() ? job.gres[i] : std::vector<Gres>()) {
        if (!Has(options_.gres, gres.name) || KindOf(gres) != kind_of_[id->second]) continue;
        for (const uint8_t place : gres.places) Take(holding, place);
        if (gres.places.empty()) unnamed += gres.count;
      }
      if (unnamed > 0) unnamed_.push_back({view_.occupants.size(), occupant.holds.size(), unnamed});
      occupant.holds.push_back(std::move(holding));
    }
    return occupant;
  }

  void Fill() {
    for (const auto& [occupant, index, count] : unnamed_) {
      NodeShare& holding = view_.occupants[occupant].holds[index];
      const uint8_t devices = cluster_.type_of(holding.node).devices;
      const size_t before = holding.devices.size();
      for (uint8_t place = 0; place < devices && holding.devices.size() - before < count; ++place) {
        if (!taken_[holding.node].contains(place)) Take(holding, place);
      }
    }
  }

 private:
  struct Shape {
    uint32_t cpus = 0;
    int64_t memory_mib = 0;
    std::string kind{};
    uint8_t devices = 0;
    auto operator<=>(const Shape&) const = default;
  };
  struct Unnamed {
    size_t occupant;
    size_t holding;
    uint32_t count;
  };

  void LeaveOut(std::string what) { view_.left_out.push_back(std::move(what)); }

  void Take(NodeShare& holding, uint8_t place) {
    if (place >= cluster_.type_of(holding.node).devices) return;
    taken_[holding.node].insert(place);
    holding.devices.push_back(place);
  }

  std::optional<scheduler::TypeId> TypeOf(const Shape& shape, const std::string& node) {
    if (const auto known = types_.find(shape); known != types_.end()) return known->second;
    scheduler::NodeType type;
    type.cpu_milli = int64_t{shape.cpus} * 1000;
    type.memory_mib = shape.memory_mib;
    type.devices = shape.devices;
    type.name = fmt::format("{}-cpus-{}-mib", shape.cpus, shape.memory_mib);
    if (shape.devices > 0) {
      auto kind = std::find_if(cluster_.kinds.begin(), cluster_.kinds.end(),
                               [&shape](const auto& known) { return known.name == shape.kind; });
      if (kind == cluster_.kinds.end()) {
        if (cluster_.kinds.size() == scheduler::kMaxKinds) {
          LeaveOut(fmt::format("node {}: more than {} kinds of device", node, scheduler::kMaxKinds));
          return std::nullopt;
        }
        cluster_.kinds.push_back({.name = shape.kind});
        kind = cluster_.kinds.end() - 1;
      }
      type.kind = static_cast<scheduler::KindId>(kind - cluster_.kinds.begin());
      type.name += fmt::format("-{}-{}", shape.devices, shape.kind);
    }
    if (cluster_.types.size() > UINT16_MAX) {
      LeaveOut(fmt::format("node {}: more than {} shapes of node", node, UINT16_MAX));
      return std::nullopt;
    }
    cluster_.types.push_back(std::move(type));
    return types_[shape] = static_cast<scheduler::TypeId>(cluster_.types.size() - 1);
  }

  const ViewOptions& options_;
  scheduler::Cluster& cluster_;
  View& view_;
  std::map<Shape, scheduler::TypeId> types_;
  std::map<std::string, scheduler::NodeId> ids_;
  std::vector<std::string> kind_of_;      // by node
  std::vector<std::set<uint8_t>> taken_;  // likewise
  std::vector<Unnamed> unnamed_;
};

}  // namespace

scheduler::Health HealthOf(const Node& node) {
  constexpr std::array<std::string_view, 3> kBroken = {"FAIL", "INVALID_REG", "DYNAMIC_FUTURE"};
  constexpr std::array<std::string_view, 6> kLeaving = {"DRAIN",         "MAINTENANCE",   "REBOOT_REQUESTED",
                                                        "REBOOT_ISSUED", "POWERING_DOWN", "RESERVED"};
  constexpr std::array<std::string_view, 3> kSilent = {"NOT_RESPONDING", "POWERED_DOWN", "POWERING_UP"};
  const auto flagged = [&node](const auto& words) {
    return std::any_of(words.begin(), words.end(),
                       [&node](std::string_view word) { return Has(node.flags, word); });
  };
  if (node.state == "down" || node.state == "error" || node.state == "future" || flagged(kBroken)) {
    return scheduler::Health::kQuarantined;
  }
  if (flagged(kLeaving)) return scheduler::Health::kDraining;
  if (node.state == "unknown" || flagged(kSilent)) return scheduler::Health::kSuspect;
  return scheduler::Health::kHealthy;
}

bool IsDrained(const Node& node) {
  return HealthOf(node) == scheduler::Health::kDraining &&
         (Has(node.flags, "DRAIN") || Has(node.flags, "REBOOT_REQUESTED"));
}

View ViewOf(const std::vector<Node>& nodes, const std::vector<Job>& jobs, const ViewOptions& options,
            const std::function<bool(const Job&)>& is_ours) {
  View view;
  Builder builder(options, view);
  view.cluster.nodes.reserve(nodes.size());
  for (const Node& node : nodes) builder.Add(node);
  view.cluster.fabric = scheduler::FlatFabric();
  for (const Job& job : jobs) {
    if (job.nodes.empty() || IsOver(job.state)) continue;
    Occupant occupant = builder.Read(job, is_ours(job));
    if (!occupant.holds.empty()) view.occupants.push_back(std::move(occupant));
  }
  builder.Fill();
  std::sort(view.occupants.begin(), view.occupants.end(),
            [](const Occupant& a, const Occupant& b) { return a.job < b.job; });
  return view;
}

}  // namespace plugins::launchers::slurm
