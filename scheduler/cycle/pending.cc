#include "scheduler/cycle/pending.h"

#include <utility>

namespace scheduler {

void Pending::Add(JobIndex job, const JobEntry& entry, conf::Duration run, double score,
                  std::optional<RunClass> run_class) {
  Key key(entry.queue, entry.job.user, entry.job.priority, entry.signature, entry.job.array,
          run_class.value_or(RunClass()));
  const auto [at, is_new] = by_key_.try_emplace(std::move(key), groups());
  if (is_new) {
    PendingGroup& group = groups_.emplace_back();
    group.queue = entry.queue;
    group.user = entry.job.user;
    group.priority = entry.job.priority;
    group.signature = entry.signature;
    group.array = entry.job.array;
    group.run_class = std::move(run_class);
  }
  PendingGroup& group = groups_[at->second];
  if (group.jobs.empty()) {
    group.occupied_at = static_cast<uint32_t>(occupied_.size());
    occupied_.push_back(at->second);
  }
  group.jobs.emplace(Place(-score, entry.sequence), PendingJob{job, run});
  group.by_run.emplace(run, entry.sequence);
  by_sequence_.emplace(entry.sequence, Spot{at->second, run, score});
  ++size_;
}

void Pending::Remove(const JobEntry& entry) {
  const auto at = by_sequence_.find(entry.sequence);
  const Spot& spot = at->second;
  PendingGroup& group = groups_[spot.group];
  group.jobs.erase({-spot.score, entry.sequence});
  group.by_run.erase({spot.run, entry.sequence});
  if (group.jobs.empty()) {
    const GroupId last = occupied_.back();
    occupied_[group.occupied_at] = last;
    groups_[last].occupied_at = group.occupied_at;
    occupied_.pop_back();
  }
  by_sequence_.erase(at);
  --size_;
}

}  // namespace scheduler
