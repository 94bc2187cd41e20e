#include "gateway/control/planning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "gateway/control/fleet.h"
#include "gateway/control/grant.h"
#include "scheduler/io/explanation_text.h"
#include "scheduler/state/node_state.h"

namespace gateway::control {
namespace {

using config::Victim;
using plugins::launchers::Grant;
using scheduler::Holding;
using scheduler::WorkClass;

constexpr conf::Duration kLongestRest = std::chrono::seconds(10);  // between cycles, while somebody waits
constexpr uint64_t kSeed = 1;

std::string FirstLeaf(const std::vector<scheduler::Queue>& queues) {
  std::set<std::string> inner;
  for (const scheduler::Queue& queue : queues) inner.insert(queue.parent);
  for (const scheduler::Queue& queue : queues) {
    if (!inner.contains(queue.name)) return queue.name;
  }
  return {};
}

std::vector<WorkClass> SparedBy(const std::vector<Victim>& may_preempt) {
  constexpr std::array<std::pair<WorkClass, Victim>, 4> kOf = {{{WorkClass::kTraining, Victim::kTraining},
                                                                {WorkClass::kBatch, Victim::kBatch},
                                                                {WorkClass::kArray, Victim::kBatch},
                                                                {WorkClass::kNotebook, Victim::kNotebook}}};
  std::vector<WorkClass> spared;
  spared.reserve(kOf.size());
  for (const auto& [work, victim] : kOf) {
    if (std::ranges::find(may_preempt, victim) == may_preempt.end()) spared.push_back(work);
  }
  return spared;
}

}  // namespace

Planning::Planning(const config::Scaling& scaling, conf::TimePoint now)
    : policy_(scaling.planning.policy), first_queue_(FirstLeaf(scaling.planning.queues)), last_(now) {
  seated_.as_of = now;
  seated_.cluster = scaling.nodes;
  seated_.queues = scaling.planning.queues;
}

scheduler::Job Planning::JobOf(const std::string& run, const config::ModelPolicy& policy,
                               conf::TimePoint now) const {
  const config::Placement& placement = policy.placement;
  scheduler::Ask ask{.cpu_milli = placement.cpu_milli, .memory_mib = placement.memory_mib};
  ask.devices.reserve(placement.devices.size());
  for (const config::DeviceNeed& need : placement.devices) ask.devices.push_back(need.ask);
  scheduler::Job job;
  job.id = run;
  job.queue = placement.queue.empty() ? first_queue_ : placement.queue;
  job.user = "tidegate";
  job.work = scheduler::WorkClass::kInference;
  job.priority = static_cast<int32_t>(placement.priority);
  job.roles = {{.name = "replica", .ask = std::move(ask)}};
  job.preemptible = false;
  job.never_preempts = SparedBy(placement.may_preempt);
  job.array = policy.model();
  job.spread = placement.spread == config::Spread::kLeaf;
  job.submitted = now;
  return job;
}

bool Planning::Seat(const std::string& run, const config::ModelPolicy& policy, const Grant& grant,
                    conf::TimePoint since) {
  const std::optional<Holding> holding = HoldingOf(seated_.cluster, grant);
  if (!holding) return false;
  scheduler::JobState job;
  job.job = JobOf(run, policy, since);
  job.phase = scheduler::Phase::kRunning;
  job.members = {{.role = 0, .rank = 0, .holding = *holding}};
  job.started = job.checkpointed = since;
  return Seat(std::move(job));
}

void Planning::Begin() {
  if (planner_) return;
  planner_ = std::make_unique<scheduler::Planner>(seated_, policy_);
  for (const scheduler::JobState& job : seated_.jobs) {
    if (IsReplicaRun(job.job.id)) jobs_.emplace(job.job.id, planner_->jobs().Find(job.job.id));
  }
  seated_.jobs.clear();
}

void Planning::Submit(const std::string& run, const config::ModelPolicy& policy, conf::TimePoint now) {
  Begin();
  jobs_.emplace(run, planner_->Submit(JobOf(run, policy, now), now));
  changed_ = true;
}

void Planning::Leave(const std::string& run, conf::TimePoint now) {
  Begin();
  const auto job = jobs_.find(run);
  if (job == jobs_.end()) return;
  planner_->Ended(job->second, now);
  jobs_.erase(job);
  changed_ = true;
}

void Planning::See(const std::vector<plugins::launchers::SharedNode>& nodes, conf::TimePoint now) {
  Begin();
  scheduler::Snapshot seen = planner_->TakeSnapshot(now);
  std::vector<uint32_t> ours(seen.cluster.nodes.size());
  for (const scheduler::JobState& job : seen.jobs) {
    for (const scheduler::MemberAt& member : job.members) ours[member.holding.node] |= member.holding.devices;
    for (const scheduler::MemberAt& member : job.leaving) ours[member.holding.node] |= member.holding.devices;
  }
  std::map<std::string_view, const plugins::launchers::SharedNode*> by_name;
  for (const plugins::launchers::SharedNode& node : nodes) by_name[node.name] = &node;
  seen.health.resize(seen.cluster.nodes.size());
  for (size_t n = 0; n < seen.cluster.nodes.size(); ++n) {
    scheduler::NodeHealth& health = seen.health[n];
    const auto found = by_name.find(seen.cluster.nodes[n].name);
    health.health = found == by_name.end() ? scheduler::Health::kQuarantined : found->second->health;
    health.broken_devices = 0;
    const scheduler::NodeType& type = seen.cluster.type_of(static_cast<scheduler::NodeId>(n));
    const uint32_t devices = type.devices;
    uint32_t left = 0;
    if (devices > 0 && found != by_name.end()) {
      const plugins::launchers::SharedNode& node = *found->second;
      const uint32_t there = node.kind == seen.cluster.kinds[type.kind].name ? node.devices : 0;
      left = node.taken + devices - std::min(devices, there);
    }
    for (uint32_t d = 0; d < devices && left > 0; ++d) {
      if ((ours[n] >> d & 1) != 0) continue;
      health.broken_devices |= uint32_t{1} << d;
      --left;
    }
  }
  Become(std::move(seen));
}

void Planning::See(const std::vector<plugins::launchers::DeviceFault>& faults, conf::TimePoint now) {
  Begin();
  scheduler::Snapshot seen = planner_->TakeSnapshot(now);
  seen.health.resize(seen.cluster.nodes.size());
  for (size_t n = 0; n < seen.cluster.nodes.size(); ++n) {
    seen.health[n].broken_devices = 0;
    for (const plugins::launchers::DeviceFault& fault : faults) {
      if (fault.node == seen.cluster.nodes[n].name)
        seen.health[n].broken_devices |= uint32_t{1} << fault.device;
    }
  }
  Become(std::move(seen));
}

void Planning::Become(scheduler::Snapshot seen) {
  planner_.reset();  // looks at the cluster of the snapshot that it was made from
  seated_ = std::move(seen);
  jobs_.clear();
  Begin();
  changed_ = true;
}

bool Planning::Seat(scheduler::JobState job) {
  const scheduler::Cluster& cluster = seated_.cluster;
  std::map<scheduler::NodeId, scheduler::NodeState> nodes;
  const auto take = [&](const std::vector<scheduler::MemberAt>& members) {
    for (const scheduler::MemberAt& member : members) {
      const Holding& holding = member.holding;
      if (holding.node >= cluster.nodes.size()) return false;
      const scheduler::NodeType& type = cluster.type_of(holding.node);
      if (holding.devices >> type.devices != 0) return false;
      const auto at = nodes.try_emplace(holding.node, scheduler::EmptyNode(cluster, holding.node)).first;
      const scheduler::TypeView view = cluster.view(cluster.nodes[holding.node].type);
      if (!scheduler::IsFree(at->second, holding, view)) return false;
      scheduler::Take(at->second, holding, view);
    }
    return true;
  };
  for (const scheduler::JobState& other : seated_.jobs) {
    if (!take(other.members) || !take(other.leaving)) return false;
  }
  if (!take(job.members) || !take(job.leaving)) return false;
  seated_.jobs.push_back(std::move(job));
  return true;
}

scheduler::Planner& Planning::planner() {
  Begin();
  return *planner_;
}

Planning::Outcome Planning::Run(conf::TimePoint now) {
  Begin();
  const std::optional<conf::TimePoint> due = planner_->NextDue();
  const bool time = (due && *due <= now) || (planner_->pending() > 0 && now - last_ >= kLongestRest);
  Outcome out;
  if (!changed_ && !time) return out;
  changed_ = false;
  last_ = now;
  scheduler::Rng rng = scheduler::CycleRng(kSeed, planner_->version());
  scheduler::Plan plan = planner_->Run(now, rng);
  for (scheduler::Action& action : plan.actions) {
    if (!jobs_.contains(action.job)) {
      out.of_jobs.push_back(std::move(action));
    } else if (action.kind == scheduler::ActionKind::kStart) {
      out.starts.push_back({std::move(action.job), GrantOf(cluster(), action.members.front().holding),
                            std::move(action.why.text)});
    } else {
      out.evicted.emplace_back(std::move(action.job), std::move(action.why.text));
    }
  }
  for (auto& [job, reason] : plan.waiting) {
    (jobs_.contains(job) ? out.unplaced : out.waiting).emplace_back(std::move(job), std::move(reason.text));
  }
  return out;
}

std::string Planning::Explain(const std::string& run, conf::TimePoint now) const {
  const auto job = jobs_.find(run);
  if (job == jobs_.end()) return {};
  return fmt::format("{}", fmt::join(scheduler::io::InWords(planner_->Explain(job->second, now)), " "));
}

}  // namespace gateway::control
