// Jobs that come after others: they wait until those have ended well, and fail when one of them has not.
#include <fmt/format.h>

#include <map>
#include <utility>

#include "gateway/control/jobs/jobs.h"

namespace gateway::control {

Jobs::Outcome Jobs::OutcomeOf(const std::string& name) const {
  Outcome all = Outcome::kDone;  // what is forgotten had ended well, or this would have failed by then
  const auto count = [&all](const Job& job) {
    if (job.state == JobState::kFailed || job.state == JobState::kCancelled) all = Outcome::kFailed;
    if (!IsOver(job.state) && all == Outcome::kDone) all = Outcome::kOpen;
  };
  if (const Job* const job = Find(name)) count(*job);
  const std::string elements = name + ".";
  for (auto at = by_id_.lower_bound(elements); at != by_id_.end() && at->first.starts_with(elements); ++at)
    count(*at->second);
  return all;
}

std::vector<std::string> Jobs::Awaits(const Job& job) const {
  std::vector<std::string> names;
  for (const std::string& name : job.file().job.after) {
    if (OutcomeOf(name) != Outcome::kDone) names.push_back(name);
  }
  return names;
}

// Those for which what they wait for has come, or never will.
void Jobs::LookAtHeld() {
  const conf::TimePoint now = around_.now();
  const bool some_ended = std::exchange(some_ended_, false);
  std::map<std::string_view, Outcome> outcomes;  // many come after the same array
  for (Job& job : jobs_) {
    if (job.state != JobState::kPending || !job.held || !job.crashes.MayStart(now)) continue;
    if (!some_ended && job.crashes.failures() == 0) continue;
    bool open = false;
    for (const std::string& name : job.file().job.after) {
      const auto [at, added] = outcomes.try_emplace(name);
      if (added) at->second = OutcomeOf(name);
      open |= at->second == Outcome::kOpen;
      if (at->second != Outcome::kFailed) continue;
      Enter(job, JobState::kFailed, fmt::format("{}, which it comes after, did not end well", name));
      break;
    }
    if (!open && job.state == JobState::kPending) AskPlanner(job);
  }
}

}  // namespace gateway::control
