// Files whose change says that all is saved, or that somebody uses a notebook.
#include <sys/stat.h>

#include <algorithm>

#include "gateway/control/jobs/jobs.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kLookWhileSaving = std::chrono::seconds(1);
constexpr conf::Duration kLookElse = std::chrono::seconds(15);

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
  const bool saving = std::ranges::any_of(jobs_, [](const Job& job) {
    return job.state == JobState::kSaving && !job.file().checkpoint.saved.empty();
  });
  if (saving) next_files_ = std::min(next_files_, now + kLookWhileSaving);
  if (looking_ || closing_ || now < next_files_) return;
  next_files_ = now + kLookElse;
  around_.spawn(LookAtFiles());
}

net::Task<void> Jobs::LookAtFiles() {
  struct Watched {
    std::string job;
    std::string path;
    std::optional<conf::TimePoint> changed{};
  };
  std::vector<Watched> watched;
  for (const Job& job : jobs_) {
    if (job.state != JobState::kRunning && job.state != JobState::kSaving) continue;
    if (job.file().job.work == scheduler::WorkClass::kNotebook) {
      const std::string& path = job.file().activity.empty() ? job.members.front().log : job.file().activity;
      if (!path.empty()) watched.push_back({job.id, path});
    } else if (!job.file().checkpoint.saved.empty()) {
      watched.push_back({job.id, job.file().checkpoint.saved});
    }
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
    if (job == nullptr || !one.changed || !job->holds()) continue;
    scheduler::Planner& planner = around_.planner();
    const scheduler::JobIndex index = planner.jobs().Find(job->id);
    if (job->file().job.work == scheduler::WorkClass::kNotebook) {
      if (index != scheduler::kNone) planner.Idle(index, std::max(*one.changed, job->since));
      continue;
    }
    if (*one.changed <= std::max(job->checkpointed, job->started)) continue;
    SavedNow(*job, *one.changed);
    if (job->state != JobState::kSaving || *one.changed < job->since) continue;
    StopSaving(*job);
  }
}

}  // namespace gateway::control
