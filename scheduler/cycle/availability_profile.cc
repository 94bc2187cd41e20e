#include "scheduler/cycle/availability_profile.h"

#include <algorithm>
#include <bit>

namespace scheduler {
namespace {

// Nodes in groups: a group is the largest domain that the job may span. If it may span all domains, all nodes are in
// group 0.
class Groups {
 public:
  Groups(const Cluster& cluster, const Topology& wish) : cluster_(&cluster) {
    if (!wish.required || wish.level.empty()) return;
    by_node_ = wish.level == "node";
    const auto at = std::ranges::find(cluster.fabric.levels, wish.level);
    top_ = static_cast<int>(at - cluster.fabric.levels.begin());
  }

  uint32_t size() const {
    if (by_node_) return static_cast<uint32_t>(cluster_->nodes.size());
    return top_ < 0 ? 1 : static_cast<uint32_t>(cluster_->fabric.domains.size());
  }
  uint32_t Of(NodeId node) const {
    if (by_node_) return node;
    if (top_ < 0) return 0;
    const std::vector<Domain>& domains = cluster_->fabric.domains;
    DomainId domain = cluster_->nodes[node].domain;
    while (domains[domain].parent != kNone && domains[domains[domain].parent].level <= top_) {
      domain = domains[domain].parent;
    }
    return domain;
  }

 private:
  const Cluster* cluster_;
  bool by_node_ = false;
  int top_ = -1;
};

}  // namespace

AvailabilityProfile::AvailabilityProfile(const ClusterState& state, const ShapeTable& shapes,
                                         const Query& query, const std::vector<Release>& releases,
                                         const std::vector<Reservation>& others)
    : state_(&state),
      releases_(&releases),
      others_(&others),
      run_(query.run),
      at_(query.from),
      closes_(others.size(), false),
      one_per_node_(query.entry.job.anti_affinity) {
  for (const Reservation& other : others) ends_.push_back(std::max(other.end, query.from));
  std::ranges::sort(ends_);
  ReadRoles(shapes, query.entry);
  ReadNodes(query);
}

void AvailabilityProfile::ReadRoles(const ShapeTable& shapes, const JobEntry& entry) {
  const std::vector<NodeType>& types = state_->cluster().types;
  for (size_t r = 0; r < entry.shapes.size(); ++r) {
    Role role{.least = entry.job.roles[r].min_count};
    role.devices.resize(types.size(), 0);
    bool counts = role.least > 0;
    for (const ShapeId id : entry.shapes[r]) {
      const Shape& shape = shapes[id];
      counts &= shape.count > 0;
      for (size_t t = 0; t < types.size(); ++t) {
        if ((shape.kinds >> types[t].kind & 1) == 0) continue;
        role.devices[t] = role.devices[t] == 0 ? shape.count : std::min(role.devices[t], shape.count);
      }
    }
    if (counts) roles_.push_back(std::move(role));
  }
}

void AvailabilityProfile::ReadNodes(const Query& query) {
  const Cluster& cluster = state_->cluster();
  const Groups groups(cluster, query.entry.topology);
  slots_.resize(groups.size() * roles_.size());
  lacking_.resize(groups.size(), static_cast<uint32_t>(roles_.size()));
  open_ = roles_.empty() ? groups.size() : 0;
  nodes_.resize(cluster.nodes.size());
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    OnNode& on = nodes_[node];
    on.group = groups.Of(node);
    on.free = static_cast<uint16_t>(state_->node(node).whole_count());
    on.most = state_->node(node).devices;
    const bool takes_work = state_->health(node) == Health::kHealthy;
    on.closed = takes_work && (query.keep_off == nullptr || !query.keep_off->Has(node)) ? 0 : 1;
    Count(node, true);
  }
}

// Adds the slots of an open node to those of its group, or subtracts them.
void AvailabilityProfile::Count(NodeId node, bool adds) {
  const OnNode& on = nodes_[node];
  if (on.closed > 0) return;
  const TypeId type = state_->cluster().nodes[node].type;
  for (size_t r = 0; r < roles_.size(); ++r) {
    const Role& role = roles_[r];
    if (role.devices[type] == 0) continue;
    uint32_t here = on.free / role.devices[type];
    if (one_per_node_) here = std::min(here, 1u);
    uint32_t& slots = slots_[on.group * roles_.size() + r];
    const bool lacked = slots < role.least;
    slots = adds ? slots + here : slots - here;
    const bool lacks = slots < role.least;
    if (lacked == lacks) continue;
    uint32_t& lacking = lacking_[on.group];
    if (lacks) {
      open_ -= lacking++ == 0 ? 1 : 0;
    } else {
      open_ += --lacking == 0 ? 1 : 0;
    }
  }
}

void AvailabilityProfile::Free(JobIndex job) {
  for (const MemberId id : state_->of(job)) {
    const Holding& holding = state_->member(id).holding;
    if (holding.devices == 0) continue;
    OnNode& on = nodes_[holding.node];
    Count(holding.node, false);
    on.free = static_cast<uint16_t>(std::min<int>(on.free + std::popcount(holding.devices), on.most));
    Count(holding.node, true);
  }
}

// A reservation closes its nodes for starts from `run` before its own start to its end.
void AvailabilityProfile::UpdateClosedNodes() {
  if (at_ < changes_at_) return;
  changes_at_ = conf::TimePoint::max();
  for (size_t i = 0; i < closes_.size(); ++i) {
    const Reservation& other = (*others_)[i];
    const conf::TimePoint from = other.start - run_ + conf::Duration(1);
    const bool closes = from <= at_ && at_ < other.end;
    if (at_ < other.end) changes_at_ = std::min(changes_at_, closes ? other.end : from);
    if (closes == closes_[i]) continue;
    closes_[i] = closes;
    for (const NodeId node : other.nodes) {
      Count(node, false);
      nodes_[node].closed = static_cast<uint16_t>(nodes_[node].closed + (closes ? 1 : -1));
      Count(node, true);
    }
  }
}

// Goes to the next moment from which more is possible.
bool AvailabilityProfile::Advance() {
  if (begun_) {
    const bool more_releases = next_release_ < releases_->size();
    const bool more_ends = next_end_ < ends_.size();
    if (!more_releases && !more_ends) return false;
    at_ = std::min(more_releases ? (*releases_)[next_release_].at : conf::TimePoint::max(),
                   more_ends ? ends_[next_end_] : conf::TimePoint::max());
  }
  begun_ = true;
  while (next_release_ < releases_->size() && (*releases_)[next_release_].at <= at_) {
    Free((*releases_)[next_release_++].job);
  }
  while (next_end_ < ends_.size() && ends_[next_end_] <= at_) ++next_end_;
  UpdateClosedNodes();
  return true;
}

std::optional<conf::TimePoint> AvailabilityProfile::Next(conf::TimePoint before) {
  while (Advance() && at_ < before) {
    if (open_ > 0) return at_;
  }
  return std::nullopt;
}

}  // namespace scheduler
