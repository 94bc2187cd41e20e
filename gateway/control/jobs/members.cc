// What the launcher says of jobs' members, and what that makes of the jobs.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "gateway/control/jobs/jobs.h"

namespace gateway::control {
namespace {

using plugins::launchers::RunState;
using plugins::launchers::RunStatus;

constexpr conf::Duration kMissing = std::chrono::seconds(3);

std::string WhyEnded(size_t rank, const JobMember& member) {
  std::string how = member.exit_code ? fmt::format("member {} exited with {}", rank, *member.exit_code)
                                     : fmt::format("member {} ended", rank);
  if (!member.why.empty()) how += ": " + member.why;
  return how;
}

}  // namespace

std::vector<RunStatus> Jobs::Observe(const std::vector<RunStatus>& runs) {
  const conf::TimePoint now = around_.now();
  std::map<std::string_view, const RunStatus*> by_id;
  for (const RunStatus& run : runs) {
    if (IsJobRun(run.id)) by_id.emplace(run.id, &run);
  }
  for (Job& job : jobs_) {
    for (const JobMember& member : job.before) by_id.erase(member.run);
    for (JobMember& member : job.members) {
      const auto found = by_id.find(member.run);
      if (found == by_id.end()) {
        if (!job.holds() || member.ended || !member.started) continue;
        if (!member.missing) member.missing = now;
        if (now - *member.missing < kMissing) continue;
        member.ended = true;
        member.why = "it is not there any more";
        continue;
      }
      const RunStatus& run = *found->second;
      by_id.erase(found);
      member.missing.reset();
      member.log = run.log;
      if (!job.holds() || member.ended) continue;
      member.running = run.state == RunState::kRunning;
      if (run.state != RunState::kEnded) {
        if (!run.why.empty()) member.why = run.why;
        continue;
      }
      member.ended = true;
      member.exit_code = run.exit_code;
      member.why = run.signal
                       ? fmt::format("by signal {}{}{}", *run.signal, run.why.empty() ? "" : ", ", run.why)
                       : run.why;
    }
    if (job.holds()) Look(job);
  }
  std::vector<RunStatus> unknown;
  unknown.reserve(by_id.size());
  for (const auto& [id, run] : by_id) unknown.push_back(*run);
  return unknown;
}

// What its members have come to.
void Jobs::Look(Job& job) {
  const conf::TimePoint now = around_.now();
  const bool coming = job.state == JobState::kStarting;
  if (coming || job.state == JobState::kRunning) {
    if (!job.members.empty() && std::ranges::all_of(job.members, &JobMember::ended_well)) {
      return End(job, Afterwards::kEnds, "its members have done their work");
    }
    for (size_t rank = 0; rank < job.members.size(); ++rank) {
      const JobMember& member = job.members[rank];
      if (!member.ended || member.ended_well()) continue;
      return End(job, Afterwards::kRetries, WhyEnded(rank, member));
    }
  }
  if (coming) {
    const auto there = [](const JobMember& m) { return m.running || m.ended; };
    if (std::ranges::all_of(job.members, there)) {
      job.ran_from = now;
      Enter(job, JobState::kRunning, job.why);
    } else if (now - job.since > job.file().start_timeout) {
      const auto late = std::ranges::find_if_not(job.members, there);
      End(job, Afterwards::kRetries,
          fmt::format("member {} does not run within {}{}{}", late - job.members.begin(),
                      conf::FormatDuration(job.file().start_timeout), late->why.empty() ? "" : ": ",
                      late->why));
    }
  } else if (job.state == JobState::kSaving && job.all_ended()) {
    SavedNow(job, now);
    StopSaving(job);
  } else if (job.state == JobState::kStopping && job.all_ended()) {
    job.next_step = {};
    around_.wake();
  }
}

}  // namespace gateway::control
