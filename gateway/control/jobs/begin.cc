// Jobs' beginning: what a process before this one has left.
#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "gateway/control/jobs/jobs.h"
#include "gateway/log.h"

namespace gateway::control {
namespace {

using plugins::launchers::RunStatus;
using scheduler::AfterStop;
using scheduler::Phase;

// As the planner knew it.
scheduler::JobState SeatOf(const Job& job, const std::vector<std::string>& uncut, conf::TimePoint now) {
  scheduler::JobState seat;
  seat.job = AskOf(job, uncut);
  seat.restarts = job.restarts;
  if (!job.holds()) return seat;
  seat.phase = Phase::kRunning;
  seat.started = seat.checkpointed = job.started;
  const bool ends = job.state == JobState::kSaving || job.state == JobState::kStopping;
  if (ends && job.afterwards == Afterwards::kResizes) {
    seat.members = job.next;
    for (const JobMember& member : job.members) {
      if (std::ranges::find(job.next, member.at) == job.next.end()) seat.leaving.push_back(member.at);
    }
    return seat;
  }
  for (const JobMember& member : job.members) seat.members.push_back(member.at);
  if (ends && job.afterwards == Afterwards::kWaits) {
    seat.phase = Phase::kStopping;
    seat.after_stop = AfterStop::kWaits;
    seat.stops_at = now;
  }
  return seat;
}

}  // namespace

net::Task<absl::Status> Jobs::Open() {
  absl::StatusOr<KnownJobs> known = KnownJobs();
  const absl::Status read = co_await around_.off_loop([this, &known] {
    const absl::StatusOr<std::string> text = journal_.Read();
    if (!text.ok()) return text.status();
    known = ParseJobs(*text, *around_.cluster);
    if (!known.ok()) return known.status();
    return journal_.Replace(TextOf(*known, *around_.cluster));
  });
  if (!read.ok()) {
    co_return absl::Status(read.code(),
                           conf::Abseil(fmt::format("{}: {}", around_.file, conf::Std(read.message()))));
  }
  last_number_ = known->last_number;
  for (Job& job : known->jobs) Add(std::move(job));
  co_return absl::OkStatus();
}

void Jobs::TakeOver(const std::vector<RunStatus>& runs,
                    const std::function<bool(scheduler::JobState)>& seat) {
  std::map<std::string_view, const RunStatus*> by_id;
  for (const RunStatus& run : runs) by_id.emplace(run.id, &run);
  for (Job& job : jobs_) {
    if (IsOver(job.state) || job.state == JobState::kSuspended) continue;
    for (JobMember& member : job.members) {
      if (!job.holds() || member.ended) continue;
      const bool there = by_id.contains(member.run);
      // What was being started is asked for again: a launcher that has it starts no other.
      member.asked = there || job.state != JobState::kStarting;
      member.started = there;
      if (there || job.state == JobState::kStarting) continue;
      member.ended = true;
      member.why = "it was not there any more when this gateway started";
    }
    job.held = !job.holds() && !Awaits(job).empty();
    if (job.held) continue;
    const bool seated = seat(SeatOf(job, around_.uncut, around_.now()));
    log::Info("job found", {{"job", job.id}, {"state", Name(job.state)}, {"seated", seated}});
    if (!seated && job.holds())
      End(job, Afterwards::kWaits, "the devices that it was given are not there any more");
  }
  LookAtBudgets();
  (void)Observe(runs);
}

}  // namespace gateway::control
