// The state of the cluster: which member holds which devices, and what is free. The only mutable state that
// plans are tried on.
// Every change goes through a Trial, which can take it back. Each change updates the classes of like nodes,
// the free counts up the fabric tree, watts, and totals for the metrics, so that no decision copies or scans
// the cluster. One thread. The cluster must outlive it. Device counts are in milli where fractions count.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/state/device_table.h"
#include "scheduler/state/node_classes.h"
#include "scheduler/state/node_state.h"
#include "scheduler/state/shape_table.h"

namespace scheduler {

using JobIndex = uint32_t;  // the planner's number of a job
using MemberId = uint32_t;  // while the member holds something

struct Member {
  JobIndex job = 0;
  uint16_t role = 0;
  uint32_t rank = 0;  // within the role
  Holding holding;

  friend bool operator==(const Member&, const Member&) = default;
};

// Free devices below a fabric domain, on nodes that may take work.
struct DomainCounters {
  uint32_t nodes = 0;
  uint32_t empty_nodes = 0;  // with devices, all of them whole
  uint32_t whole_devices = 0;
  int64_t free_milli = 0;
  int64_t milliwatts = 0;  // drawn, all nodes
};

struct ClusterTotals {
  uint32_t schedulable_nodes = 0;
  uint32_t device_nodes = 0;      // schedulable, with devices
  uint32_t fragmented_nodes = 0;  // of those: some but not all devices taken
  int64_t capacity_milli = 0;     // of healthy devices
  int64_t allocated_milli = 0;    // of healthy devices
  int64_t milliwatts = 0;
};

// The power of a device of a kind.
struct KindWatts {
  double idle = 0;
  double busy = 0;  // at least `idle`

  friend bool operator==(const KindWatts&, const KindWatts&) = default;
};

// The fixed properties of a node.
struct FixedClass {
  TypeId type = 0;
  const Labels* labels = nullptr;
  bool schedulable = true;

  friend bool operator==(const FixedClass&, const FixedClass&) = default;
};

class ClusterState {
 public:
  // With `tell_sizes_apart`, nodes know the sizes of their members (NodeState::sizes), and those that differ
  // in them are of different classes: more classes, for the policies that ask for it.
  explicit ClusterState(const Cluster& cluster, bool tell_sizes_apart = false);
  ClusterState(const ClusterState&) = delete;
  ClusterState& operator=(const ClusterState&) = delete;

  const Cluster& cluster() const { return *cluster_; }
  const NodeState& node(NodeId id) const { return nodes_[id]; }
  const TypeView& view(TypeId type) const { return views_[type]; }
  const TypeView& view_of(NodeId node) const { return views_[cluster_->nodes[node].type]; }
  Health health(NodeId node) const { return health_[node]; }
  const NodeClasses& classes() const { return classes_; }
  const FixedClass& fixed(StaticId id) const { return fixed_[id]; }
  uint32_t fixed_count() const { return static_cast<uint32_t>(fixed_.size()); }

  // The nodes under a domain, in the cluster's order within each lowest domain.
  std::span<const NodeId> nodes_under(DomainId domain) const;
  // The nodes of the domain that belong to no lower domain.
  std::span<const NodeId> nodes_directly_under(DomainId domain) const {
    return nodes_under(domain).first(direct_[domain]);
  }
  std::span<const DomainId> children(DomainId domain) const { return children_[domain]; }
  std::span<const DomainId> at_level(uint8_t level) const { return by_level_[level]; }
  const DomainCounters& counters(DomainId domain) const { return counters_[domain]; }
  const ClusterTotals& totals() const { return totals_; }
  // Free on nodes that may take work: whole devices of a kind, and nodes of it with `free` whole ones.
  uint32_t whole_devices(KindId kind) const { return whole_by_kind_[kind]; }
  uint32_t nodes_with(KindId kind, int free) const {
    return nodes_by_free_[kind * (kMaxDevices + size_t{1}) + static_cast<size_t>(free)];
  }
  // The declared or the learned power.
  KindWatts kind_watts(KindId kind) const { return kind_watts_[kind]; }
  // Watts that may still be drawn at a node, by its own budget and those above it.
  double power_headroom(NodeId node) const;
  bool has_power_budgets() const { return has_power_budgets_; }

  // Members, in no order that may decide anything.
  std::span<const MemberId> on(NodeId node) const { return on_[node]; }
  std::span<const MemberId> of(JobIndex job) const;
  const Member& member(MemberId id) const { return members_[id]; }
  uint32_t member_count() const { return member_count_; }

