#include "scheduler/state/cluster_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <string>

namespace scheduler {
namespace {

template <class T>
void EraseUnordered(std::vector<T>& values, T value) {
  const auto at = std::ranges::find(values, value);
  assert(at != values.end());
  *at = values.back();
  values.pop_back();
}

}  // namespace

ClusterState::ClusterState(const Cluster& cluster, bool tell_sizes_apart)
    : cluster_(&cluster),
      tell_sizes_apart_(tell_sizes_apart),
      classes_(cluster.nodes.size()),
      changed_at_(cluster.nodes.size(), kNone) {
  for (const NodeType& type : cluster.types) near_.emplace_back(type);
  for (size_t t = 0; t < cluster.types.size(); ++t) {
    views_.push_back(ViewOf(cluster, static_cast<TypeId>(t)));
    views_.back().near = &near_[t];
  }
  const std::vector<Domain>& domains = cluster.fabric.domains;
  children_.resize(domains.size());
  by_level_.resize(cluster.fabric.levels.size());
  counters_.resize(domains.size());
  range_.resize(domains.size());
  direct_.resize(domains.size());
  for (DomainId d = 0; d < domains.size(); ++d) {
    by_level_[domains[d].level].push_back(d);
    if (domains[d].parent != kNone) children_[domains[d].parent].push_back(d);
    has_power_budgets_ |= domains[d].power_budget_watts > 0;
  }
  std::vector<std::vector<NodeId>> directly(domains.size());
  for (NodeId n = 0; n < cluster.nodes.size(); ++n) directly[cluster.nodes[n].domain].push_back(n);
  const auto lay_out = [&](const auto& self, DomainId d) -> void {
    range_[d].first = static_cast<uint32_t>(fabric_order_.size());
    direct_[d] = static_cast<uint32_t>(directly[d].size());
    fabric_order_.insert(fabric_order_.end(), directly[d].begin(), directly[d].end());
    for (const DomainId child : children_[d]) self(self, child);
    range_[d].second = static_cast<uint32_t>(fabric_order_.size());
  };
  for (DomainId d = 0; d < domains.size(); ++d) {
    if (domains[d].parent == kNone) lay_out(lay_out, d);
  }

  whole_by_kind_.resize(std::max<size_t>(cluster.kinds.size(), 1));
  nodes_by_free_.resize(whole_by_kind_.size() * (kMaxDevices + 1));
  for (const DeviceKind& kind : cluster.kinds) kind_watts_.push_back({kind.idle_watts, kind.busy_watts});
  on_.resize(cluster.nodes.size());
  milliwatts_.resize(cluster.nodes.size());
  fixed_of_.resize(cluster.nodes.size());
  for (NodeId n = 0; n < cluster.nodes.size(); ++n) {
    nodes_.push_back(EmptyNode(cluster, n));
    health_.push_back(cluster.nodes[n].health);
    has_power_budgets_ |= cluster.nodes[n].power_budget_watts > 0;
  }
  for (NodeId n = 0; n < cluster.nodes.size(); ++n) {
    fixed_of_[n] = FixedOf(n);
    Count(n, 1);
    Reclass(n);
  }
}

std::span<const NodeId> ClusterState::nodes_under(DomainId domain) const {
  const auto [begin, end] = range_[domain];
  return std::span(fabric_order_).subspan(begin, end - begin);
}

std::span<const MemberId> ClusterState::of(JobIndex job) const {
  const auto at = of_.find(job);
  return at == of_.end() ? std::span<const MemberId>() : std::span<const MemberId>(at->second);
}

StaticId ClusterState::FixedOf(NodeId node) {
  const Node& n = cluster_->nodes[node];
  const bool schedulable = health_[node] == Health::kHealthy;
  for (StaticId id = 0; id < fixed_.size(); ++id) {
    const FixedClass& have = fixed_[id];
    if (have.type == n.type && have.schedulable == schedulable && *have.labels == n.labels) return id;
  }
  fixed_.push_back({n.type, &n.labels, schedulable});
  return static_cast<StaticId>(fixed_.size() - 1);
}

int64_t ClusterState::ModelledMilliwatts(NodeId node) const {
  const NodeType& type = cluster_->type_of(node);
  const NodeState& state = nodes_[node];
  double watts = type.idle_watts;
  for (size_t d = 0; d < state.devices; ++d) {
    const bool busy = state.device[d].free_milli != kWholeDevice;
    watts += busy ? kind_watts_[type.kind].busy : kind_watts_[type.kind].idle;
  }
  return std::llround(watts * 1000);
}

void ClusterState::Count(NodeId node, int sign) {
  const NodeState& state = nodes_[node];
  const TypeView& view = view_of(node);
  const bool schedulable = health_[node] == Health::kHealthy;
  const auto whole = static_cast<uint32_t>(state.whole_count());
  const auto by = static_cast<uint32_t>(sign);  // wraps around to subtract
  const bool empty = state.devices > 0 && whole == state.devices;
  const int64_t free = state.devices > 0 ? FreeMilli(state, view) : 0;
  if (sign > 0) milliwatts_[node] = std::max<int64_t>(ModelledMilliwatts(node) + unmodelled(node), 0);

  for (DomainId d = cluster_->nodes[node].domain; d != kNone; d = cluster_->fabric.domains[d].parent) {
    DomainCounters& counters = counters_[d];
    counters.milliwatts += sign * milliwatts_[node];
    if (!schedulable) continue;
    counters.nodes += by;
    counters.empty_nodes += by * static_cast<uint32_t>(empty);
    counters.whole_devices += by * whole;
    counters.free_milli += sign * free;
  }
  totals_.milliwatts += sign * milliwatts_[node];
  if (!schedulable) return;
  totals_.schedulable_nodes += by;
  if (state.devices == 0) return;
  int64_t capacity = 0;
  for (size_t d = 0; d < state.devices; ++d) capacity += state.device[d].healthy ? kWholeDevice : 0;
  totals_.device_nodes += by;
  totals_.capacity_milli += sign * capacity;
  totals_.allocated_milli += sign * (capacity - free);
  totals_.fragmented_nodes += by * static_cast<uint32_t>(free > 0 && free < capacity);
  whole_by_kind_[view.type->kind] += by * whole;
  nodes_by_free_[view.type->kind * (kMaxDevices + size_t{1}) + whole] += by;
}

void ClusterState::Reclass(NodeId node) {
  const TypeId type = cluster_->nodes[node].type;
  classes_.Move(node, fixed_of_[node], type, nodes_[node], cluster_->types[type].has_topology());
}

void ClusterState::RestoreTenant(NodeId node) {
  NodeState& state = nodes_[node];
  if (state.tenant != kManyTenants && state.isolation == Isolation::kNone) return;
  state.tenant = 0;
  state.isolation = Isolation::kNone;
  for (const MemberId id : on_[node]) {
    const Holding& holding = members_[id].holding;
    state.tenant = state.tenant == 0 || state.tenant == holding.tenant ? holding.tenant : kManyTenants;
    state.isolation = std::max(state.isolation, holding.isolation);
  }
}

void ClusterState::RestoreSizes(NodeId node) {
  if (!tell_sizes_apart_) return;
  nodes_[node].sizes = 0;
  for (const MemberId id : on_[node]) nodes_[node].sizes |= SizeBit(members_[id].holding);
}

void ClusterState::BeginChange(NodeId node, bool loses) {
  uint32_t& at = changed_at_[node];
  if (at == kNone) {
    at = static_cast<uint32_t>(changed_.size());
    changed_.push_back({node});
    Count(node, -1);
  }
  changed_[at].loses |= loses;
}

void ClusterState::Settle() {
  for (const Changed& changed : changed_) {
    if (changed.loses) {
      RestoreTenant(changed.node);
      RestoreSizes(changed.node);
    }
    Count(changed.node, 1);
    Reclass(changed.node);
    changed_at_[changed.node] = kNone;
  }
  changed_.clear();
}

void ClusterState::Place(MemberId id, const Member& member) {
  const NodeId node = member.holding.node;
  members_[id] = member;
  BeginChange(node, false);
  Take(nodes_[node], member.holding, view_of(node));
  if (tell_sizes_apart_) nodes_[node].sizes |= SizeBit(member.holding);
  on_[node].push_back(id);
  MembersOfJob& of = of_[member.job];
  in_job_[id] = static_cast<uint32_t>(of.size());
  of.push_back(id);
  ++member_count_;
}

void ClusterState::Remove(MemberId id) {
  const Member& member = members_[id];
  const NodeId node = member.holding.node;
  BeginChange(node, true);
  Give(nodes_[node], member.holding, view_of(node));
  EraseUnordered(on_[node], id);
  const auto of = of_.find(member.job);
  const MemberId moved = of->second.back();
  of->second[in_job_[id]] = moved;
  in_job_[moved] = in_job_[id];
  of->second.pop_back();
  if (of->second.empty()) of_.erase(of);
  --member_count_;
}

MemberId ClusterState::Assign(const Member& member) {
  MemberId id;
  if (free_members_.empty()) {
    id = static_cast<MemberId>(members_.size());
    members_.emplace_back();
    in_job_.emplace_back();
  } else {
    id = free_members_.back();
    free_members_.pop_back();
  }
  Place(id, member);
  journal_.push_back({id, true, {}});
  return id;
}

void ClusterState::Evict(MemberId id) {
  journal_.push_back({id, false, members_[id]});
  Remove(id);
  free_members_.push_back(id);
}

void ClusterState::EvictJob(JobIndex job) {
  while (!of(job).empty()) Evict(of(job).back());
}

void ClusterState::Undo(size_t mark) {
  while (journal_.size() > mark) {
    const Entry& entry = journal_.back();
    if (entry.assigned) {
      Remove(entry.id);
      free_members_.push_back(entry.id);
    } else {
      assert(free_members_.back() == entry.id);
      free_members_.pop_back();
      Place(entry.id, entry.member);
    }
    journal_.pop_back();
  }
  Settle();
}

double ClusterState::power_headroom(NodeId node) const {
  const Node& n = cluster_->nodes[node];
  double headroom = std::numeric_limits<double>::infinity();
  if (n.power_budget_watts > 0)
    headroom = n.power_budget_watts - static_cast<double>(milliwatts_[node]) / 1000;
  for (DomainId d = n.domain; d != kNone; d = cluster_->fabric.domains[d].parent) {
    const double budget = cluster_->fabric.domains[d].power_budget_watts;
    if (budget > 0)
      headroom = std::min(headroom, budget - static_cast<double>(counters_[d].milliwatts) / 1000);
  }
  return headroom;
}

void ClusterState::SetKindWatts(KindId kind, KindWatts watts) {
  assert(journal_.empty());
  watts.busy = std::max(watts.busy, watts.idle);
  if (kind_watts_[kind] == watts) return;
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    const NodeType& type = cluster_->type_of(node);
    if (type.devices > 0 && type.kind == kind) Count(node, -1);
  }
  kind_watts_[kind] = watts;
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    const NodeType& type = cluster_->type_of(node);
    if (type.devices > 0 && type.kind == kind) Count(node, 1);
  }
}

