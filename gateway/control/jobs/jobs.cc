#include "gateway/control/jobs/jobs.h"

#include <algorithm>

#include "gateway/log.h"

namespace gateway::control {
namespace {

constexpr size_t kMaxWrites = 4096;  // that wait for each other

}  // namespace

Jobs::Jobs(JobsAround around) : around_(std::move(around)), journal_(around_.file), writes_(kMaxWrites) {}

const Job* Jobs::Find(const std::string& id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &*at->second;
}

Job* Jobs::Get(const std::string& id) {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &*at->second;
}

Job& Jobs::Add(Job job) {
  jobs_.push_back(std::move(job));
  by_id_[jobs_.back().id] = std::prev(jobs_.end());
  return jobs_.back();
}

void Jobs::Enter(Job& job, JobState state, std::string why, std::string actor) {
  job.state = state;
  job.since = around_.now();
  job.why = std::move(why);
  job.actor = std::move(actor);
  job.recorded = job.saved = false;
  job.next_step = {};
  job.unplaced.clear();
  job.withheld = false;
  for (JobMember& member : job.members) member.told = false;
  ++job.version;
  some_ended_ |= IsOver(state);
  log::Info("job", {{"job", job.id}, {"state", Name(state)}, {"why", job.why}});
  around_.wake();
}

// What time alone brings about.
void Jobs::Tick() {
  const conf::TimePoint now = around_.now();
  for (Job& job : jobs_) {
    if (job.state == JobState::kStarting) {
      Look(job);
    } else if (job.state == JobState::kRunning) {
      const config::JobCheckpoint& by = job.file().checkpoint;
      const conf::Duration interval = job.file().job.checkpoint.interval;
      if (by.given && by.saved.empty() && now - std::max(job.checkpointed, job.since) >= interval)
        SavedNow(job, now);
    } else if (job.state == JobState::kSaving) {
      if (now - job.since < job.file().checkpoint.grace) continue;
      if (job.file().checkpoint.saved.empty()) SavedNow(job, now);
      StopSaving(job);
    }
  }
  WatchFiles();
  LookAtHeld();
  LookAtBudgets();
  DropOver();
}

// Those that are over longest go when there are too many.
void Jobs::DropOver() {
  size_t over =
      static_cast<size_t>(std::ranges::count_if(jobs_, [](const Job& job) { return IsOver(job.state); }));
  for (auto job = jobs_.begin(); over > kKeptOver && job != jobs_.end();) {
    if (!IsOver(job->state) || job->busy || !job->saved) {
      ++job;
      continue;
    }
    for (const JobMember& member : job->members) to_forget_.push_back(member.run);
    for (const JobMember& member : job->before) to_forget_.push_back(member.run);
    unwritten_.Put(job->id, LineOfForgotten(job->id));
    by_id_.erase(job->id);
    job = jobs_.erase(job);
    --over;
  }
}

}  // namespace gateway::control
