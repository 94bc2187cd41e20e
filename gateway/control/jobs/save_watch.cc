#include "gateway/control/jobs/save_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace gateway::control {
namespace {

constexpr conf::Duration kCheckWhileSaving = std::chrono::seconds(1);
constexpr conf::Duration kCheckElse = std::chrono::seconds(15);
constexpr conf::Duration kShortestInterval = std::chrono::milliseconds(100);

bool MayBeIdle(const Workload& job) {
  return job.state == State::kRunning && job.file().job.work == scheduler::WorkClass::kNotebook;
}
bool MayHaveSaved(const Workload& job) {
  const bool runs = job.state == State::kRunning || job.state == State::kSaving;
  return runs && !job.file().checkpoint.saved.empty();
}

// A notebook is suspended at the latest a quarter of its idle_timeout after that has passed.
conf::Duration CheckInterval(const Workload& job) {
  if (MayHaveSaved(job) && job.state == State::kSaving) return kCheckWhileSaving;
  if (!MayBeIdle(job)) return kCheckElse;
  return std::clamp(job.file().job.idle_timeout / 4, kShortestInterval, kCheckElse);
}

std::optional<conf::TimePoint> ChangedAt(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return conf::TimePoint(std::chrono::seconds(info.st_mtim.tv_sec) +
                         std::chrono::nanoseconds(info.st_mtim.tv_nsec));
}

}  // namespace

void SaveWatch::SavedNow(Workload& job, conf::TimePoint at) {
  const bool first = std::exchange(job.checkpointed, at) == conf::TimePoint();
  if (first && !job.resumes) {
    // The next attempt resumes, also one that another gateway starts. Later saves are kept with the next state.
    job.saved = false;
    ++job.version;
    context_.wake();
  }
  scheduler::Planner& planner = context_.planning->planner();
  if (const scheduler::JobIndex index = planner.jobs().Find(job.id); index != scheduler::kNone)
    planner.Checkpointed(index, at);
}

void SaveWatch::Tick() {
  const conf::TimePoint now = context_.now();
  conf::Duration every = kCheckElse;
  for (const Workload& job : workloads_.all()) {
    if (job.kind == Kind::kJob) every = std::min(every, CheckInterval(job));
  }
  next_files_ = std::min(next_files_, now + every);
  if (checking_ || closing_ || now < next_files_) return;
  next_files_ = now + every;
  context_.spawn(CheckFiles());
}

net::Task<void> SaveWatch::CheckFiles() {
  struct Watched {
    std::string job;
    std::string path;
    bool use = false;  // else: a change of the file is a save
    std::optional<conf::TimePoint> changed{};
  };
  std::vector<Watched> watched;
  for (const Workload& job : workloads_.all()) {
    if (job.kind != Kind::kJob) continue;
    if (MayBeIdle(job)) {
      const std::string& path = job.file().activity.empty() ? job.members.front().log : job.file().activity;
      if (!path.empty()) watched.push_back({.job = job.id, .path = path, .use = true});
    }
    if (MayHaveSaved(job)) watched.push_back({.job = job.id, .path = job.file().checkpoint.saved});
  }
  if (watched.empty()) co_return;
  checking_ = true;
  ++under_way_;
  const absl::Status checked = co_await off_loop_([&watched] {
    for (Watched& one : watched) one.changed = ChangedAt(one.path);
    return absl::OkStatus();
  });
  --under_way_;
  checking_ = false;
  if (!checked.ok()) co_return;
  for (const Watched& one : watched) {
    Workload* const job = workloads_.Find(one.job);
    if (job == nullptr) continue;
    if (one.use) {
      UsedAt(*job, one.changed);
    } else if (one.changed) {
      SavedAt(*job, *one.changed);
    }
  }
}

// Without the file, the notebook was not used since its start. The planner is told of idleness only
// just before it checks, since older reports could be out of date.
void SaveWatch::UsedAt(const Workload& job, std::optional<conf::TimePoint> at) {
  if (!MayBeIdle(job)) return;
  const conf::TimePoint idle = std::max(at.value_or(job.since), job.since);
  if (context_.now() - idle < job.file().job.idle_timeout) return;
  scheduler::Planner& planner = context_.planning->planner();
  if (const scheduler::JobIndex index = planner.jobs().Find(job.id); index != scheduler::kNone) {
    planner.Idle(index, idle);
    context_.planning->Changed();
  }
}

void SaveWatch::SavedAt(Workload& job, conf::TimePoint at) {
  if (!MayHaveSaved(job) || at <= std::max(job.checkpointed, job.started)) return;
  SavedNow(job, at);
  if (job.state == State::kSaving && at >= job.since) workloads_.StopSaving(job);
}

}  // namespace gateway::control
