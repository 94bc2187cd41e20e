#include "scheduler/cluster_figures.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "scheduler/metrics.h"

namespace scheduler {
namespace {

// A learned mix may hold thousands of shapes. The rare ones change the sum little, and this bounds its cost.
constexpr size_t kMostShapes = 64;

DemandMix MostFrequent(const DemandMix& mix) {
  if (mix.items.size() <= kMostShapes) return mix;
  std::vector<std::pair<double, size_t>> order;  // the index breaks ties
  for (size_t i = 0; i < mix.items.size(); ++i) order.emplace_back(-mix.items[i].share, i);
  std::ranges::nth_element(order, order.begin() + kMostShapes);
  order.resize(kMostShapes);
  DemandMix most{.items = {}, .version = mix.version};
  double sum = 0;
  for (const auto& [share, index] : order) sum -= share;
  for (const auto& [share, index] : order) most.items.push_back({mix.items[index].shape, -share / sum});
  return most;
}

void CountNodes(const ClusterState& state, ClusterFigures& out) {
  const Cluster& cluster = state.cluster();
  for (const DeviceKind& kind : cluster.kinds) out.kinds.push_back({.kind = kind.name});
  for (NodeId node = 0; node < cluster.nodes.size(); ++node) {
    ++out.nodes[static_cast<size_t>(state.health(node))];
    const NodeType& type = cluster.type_of(node);
    if (type.devices == 0) continue;
    KindFigures& of = out.kinds[type.kind];
    int64_t held = 0;
    for (const MemberId member : state.on(node))
      held += HeldMilli(state.member(member).holding, state.view_of(node));
    const int64_t all = int64_t{type.devices} * kWholeDevice;
    const int64_t free =
        state.health(node) == Health::kHealthy ? FreeMilli(state.node(node), state.view_of(node)) : 0;
    of.held += held;
    of.free += free;
    of.unused += std::max<int64_t>(all - held - free, 0);
  }
}

int64_t ShareOf(const QueueTree& tree, QueueIndex queue, size_t kinds) {
  int64_t sum = 0;
  for (size_t kind = 0; kind < kinds; ++kind) {
    if (tree.SharedBy(static_cast<KindId>(kind)) == kAnyKind) return tree.share(queue, kAnyKind);
    sum += tree.share(queue, static_cast<KindId>(kind));
  }
  return sum;
}

void ListQueues(const QueueTree& tree, size_t kinds, ClusterFigures& out) {
  std::map<QueueIndex, std::vector<QueueIndex>> children;  // by parent
  for (QueueIndex q = 0; q < tree.size(); ++q) {
    const Standing standing = tree.standing(q, kAnyKind);
    const QueueIndex parent = tree.parent(q);
    children[parent].push_back(q);
    out.queues.push_back({.name = tree.name(q),
                          .parent = parent == kNone || parent == tree.root() ? "" : tree.name(parent),
                          .deserved = standing.deserved,
                          .share = ShareOf(tree, q, kinds),
                          .used = standing.allocated,
                          .asked = tree.requested(q, kAnyKind),
                          .borrowed = std::max<int64_t>(standing.allocated - standing.deserved, 0)});
  }
  for (const auto& [parent, queues] : children) {
    std::vector<Standing> neighbours;
    for (const QueueIndex q : queues) neighbours.push_back(tree.standing(q, kAnyKind));
    const std::vector<int64_t> lent = LentBy(neighbours);
    for (size_t i = 0; i < queues.size(); ++i) out.queues[queues[i]].lent = lent[i];
  }
}

void CountJobs(const Planner& planner, conf::TimePoint now, ClusterFigures& out) {
  const ClusterState& state = planner.state();
  const QueueTree& tree = planner.queues();
  std::map<std::string_view, TenantFigures> tenants;
  for (JobIndex index = 0; index < planner.jobs().bound(); ++index) {
    const JobEntry& entry = planner.jobs()[index];
    if (!entry.alive || entry.phase == Phase::kSuspended) continue;
    const bool waits = entry.phase == Phase::kPending;
    const conf::Duration waited =
        waits ? std::max(now - entry.job.submitted, conf::Duration::zero()) : conf::Duration();
    if (waits) out.waiting += entry.device_milli;
    for (QueueIndex q = entry.queue; q != kNone && q != tree.root(); q = tree.parent(q)) {
      QueueFigures& of = out.queues[q];
      ++(waits ? of.waiting : of.running);
      of.oldest_wait = std::max(of.oldest_wait, waited);
    }
    if (entry.job.tenant.empty()) continue;
    TenantFigures& of = tenants[entry.job.tenant];
    ++(waits ? of.waiting : of.running);
    for (const MemberId id : state.of(index)) {
      const Holding& holding = state.member(id).holding;
      of.held += HeldMilli(holding, state.view_of(holding.node));
    }
  }
  for (auto& [name, of] : tenants) {
    of.tenant = name;
    out.tenants.push_back(std::move(of));
  }
}

}  // namespace

std::vector<int64_t> LentBy(const std::vector<Standing>& neighbours) {
  int64_t borrowed = 0;
  int64_t unused = 0;
  for (const Standing& of : neighbours) {
    borrowed += std::max<int64_t>(of.allocated - of.deserved, 0);
    unused += std::max<int64_t>(of.deserved - of.allocated, 0);
  }
  std::vector<int64_t> lent;
  for (const Standing& of : neighbours) {
    const int64_t own = std::max<int64_t>(of.deserved - of.allocated, 0);
    lent.push_back(unused == 0 ? 0 : own * std::min(borrowed, unused) / unused);
  }
  return lent;
}

ClusterFigures FiguresOf(const Planner& planner, conf::TimePoint now) {
  const ClusterState& state = planner.state();
  ClusterFigures out{.gar = AllocationRate(state.totals()),
                     .gfr = FragmentationRate(state.totals()),
                     .fragmentation = FragmentedShare(state, MostFrequent(planner.mix())),
                     .capacity = state.totals().capacity_milli,
                     .held = state.totals().allocated_milli};
  CountNodes(state, out);
  ListQueues(planner.queues(), state.cluster().kinds.size(), out);
  CountJobs(planner, now, out);
  return out;
}

}  // namespace scheduler
