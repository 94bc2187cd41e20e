// A planner over a small cluster, told what happens step by step.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/planner.h"

namespace scheduler::testing {

struct PlannerWorld {
  explicit PlannerWorld(Cluster c, Policy policy = {}, std::vector<Queue> queues = {})
      : cluster(std::move(c)), planner(cluster, queues, std::move(policy)) {}

  Job Make(const std::string& id, Ask ask, uint32_t members = 1) {
    Job job;
    job.id = id;
    job.queue = "default";
    job.submitted = now;
    job.roles = {{.name = "worker", .ask = std::move(ask), .count = members, .min_count = members}};
    job.estimate = std::chrono::hours(1);
    return job;
  }
  JobIndex Submit(Job job) { return planner.Submit(std::move(job), now); }
  // "start a, preempt b": what the next cycle does.
  std::vector<std::string> Run() {
    plan = planner.Run(now, rng);
    std::vector<std::string> actions;
    for (const Action& action : plan.actions)
      actions.push_back(std::string(Name(action.kind)) + " " + action.job);
    return actions;
  }
  JobIndex Find(const std::string& id) const { return planner.jobs().Find(id); }
  std::vector<NodeId> NodesOf(const std::string& id) const {
    std::vector<NodeId> nodes;
    for (const MemberId member : planner.state().of(Find(id))) {
      nodes.push_back(planner.state().member(member).holding.node);
    }
    std::ranges::sort(nodes);
    return nodes;
  }
  std::string WhyWaits(const std::string& id) const {
    for (const auto& [job, why] : plan.waiting) {
      if (job == id) return why.code;
    }
    return {};
  }

  Cluster cluster;
  Planner planner;
  conf::TimePoint now{std::chrono::hours(1'000)};
  Rng rng{1};
  Plan plan;
};

}  // namespace scheduler::testing
