// Prefetches: fetches of weights to nodes before a replica is placed there: at times of the policy, while more
// replicas are wanted than have devices, and before the time of the day at which more replicas were wanted. Each is a
// run of its own, without devices, that does nothing else.
//
// Such a run is no workload: nothing waits for it, and its loss costs nothing. It is found again by its id after
// a restart. Bounded: one at a time on each node, kMost in total.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gateway/config/model_policy.h"
#include "gateway/control/learned/learned_starts.h"
#include "gateway/control/workloads/context.h"
#include "scheduler/autoscale/daily_peaks.h"

namespace gateway::control {

// A fetch of weights that no replica waits for.
struct PrefetchStatus {
  std::string run;
  std::string model;
  std::string node;
  conf::TimePoint since{};
  std::string why;
};

// "w-chat-small-6411f3a0c2b": `stamp` makes it unique.
std::string PrefetchRunId(std::string_view model, int64_t stamp);
bool IsPrefetchRun(std::string_view run);

// The nodes on which the weights are to be fetched next, in order: those that may run the model and lack them,
// with free devices first. `holders`: nodes that hold them already or fetch them now. Pure.
std::vector<std::string> ChoosePrefetchNodes(const std::vector<StartPlace>& places, uint32_t wanted,
                                             uint32_t holders);

class Prefetches {
 public:
  static constexpr size_t kMost = 8;

  struct Environment {
    std::function<std::vector<const config::ModelPolicy*>()> policies;  // with weights.prefetch
    std::function<std::vector<StartPlace>(const config::ModelPolicy& policy)> places;
    std::function<std::optional<plugins::launchers::WeightsStep>(const config::ModelPolicy& policy,
                                                                 const StartPlace& place)>
        step;
    // Fetches ask the nodes that hold the weights.
    std::function<bool()> asks_neighbours = [] { return false; };
    std::function<bool(const std::string& model)> short_of_devices;  // a replica waits for some
    std::function<uint32_t(const std::string& model)> wanted;        // replicas
    // The beginning of a run's output.
    std::function<net::Task<std::string>(std::string run, std::string log)> read;
    std::function<void(const std::string& node, const std::vector<std::string>& holds, conf::TimePoint at)>
        listed;
  };
  Prefetches(const Context& context, Environment env)
      : context_(context), env_(std::move(env)), began_(context.now()) {}

  // A list of the launcher's.
  void Update(const std::vector<plugins::launchers::RunStatus>& runs);
  void Tick();
  size_t under_way() const { return under_way_; }

  // The memory of the forecast of the model's demand, to be kept; and its return from an earlier process.
  scheduler::autoscale::DailyPeaks::Memory PeaksOf(const std::string& model) const;
  void Recall(const std::string& model, const scheduler::autoscale::DailyPeaks::Memory& peaks) {
    peaks_[model].Recall(peaks);
  }

  std::vector<PrefetchStatus> Rows() const;
  uint64_t done() const { return done_; }
  uint64_t failed() const { return failed_; }

 private:
  struct Fetch {
    std::string model{};
    std::string node{};
    conf::TimePoint since{};
    std::string log{};
    std::string why{};
    bool listed = false;  // the launcher has told of it
    bool busy = false;    // it is being started or ended
    bool ended = false;   // it was counted; only the launcher is still to forget it
  };

  bool IsDue(const config::ModelPolicy& policy, conf::TimePoint now);
  // On how many nodes the weights are to be now; 0: no fetch is due.
  uint32_t NodesWanted(const config::ModelPolicy& policy, conf::TimePoint now);
  void Begin(const config::ModelPolicy& policy, const StartPlace& place, conf::TimePoint now);
  net::Task<void> Start(std::string run, plugins::launchers::RunSpec spec);
  net::Task<void> Conclude(plugins::launchers::RunStatus run);
  void NoteFailure(const Fetch& fetch);

  const Context& context_;
  const Environment env_;
  const conf::TimePoint began_;
  std::map<std::string, Fetch> fetches_;          // by run
  std::map<std::string, conf::TimePoint> fired_;  // by model: the last time of its policy that was taken
  std::map<std::string, scheduler::autoscale::DailyPeaks> peaks_;  // by model, of those with a forecast
  std::map<std::string, conf::TimePoint> due_until_;  // by model: while nodes lack what that time wants
  // By model and node: not before, after a failure.
  std::map<std::pair<std::string, std::string>, conf::TimePoint> not_before_;
  int64_t last_stamp_ = 0;
  conf::TimePoint next_{};
  size_t under_way_ = 0;
  uint64_t done_ = 0;
  uint64_t failed_ = 0;
};

}  // namespace gateway::control