  // Facts, not plans: not journalled. Never within a trial.
  void SetHealth(NodeId node, Health health);
  void SetDeviceHealth(NodeId node, int device, bool healthy);
  // CPU and memory that others hold; of more than is free, what is free.
  void SetOthers(NodeId node, HostAmounts amounts);
  HostAmounts others(NodeId node) const;

  void SetKindWatts(KindId kind, KindWatts watts);
  // The difference between the node's power and the sum of its kind's watts over its present members, in milliwatts;
  // below 0: it draws less. Starts and ends change the node's power by the watts of its kind.
  void SetUnmodelled(NodeId node, int64_t milliwatts);
  int64_t unmodelled(NodeId node) const;
  // The measured power of the node: calls SetUnmodelled() with the difference.
  void SetDrawn(NodeId node, double watts);

  // Bytes of memory, estimated from its containers: {per node, per member}.
  struct Footprint {
    size_t nodes = 0;
    size_t members = 0;
  };
  Footprint footprint() const;

  // Recomputes everything from the members and compares; the first difference, or nothing. For tests and
  // debug builds.
  std::string Check() const;

 private:
  friend class Trial;
  using MembersOfJob = absl::InlinedVector<MemberId, 4>;  // as large as a vector; most jobs have one or two
  struct Entry {
    MemberId id = 0;
    bool assigned = false;  // else evicted
    Member member;
  };

  // A node on which several members change: its counts and its class are updated once, in Settle().
  struct Changed {
    NodeId node = 0;
    bool loses = false;  // a member
  };

  MemberId Assign(const Member& member);
  void Evict(MemberId id);
  void EvictJob(JobIndex job);
  void Undo(size_t mark);

  void Place(MemberId id, const Member& member);
  void Remove(MemberId id);
  void BeginChange(NodeId node, bool loses);
  void Settle();
  StaticId FixedOf(NodeId node);
  int64_t ModelledMilliwatts(NodeId node) const;
  void Count(NodeId node, int sign);  // adds or removes the node's contribution
  void Reclass(NodeId node);
  void RestoreTenant(NodeId node);
  void RestoreSizes(NodeId node);

  const Cluster* cluster_;
  bool tell_sizes_apart_;
  std::vector<DeviceTable> near_;  // per type
  std::vector<TypeView> views_;
  std::vector<NodeState> nodes_;
  std::vector<Health> health_;
  std::map<NodeId, HostAmounts> others_;
  std::vector<FixedClass> fixed_;
  std::vector<StaticId> fixed_of_;
  NodeClasses classes_;

  std::vector<std::vector<DomainId>> children_;
  std::vector<std::vector<DomainId>> by_level_;
  std::vector<NodeId> fabric_order_;
  std::vector<std::pair<uint32_t, uint32_t>> range_;  // per domain, its part of fabric_order_
  std::vector<uint32_t> direct_;  // how many at the start of range_ stand directly below the domain
  std::vector<DomainCounters> counters_;
  std::vector<int64_t> milliwatts_;  // per node
  std::map<NodeId, int64_t> unmodelled_;
  std::vector<KindWatts> kind_watts_;
  ClusterTotals totals_;
  std::vector<uint32_t> whole_by_kind_;
  std::vector<uint32_t> nodes_by_free_;
  bool has_power_budgets_ = false;

  std::vector<Member> members_;
  std::vector<MemberId> free_members_;
  std::vector<uint32_t> in_job_;  // by member: its place among its job's
  std::vector<std::vector<MemberId>> on_;
  absl::flat_hash_map<JobIndex, MembersOfJob> of_;
  uint32_t member_count_ = 0;
  std::vector<Changed> changed_;      // since the last Settle()
  std::vector<uint32_t> changed_at_;  // by node, its place there; kNone: it has not changed

  std::vector<Entry> journal_;
};

// A what-if over the state: assigns and evicts, and takes back what was not committed. Trials do not nest;
// marks do.
class Trial {
 public:
  using Mark = size_t;

  explicit Trial(ClusterState& state);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  ClusterState& state() { return *state_; }
  MemberId Assign(const Member& member);
  void Evict(MemberId id) { Evict(std::span(&id, 1)); }
  void EvictJob(JobIndex job) { EvictJobs({&job, 1}); }
  // Several at once take less time than one by one.
  void Evict(std::span<const MemberId> ids);
  void EvictJobs(std::span<const JobIndex> jobs);

  Mark mark() const { return state_->journal_.size(); }
  void Rollback(Mark mark) { state_->Undo(mark); }
  void Commit();  // keeps the changes so far

 private:
  ClusterState* state_;
};

}  // namespace scheduler
