#include "scheduler/sim/forecast.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "scheduler/planner.h"

namespace scheduler::sim {
namespace {

constexpr conf::Duration kMoveTime = std::chrono::minutes(1);
constexpr conf::Duration kLeast = std::chrono::seconds(1);  // an event lies ahead of the cycle that made it

enum class Kind : uint8_t { kEnds, kStopped, kMoved };

struct Step {
  conf::TimePoint at{};
  Kind kind = Kind::kEnds;
  std::string job{};
  friend auto operator<=>(const Step& a, const Step& b) {
    return std::tie(a.at, a.kind, a.job) <=> std::tie(b.at, b.kind, b.job);
  }
};

class Forecaster {
 public:
  Forecaster(const Snapshot& snapshot, const Policy& policy, const ForecastOptions& options)
      : options_(options),
        unknown_estimate_(policy.backfill.unknown_estimate),
        planner_(snapshot, policy),
        now_(snapshot.as_of) {
    for (const JobState& state : snapshot.jobs) {
      if (state.phase == Phase::kPending && state.job.work != WorkClass::kInference) {
        by_id_[state.job.id] = out_.jobs.size();
        out_.jobs.push_back({.id = state.job.id, .queue = state.job.queue, .tenant = state.job.tenant});
      }
      if (state.phase == Phase::kRunning) ScheduleEnd(state.job.id);
      if (state.phase == Phase::kStopping) Add(Kind::kStopped, state.job.id, state.stops_at);
      if (!state.leaving.empty()) Add(Kind::kMoved, state.job.id, now_ + kMoveTime);
    }
  }

  Forecast Run(const std::function<bool(size_t, size_t)>& go_on) {
    const conf::TimePoint horizon = now_ + options_.horizon;
    while (true) {
      Rng rng = CycleRng(options_.seed, planner_.version());
      for (const Action& action : planner_.Run(now_, rng).actions) Apply(action);
      ++out_.cycles;
      if (started_ == out_.jobs.size()) {
        out_.whole = true;
        break;
      }
      if (!go_on(started_, out_.jobs.size()) || out_.cycles >= options_.max_cycles) break;
      std::optional<conf::TimePoint> next = planner_.NextDue();
      if (next) next = std::max(*next, now_ + kLeast);
      if (!events_.empty() && (!next || events_.begin()->at < *next)) next = events_.begin()->at;
      if (!next || *next > horizon) {
        now_ = horizon;
        out_.whole = true;
        break;
      }
      now_ = *next;
      while (!events_.empty() && events_.begin()->at <= now_) {
        const Step event = *events_.begin();
        events_.erase(events_.begin());
        Happen(event);
      }
    }
    out_.until = now_;
    return std::move(out_);
  }

 private:
  void Add(Kind kind, const std::string& job, conf::TimePoint at) {
    events_.insert({std::max(at, now_ + kLeast), kind, job});
  }

  void DropEnd(const std::string& job) {
    std::erase_if(events_, [&](const Step& event) { return event.kind == Kind::kEnds && event.job == job; });
    end_of_.erase(job);
  }

  // Replicas, and notebooks without a limit, end by no time of their own.
  bool EndsByItself(const Job& job) const {
    if (job.work == WorkClass::kInference) return false;
    return job.work != WorkClass::kNotebook || job.estimate || job.limit;
  }

  void ScheduleEnd(const std::string& id) {
    const JobIndex index = planner_.jobs().Find(id);
    if (index == kNone || !EndsByItself(planner_.jobs()[index].job)) return;
    const conf::TimePoint end = planner_.jobs().ExpectedEnd(index, now_, unknown_estimate_);
    end_of_[id] = std::max(end, now_ + kLeast);
    Add(Kind::kEnds, id, end);
  }

  void Apply(const Action& action) {
    const JobIndex index = planner_.jobs().Find(action.job);
    switch (action.kind) {
      case ActionKind::kStart:
        if (end_of_.contains(action.job)) return;  // more members of a job that runs
        ScheduleEnd(action.job);
        Started(action.job);
        return;
      case ActionKind::kPreempt:
        ++out_.preemptions;
        [[fallthrough]];
      case ActionKind::kSuspend:
      case ActionKind::kStop:
        DropEnd(action.job);
        // A job that never started has left at once.
        if (index != kNone) Add(Kind::kStopped, action.job, now_ + action.grace);
        return;
      case ActionKind::kMove:
        return Add(Kind::kMoved, action.job, now_ + kMoveTime);
      case ActionKind::kShrink:
        return Add(Kind::kMoved, action.job, now_ + action.grace);
    }
  }

  void Started(const std::string& id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end() || out_.jobs[found->second].starts) return;
    ForecastJob& job = out_.jobs[found->second];
    job.starts = now_;
    if (const auto end = end_of_.find(id); end != end_of_.end()) job.ends = end->second;
    ++started_;
  }

  void Happen(const Step& event) {
    const JobIndex index = planner_.jobs().Find(event.job);
    if (index == kNone) return;
    const JobEntry& entry = planner_.jobs()[index];
    switch (event.kind) {
      case Kind::kEnds:
        end_of_.erase(event.job);
        if (entry.phase == Phase::kRunning) planner_.Ended(index, now_);
        return;
      case Kind::kStopped:
        if (entry.phase == Phase::kStopping) planner_.Stopped(index, now_);
        return;
      case Kind::kMoved:
        if (!entry.leaving.empty()) planner_.Moved(index, now_);
        return;
    }
  }

  const ForecastOptions options_;
  const conf::Duration unknown_estimate_;
  Planner planner_;
  conf::TimePoint now_;
  Forecast out_;
  size_t started_ = 0;
  std::set<Step> events_;
  absl::flat_hash_map<std::string, conf::TimePoint> end_of_;  // of jobs that run
  absl::flat_hash_map<std::string, size_t> by_id_;            // of jobs that waited
};

}  // namespace

Forecast ForecastStarts(const Snapshot& snapshot, const Policy& policy, const ForecastOptions& options,
                        const std::function<bool(size_t, size_t)>& go_on) {
  return Forecaster(snapshot, policy, options).Run(go_on);
}

}  // namespace scheduler::sim