void ClusterState::SetUnmodelled(NodeId node, int64_t milliwatts) {
  assert(journal_.empty());
  Count(node, -1);
  milliwatts == 0 ? void(unmodelled_.erase(node)) : void(unmodelled_[node] = milliwatts);
  Count(node, 1);
}

int64_t ClusterState::unmodelled(NodeId node) const {
  const auto found = unmodelled_.find(node);
  return found == unmodelled_.end() ? 0 : found->second;
}

void ClusterState::SetDrawn(NodeId node, double watts) {
  SetUnmodelled(node, std::llround(watts * 1000) - ModelledMilliwatts(node));
}

void ClusterState::SetHealth(NodeId node, Health health) {
  assert(journal_.empty());
  Count(node, -1);
  health_[node] = health;
  Count(node, 1);
  fixed_of_[node] = FixedOf(node);
  Reclass(node);
}

void ClusterState::SetDeviceHealth(NodeId node, int device, bool healthy) {
  assert(journal_.empty());
  Count(node, -1);
  scheduler::SetDeviceHealth(nodes_[node], static_cast<size_t>(device), healthy);
  Count(node, 1);
  Reclass(node);
}

void ClusterState::SetOthers(NodeId node, HostAmounts amounts) {
  assert(journal_.empty());
  NodeState& state = nodes_[node];
  const HostAmounts before = others(node);
  state.free_cpu_milli += before.cpu_milli;
  state.free_memory_mib += before.memory_mib;
  amounts = {std::clamp<int64_t>(amounts.cpu_milli, 0, state.free_cpu_milli),
             std::clamp<int64_t>(amounts.memory_mib, 0, state.free_memory_mib)};
  state.free_cpu_milli -= amounts.cpu_milli;
  state.free_memory_mib -= amounts.memory_mib;
  if (amounts == HostAmounts()) {
    others_.erase(node);
  } else {
    others_[node] = amounts;
  }
  Reclass(node);
}

