// Files whose change says that all is saved, or that somebody uses a notebook.
#include <sys/stat.h>

#include <algorithm>

#include "gateway/control/jobs/jobs.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kLookWhileSaving = std::chrono::seconds(1);
constexpr conf::Duration kLookElse = std::chrono::seconds(15);
constexpr conf::Duration kShortestLook = std::chrono::milliseconds(100);

bool MayBeIdle(const Job& job) {
  return job.state == JobState::kRunning && job.file().job.work == scheduler::WorkClass::kNotebook;
}
bool MayHaveSaved(const Job& job) {
  const bool runs = job.state == JobState::kRunning || job.state == JobState::kSaving;
  return runs && !job.file().checkpoint.saved.empty();
}

// A notebook is suspended when at most a quarter of its idle_timeout has passed once more.
conf::Duration LookEvery(const Job& job) {
  if (MayHaveSaved(job) && job.state == JobState::kSaving) return kLookWhileSaving;
  if (!MayBeIdle(job)) return kLookElse;
  return std::clamp(job.file().job.idle_timeout / 4, kShortestLook, kLookElse);
}

std::optional<conf::TimePoint> ChangedAt(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return conf::TimePoint(std::chrono::seconds(info.st_mtim.tv_sec) +
                         std::chrono::nanoseconds(info.st_mtim.tv_nsec));
}

}  // namespace

void Jobs::SavedNow(Job& job, conf::TimePoint at) {
  job.checkpointed = at;
  scheduler::Planner& planner = around_.planner();
  if (const scheduler::JobIndex index = planner.jobs().Find(job.id); index != scheduler::kNone)
    planner.Checkpointed(index, at);
}

void Jobs::WatchFiles() {
  const conf::TimePoint now = around_.now();
  conf::Duration every = kLookElse;
  for (const Job& job : jobs_) every = std::min(every, LookEvery(job));
  next_files_ = std::min(next_files_, now + every);
  if (looking_ || closing_ || now < next_files_) return;
  next_files_ = now + every;
  around_.spawn(LookAtFiles());
}

net::Task<void> Jobs::LookAtFiles() {
  struct Watched {
    std::string job;
    std::string path;
    bool use = false;  // else its change is a save
    std::optional<conf::TimePoint> changed{};
  };
  std::vector<Watched> watched;
  for (const Job& job : jobs_) {
    if (MayBeIdle(job)) {
      const std::string& path = job.file().activity.empty() ? job.members.front().log : job.file().activity;
      if (!path.empty()) watched.push_back({.job = job.id, .path = path, .use = true});
    }
    if (MayHaveSaved(job)) watched.push_back({.job = job.id, .path = job.file().checkpoint.saved});
  }
  if (watched.empty()) co_return;
  looking_ = true;
  ++under_way_;
  const absl::Status looked = co_await around_.off_loop([&watched] {
    for (Watched& one : watched) one.changed = ChangedAt(one.path);
    return absl::OkStatus();
  });
  --under_way_;
  looking_ = false;
  if (!looked.ok()) co_return;
  for (const Watched& one : watched) {
    Job* const job = Get(one.job);
    if (job == nullptr) continue;
    if (one.use) {
      UsedAt(*job, one.changed);
    } else if (one.changed) {
      SavedAt(*job, *one.changed);
    }
  }
}

// Where there is no such file, nobody has used it since it runs. The planner is told of no idleness that may
// end before it looks: that would be out of date by then.
void Jobs::UsedAt(const Job& job, std::optional<conf::TimePoint> at) {
  if (!MayBeIdle(job)) return;
  const conf::TimePoint idle = std::max(at.value_or(job.since), job.since);
  if (around_.now() - idle < job.file().job.idle_timeout) return;
  scheduler::Planner& planner = around_.planner();
  if (const scheduler::JobIndex index = planner.jobs().Find(job.id); index != scheduler::kNone) {
    planner.Idle(index, idle);
    around_.changed();
  }
}

void Jobs::SavedAt(Job& job, conf::TimePoint at) {
  if (!MayHaveSaved(job) || at <= std::max(job.checkpointed, job.started)) return;
  SavedNow(job, at);
  if (job.state == JobState::kSaving && at >= job.since) StopSaving(job);
}

}  // namespace gateway::control
