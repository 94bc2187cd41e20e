#include "gateway/control/planning/planning.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "gateway/config/cut_devices.h"
#include "gateway/people/permissions.h"
#include "scheduler/io/explanation_text.h"
#include "scheduler/queues/order.h"
#include "scheduler/queues/run_history.h"
#include "scheduler/state/node_state.h"

namespace gateway::control {
namespace {

using scheduler::Holding;

constexpr conf::Duration kLongestRest = std::chrono::seconds(10);  // between cycles, while a workload waits
constexpr uint64_t kSeed = 1;

std::string FirstLeaf(const std::vector<scheduler::Queue>& queues) {
  std::set<std::string> inner;
  for (const scheduler::Queue& queue : queues) inner.insert(queue.parent);
  for (const scheduler::Queue& queue : queues) {
    if (!inner.contains(queue.name)) return queue.name;
  }
  return {};
}

}  // namespace

Planning::Planning(const config::Scaling& scaling, conf::TimePoint now)
    : policy_(scaling.planning.policy),
      power_(scaling.power),
      configured_(scaling.planning.queues),
      first_queue_(FirstLeaf(scaling.planning.queues)),
      uncut_(config::UncutKinds(scaling)),
      last_(now) {
  start_.as_of = now;
  start_.cluster = scaling.nodes;
  start_.queues = scaling.planning.queues;
  reports_.resize(start_.cluster.nodes.size());
}

scheduler::Planner& Planning::planner() {
  if (!planner_) {
    planner_ = std::make_unique<scheduler::Planner>(start_, policy_);
    start_.jobs.clear();
    changed_ = true;
    const conf::TimePoint now = std::max(last_, start_.as_of);
    for (scheduler::NodeId n = 0; n < reports_.size(); ++n) {
      if (reports_[n].is_cordoned || reports_[n].cordoned != 0) UpdatePlanner(n, now);
    }
  }
  return *planner_;
}

// Without configured queues, the planner has a single one, whatever its name.
void Planning::ChooseQueue(scheduler::Job& job) {
  const auto asked = asked_queues_.find(job.id);
  const std::string wanted = asked == asked_queues_.end() ? job.queue : asked->second;
  const auto is_there = [&](const std::vector<scheduler::Queue>& queues) {
    return std::ranges::find(queues, wanted, &scheduler::Queue::name) != queues.end();
  };
  if (!wanted.empty() && !is_there(configured_)) asked_queues_[job.id] = wanted;
  if (start_.queues.empty() || is_there(start_.queues)) {
    job.queue = wanted;
  } else {
    job.queue = FirstLeaf(start_.queues);
  }
}

void Planning::UpdateReserved(std::vector<ReservedDevices> reserved, conf::TimePoint now) {
  if (reserved == reserved_) return;
  reserved_ = std::move(reserved);
  if (planner_) {
    // The planner begins again with other queues; everything else is in its snapshot.
    scheduler::Snapshot next = planner_->TakeSnapshot(std::max(now, last_));
    planner_.reset();
    next.cluster = std::move(start_.cluster);
    start_ = std::move(next);
  }
  start_.queues = WithReservations(configured_, reserved_, start_.cluster);
  std::map<std::string, std::string> asked;
  for (scheduler::JobState& state : start_.jobs) {
    ChooseQueue(state.job);
    if (const auto kept = asked_queues_.extract(state.job.id)) asked.insert({kept.key(), kept.mapped()});
  }
  asked_queues_ = std::move(asked);
  changed_ = true;
}

std::vector<scheduler::Queue> Planning::QueuesOf(std::string_view tenant) const {
  std::vector<scheduler::Queue> queues = start_.queues;
  std::erase_if(queues, [&](const scheduler::Queue& queue) {
    const auto of = std::ranges::find(reserved_, queue.name, &ReservedDevices::queue);
    return of != reserved_.end() && !IsWithin(tenant, of->tenant);
  });
  return queues;
}

bool Planning::Restore(scheduler::JobState job) {
  const scheduler::Cluster& cluster = start_.cluster;
  std::map<scheduler::NodeId, scheduler::NodeState> nodes;
  const auto take = [&](const std::vector<scheduler::MemberAt>& members) {
    for (const scheduler::MemberAt& member : members) {
      const Holding& holding = member.holding;
      if (holding.node >= cluster.nodes.size()) return false;
      const scheduler::NodeType& type = cluster.type_of(holding.node);
      if (holding.devices >> type.devices != 0) return false;
      const auto at = nodes.try_emplace(holding.node, scheduler::EmptyNode(cluster, holding.node)).first;
      const scheduler::TypeView view = ViewOf(cluster, cluster.nodes[holding.node].type);
      if (!scheduler::IsFree(at->second, holding, view)) return false;
      scheduler::Take(at->second, holding, view);
    }
    return true;
  };
  for (const scheduler::JobState& other : start_.jobs) {
    if (!take(other.members) || !take(other.leaving)) return false;
  }
  if (!take(job.members) || !take(job.leaving)) return false;
  ChooseQueue(job.job);
  if (job.moved + std::chrono::hours(1) > start_.as_of) {
    start_.moves.push_back(job.moved);
    std::ranges::sort(start_.moves);
  }
  start_.jobs.push_back(std::move(job));
  return true;
}

uint32_t Planning::TenantNumber(const std::string& tenant) {
  auto known = std::ranges::find(start_.tenants, tenant);
  if (known == start_.tenants.end()) known = start_.tenants.insert(known, tenant);
  return static_cast<uint32_t>(known - start_.tenants.begin()) + 1;
}

void Planning::Submit(scheduler::Job job, conf::TimePoint now) {
  ChooseQueue(job);
  planner().Submit(std::move(job), now);
  changed_ = true;
}

void Planning::LearnRuns(const std::vector<std::pair<scheduler::Job, conf::Duration>>& ended) {
  if (!scheduler::Order(policy_.order).uses_runs() && policy_.moves.per_hour == 0) return;
  scheduler::RunHistory history(start_.runs, policy_.backfill.unknown_estimate);
  for (const auto& [job, run] : ended) {
    if (const auto of = scheduler::RunHistory::ClassOf(job)) history.Add(*of, run);
  }
  start_.runs = history.state();
}

void Planning::Leave(const std::string& id, conf::TimePoint now) {
  Remove(id, false, now);
}

void Planning::End(const std::string& id, conf::TimePoint now) {
  Remove(id, true, now);
}

void Planning::Remove(const std::string& id, bool ended, conf::TimePoint now) {
  asked_queues_.erase(id);
  const scheduler::JobIndex job = planner().jobs().Find(id);
  if (job == scheduler::kNone) return;
  const scheduler::ClusterState& state = planner().state();
  std::set<scheduler::NodeId> nodes;
  for (const scheduler::MemberId member : state.of(job)) nodes.insert(state.member(member).holding.node);
  if (ended) {
    planner().Ended(job, now);
  } else {
    planner().Withdraw(job, now);
  }
  // Where others hold more than the planner left free, they hold only what it left.
  for (const scheduler::NodeId node : nodes) {
    if (reports_[node].left > 0 || reports_[node].others != scheduler::HostAmounts())
      UpdatePlanner(node, now);
  }
  changed_ = true;
}

void Planning::HandOver(const std::string& from, scheduler::Job to, conf::TimePoint now) {
  ChooseQueue(to);
  planner().HandOver(planner().jobs().Find(from), std::move(to), now);
  changed_ = true;
}

void Planning::Replace(scheduler::Job job, conf::TimePoint now) {
  ChooseQueue(job);
  const scheduler::JobIndex before = planner().jobs().Find(job.id);
  planner().Replace(before, std::move(job), now);
  changed_ = true;
}

void Planning::Unmove(const std::string& id, conf::TimePoint now) {
  const scheduler::JobIndex job = planner().jobs().Find(id);
  if (job == scheduler::kNone || planner().jobs()[job].leaving.empty()) return;
  planner().Unmoved(job, now);
  changed_ = true;
}

bool Planning::Knows(const std::string& id) {
  return planner().jobs().Find(id) != scheduler::kNone;
}

void Planning::UpdateNodes(const std::vector<plugins::launchers::SharedNode>& nodes, conf::TimePoint now) {
  std::map<std::string_view, const plugins::launchers::SharedNode*> by_name;
  for (const plugins::launchers::SharedNode& node : nodes) by_name[node.name] = &node;
  for (scheduler::NodeId n = 0; n < cluster().nodes.size(); ++n) {
    const auto found = by_name.find(cluster().nodes[n].name);
    NodeReport& report = reports_[n];
    report.left = 0;
    report.others = {};
    if (found == by_name.end()) {
      report.health = scheduler::Health::kQuarantined;
      UpdatePlanner(n, now);
      continue;
    }
    const plugins::launchers::SharedNode& node = *found->second;
    const scheduler::NodeType& type = cluster().type_of(n);
    if (type.devices > 0) {
      const uint32_t there = node.kind == cluster().kinds[type.kind].name ? node.devices : 0;
      report.left = node.taken + type.devices - std::min<uint32_t>(type.devices, there);
    }
    if (node.host) {
      report.others = node.host->taken;
      report.others.cpu_milli += std::max<int64_t>(0, type.cpu_milli - node.host->has.cpu_milli);
      report.others.memory_mib += std::max<int64_t>(0, type.memory_mib - node.host->has.memory_mib);
    }
    report.health = node.health;
    UpdatePlanner(n, now);
  }
  changed_ = true;
}

void Planning::UpdateFaults(const std::vector<plugins::launchers::DeviceFault>& faults, conf::TimePoint now) {
  for (scheduler::NodeId n = 0; n < cluster().nodes.size(); ++n) {
    reports_[n].faulty = reports_[n].emptied = 0;
    for (const plugins::launchers::DeviceFault& fault : faults) {
      if (fault.node != cluster().nodes[n].name) continue;
      reports_[n].faulty |= uint32_t{1} << fault.device;
      if (!fault.lost) reports_[n].emptied |= uint32_t{1} << fault.device;  // else its work has failed
    }
    UpdatePlanner(n, now);
  }
  changed_ = true;
}

void Planning::UpdateCordons(const std::vector<Cordon>& cordons, conf::TimePoint now) {
  for (scheduler::NodeId n = 0; n < cluster().nodes.size(); ++n) {
    reports_[n].cordoned = 0;
    reports_[n].is_cordoned = false;
    for (const Cordon& cordon : cordons) {
      if (cordon.node != cluster().nodes[n].name) continue;
      reports_[n].is_cordoned |= !cordon.device.has_value();
      reports_[n].cordoned |= cordon.device ? uint32_t{1} << *cordon.device : 0;
    }
    if (planner_) UpdatePlanner(n, now);
  }
  changed_ = true;
}

// A suspect node takes nothing new, and what runs on it stays.
void Planning::UpdatePlanner(scheduler::NodeId node, conf::TimePoint now) {
  const NodeReport& report = reports_[node];
  const scheduler::Health otherwise = report.health.value_or(cluster().nodes[node].health);
  const bool sets_aside = report.is_cordoned && otherwise == scheduler::Health::kHealthy;
  const scheduler::ClusterState& state = planner().state();
  uint32_t ours = 0;
  for (const scheduler::MemberId member : state.on(node)) ours |= state.member(member).holding.devices;
  uint32_t unusable = report.faulty | report.cordoned;
  uint32_t left = report.left;
  for (uint32_t d = 0; d < cluster().type_of(node).devices && left > 0; ++d) {
    if ((ours >> d & 1) != 0) continue;
    unusable |= uint32_t{1} << d;
    --left;
  }
  planner().UpdateNode(node, sets_aside ? scheduler::Health::kSuspect : otherwise, unusable, report.others,
                       now);
  planner().UpdateEmptied(node, report.emptied, now);
}

scheduler::ClusterChange Planning::CompareCluster(const scheduler::Cluster& found,
                                                  std::span<const Holding> held) const {
  scheduler::NodeUses uses;
  const auto add = [&uses](const std::vector<scheduler::MemberAt>& members) {
    for (const scheduler::MemberAt& member : members) AddUse(uses, member.holding);
  };
  for (const scheduler::JobState& job : start_.jobs) {
    add(job.members);
    add(job.leaving);
  }
  if (planner_) {
    const scheduler::ClusterState& state = planner_->state();
    for (scheduler::NodeId n = 0; n < start_.cluster.nodes.size(); ++n) {
      for (const scheduler::MemberId member : state.on(n)) AddUse(uses, state.member(member).holding);
    }
  }
  // The planner knows most of these; what it does not know holds devices all the same.
  for (const Holding& holding : held) {
    scheduler::NodeUse& use = uses[holding.node];
    use.devices |= holding.devices;
    use.cpu_milli = std::max(use.cpu_milli, holding.cpu_milli);
    use.memory_mib = std::max(use.memory_mib, holding.memory_mib);
  }
  uses.erase(scheduler::kNone);
  return scheduler::ChangeCluster(start_.cluster, found, uses);
}

void Planning::UpdateCluster(const scheduler::ClusterChange& change, conf::TimePoint now) {
  if (planner_) {
    scheduler::Snapshot next = planner_->TakeSnapshot(std::max(now, last_));
    planner_.reset();
    start_ = std::move(next);
  }
  scheduler::ApplyTo(start_, change);
  config::ApplyPowerBudget(power_, start_.cluster);
  std::vector<NodeReport> reports(start_.cluster.nodes.size());
  for (scheduler::NodeId n = 0; n < reports_.size(); ++n) {
    if (change.places[n] != scheduler::kNone) reports[change.places[n]] = reports_[n];
  }
  reports_ = std::move(reports);
  start_.queues = WithReservations(configured_, reserved_, start_.cluster);
  uncut_ = config::UncutKinds(start_.cluster);
  changed_ = true;
}

std::optional<scheduler::Plan> Planning::Run(conf::TimePoint now) {
  const std::optional<conf::TimePoint> due = planner().NextDue();
  const bool time = (due && *due <= now) || (planner().pending() > 0 && now - last_ >= kLongestRest);
  if (!changed_ && !time) return std::nullopt;
  changed_ = false;
  last_ = now;
  scheduler::Rng rng = scheduler::CycleRng(kSeed, planner().version());
  return planner().Run(now, rng);
}

std::vector<std::string> Planning::Explain(const std::string& id, conf::TimePoint now) {
  const scheduler::JobIndex job = planner().jobs().Find(id);
  if (job == scheduler::kNone) return {};
  return scheduler::io::InWords(planner().Explain(job, now));
}

}  // namespace gateway::control
