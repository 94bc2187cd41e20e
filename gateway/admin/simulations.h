// Simulations: what-if questions to the scheduler, answered from its present state in virtual time.
//
// Each runs on a thread of its own that steps back for the shards; it ends by its time at the latest. What is
// here was asked since the start: nothing is stored.
//
// Bounded: kRunning at once, kKept in all, kMostSeconds for each. Owner: the Process. Thread: the control
// loop's; threads of its own see nothing but their Run.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conf/time.h"
#include "gateway/admin/answers/simulations.h"
#include "gateway/people/permissions.h"
#include "scheduler/autoscale/replay.h"
#include "scheduler/policy.h"
#include "scheduler/sim/forecast.h"
#include "scheduler/snapshot.h"

namespace gateway::admin {

// The scheduler as it is, and as it would be.
struct WhatIfPlan {
  scheduler::Snapshot today;
  scheduler::Policy policy_today;
  scheduler::Snapshot changed;
  scheduler::Policy policy_changed;
  std::vector<std::string> asked;  // ids of jobs of the question, which are in `changed` only
};

// The traffic of a model, under its policy and under another.
struct WhatIfScaling {
  std::vector<scheduler::autoscale::Observed> observed;
  scheduler::autoscale::ScalingPolicy running;
  scheduler::autoscale::ScalingPolicy changed;
  conf::Duration cold_start{};
  double devices_running = 0;  // of a replica
  double devices_changed = 0;
};

struct WhatIf {
  std::string question = {};
  std::string actor = {};
  Authority authority = {};  // whose jobs the answer may name
  std::optional<WhatIfPlan> plan = {};
  std::optional<WhatIfScaling> scaling = {};
};

// The answer, without its identity. Pure; any thread. `go_on` gets the progress, and says whether to go on.
answers::Simulation Answered(const WhatIf& asked, const std::function<bool(double)>& go_on);

class Simulations {
 public:
  static constexpr size_t kRunning = 2;
  static constexpr size_t kKept = 32;
  static constexpr int kMostSeconds = 60;

  Simulations() = default;
  Simulations(const Simulations&) = delete;
  Simulations& operator=(const Simulations&) = delete;
  ~Simulations();

  // Its id. ResourceExhausted: too many run.
  absl::StatusOr<std::string> Start(WhatIf asked, conf::TimePoint now);
  // Nothing: there is none, or it was asked by somebody else and `all` is false.
  std::optional<answers::Simulation> Show(const std::string& id, std::string_view actor, bool all) const;
  // The newest first, without their jobs.
  std::vector<answers::Simulation> List(std::string_view actor, bool all) const;
  // One that runs ends soon; of one that has ended nothing remains. False: as for Show.
  bool Cancel(const std::string& id, std::string_view actor, bool all);

 private:
  struct Run {
    answers::Simulation head;  // its identity
    std::atomic<bool> cancelled{false};
    std::atomic<double> progress{0};
    std::atomic<bool> over{false};  // from then on the answer stands
    answers::Simulation answer;
    std::thread thread;
  };
  using Runs = std::vector<std::unique_ptr<Run>>;

  static void Work(Run& run, const WhatIf& asked);
  static answers::Simulation ShowRun(const Run& run);
  Runs::const_iterator Find(const std::string& id, std::string_view actor, bool all) const;

  Runs runs_;  // the oldest first
  uint64_t next_ = 1;
};

}  // namespace gateway::admin