HostAmounts ClusterState::others(NodeId node) const {
  const auto found = others_.find(node);
  return found == others_.end() ? HostAmounts() : found->second;
}

ClusterState::Footprint ClusterState::footprint() const {
  Footprint bytes;
  bytes.nodes = nodes_.capacity() * sizeof(NodeState) + health_.capacity() +
                fixed_of_.capacity() * sizeof(StaticId) + on_.capacity() * sizeof(decltype(on_)::value_type) +
                fabric_order_.capacity() * sizeof(NodeId) + milliwatts_.capacity() * sizeof(int64_t) +
                counters_.capacity() * sizeof(DomainCounters) + classes_.bound() * sizeof(NodeClass) +
                nodes_.size() * sizeof(NodeId);
  bytes.members = members_.capacity() * sizeof(Member) + in_job_.capacity() * sizeof(uint32_t) +
                  of_.capacity() * (sizeof(*of_.begin()) + 1);
  for (const auto& ids : on_) bytes.members += ids.capacity() * sizeof(MemberId);
  for (const auto& [job, ids] : of_) {
    if (ids.capacity() > MembersOfJob().capacity()) bytes.members += ids.capacity() * sizeof(MemberId);
  }
  return bytes;
}

std::string ClusterState::Check() const {
  ClusterState fresh(*cluster_, tell_sizes_apart_);
  for (KindId kind = 0; kind < kind_watts_.size(); ++kind) fresh.SetKindWatts(kind, kind_watts_[kind]);
  for (NodeId n = 0; n < nodes_.size(); ++n) {
    if (health_[n] != fresh.health_[n]) fresh.SetHealth(n, health_[n]);
    for (size_t d = 0; d < nodes_[n].devices; ++d) {
      if (!nodes_[n].device[d].healthy) fresh.SetDeviceHealth(n, static_cast<int>(d), false);
    }
    for (const MemberId id : on_[n]) {
      if (members_[id].holding.node != n) return fmt::format("member {} is on the wrong node", id);
      fresh.Assign(members_[id]);
    }
    fresh.Settle();
    fresh.journal_.clear();
    fresh.SetOthers(n, others(n));
    fresh.SetUnmodelled(n, unmodelled(n));
  }
  for (NodeId n = 0; n < nodes_.size(); ++n) {
    const std::string& name = cluster_->nodes[n].name;
    const NodeState& state = nodes_[n];
    if (!(state == fresh.nodes_[n]))
      return fmt::format("node {}: the free resources differ from the capacity less its members", name);
    if (state.free_cpu_milli < 0 || state.free_memory_mib < 0)
      return fmt::format("node {}: over-allocated", name);
    if (classes_[classes_.of(n)].state != fresh.classes_[fresh.classes_.of(n)].state) {
      return fmt::format("node {}: is in the wrong class", name);
    }
  }
  for (DomainId d = 0; d < counters_.size(); ++d) {
    const DomainCounters& a = counters_[d];
    const DomainCounters& b = fresh.counters_[d];
    if (a.nodes != b.nodes || a.empty_nodes != b.empty_nodes || a.whole_devices != b.whole_devices ||
        a.free_milli != b.free_milli || a.milliwatts != b.milliwatts) {
      return fmt::format("domain {}: its counters are off", cluster_->fabric.domains[d].name);
    }
  }
  if (totals_.allocated_milli != fresh.totals_.allocated_milli ||
      totals_.capacity_milli != fresh.totals_.capacity_milli ||
      totals_.fragmented_nodes != fresh.totals_.fragmented_nodes || whole_by_kind_ != fresh.whole_by_kind_ ||
      nodes_by_free_ != fresh.nodes_by_free_ || member_count_ != fresh.member_count_) {
    return "the totals are off";
  }
  return {};
}

Trial::Trial(ClusterState& state) : state_(&state) {
  assert(state.journal_.empty());
}

Trial::~Trial() {
  state_->Undo(0);
}

MemberId Trial::Assign(const Member& member) {
  const MemberId id = state_->Assign(member);
  state_->Settle();
  return id;
}

void Trial::Evict(std::span<const MemberId> ids) {
  for (const MemberId id : ids) state_->Evict(id);
  state_->Settle();
}

void Trial::EvictJobs(std::span<const JobIndex> jobs) {
  for (const JobIndex job : jobs) state_->EvictJob(job);
  state_->Settle();
}

void Trial::Commit() {
  state_->journal_.clear();
}

}  // namespace scheduler
