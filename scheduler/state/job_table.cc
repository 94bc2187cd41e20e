#include "scheduler/state/job_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "conf/hash.h"

namespace scheduler {
namespace {

constexpr conf::Duration kFirstOverrun = std::chrono::minutes(5);

}  // namespace

Rng OwnRng(const Job& job) {
  return Rng(conf::Fnv1a(job.id));
}

JobIndex JobTable::Add(Job job, uint32_t queue) {
  JobIndex index;
  if (unused_.empty()) {
    index = bound();
    entries_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  JobEntry& entry = entries_[index];
  entry = JobEntry{};
  entry.job = std::move(job);
  entry.topology = entry.job.topology;
  entry.sequence = next_sequence_++;
  entry.queue = queue;
  entry.device_milli = DeviceMilli(entry.job, shapes_->cluster());
  entry.members = Members(entry.job);
  entry.alive = true;
  for (const Role& role : entry.job.roles)
    entry.shapes.push_back(shapes_->Resolve(role.ask, entry.job.tenant));
  entry.signature = SignatureOf(entry);
  by_id_.emplace(entry.job.id, index);
  return index;
}

uint32_t JobTable::SignatureOf(const JobEntry& entry) {
  const Job& job = entry.job;
  std::string text = fmt::format("{}|{}|{}{}{}|", entry.topology.level, entry.topology.required, job.spread,
                                 job.anti_affinity, static_cast<int>(job.work == WorkClass::kInference));
  for (const WorkClass spared : job.never_preempts)
    fmt::format_to(std::back_inserter(text), "!{}", static_cast<int>(spared));
  if (job.spread) fmt::format_to(std::back_inserter(text), "/{}:{}", job.spread_over.size(), job.spread_over);
  for (const ResourceAsk& ask : job.resources)
    fmt::format_to(std::back_inserter(text), "${}:{}={}", ask.name.size(), ask.name, ask.count);
  for (const MemberAt& at : job.pinned) {
    fmt::format_to(std::back_inserter(text), "@{}:{:x}:{}:{}:{},", at.holding.node, at.holding.devices,
                   at.holding.milli, at.holding.profile, at.holding.start);
  }
  for (size_t r = 0; r < job.roles.size(); ++r) {
    fmt::format_to(std::back_inserter(text), "{}:{}:{};", job.roles[r].count, job.roles[r].min_count,
                   fmt::join(entry.shapes[r], ","));
  }
  return signatures_.try_emplace(std::move(text), signatures()).first->second;
}

void JobTable::RequireNearness(JobIndex index, bool required) {
  JobEntry& entry = entries_[index];
  entry.topology.required = required;
  entry.signature = SignatureOf(entry);
}

void JobTable::Erase(JobIndex index) {
  by_id_.erase(entries_[index].job.id);
  entries_[index] = JobEntry{};
  unused_.push_back(index);
}

JobIndex JobTable::Find(const std::string& id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? kNone : at->second;
}

conf::Duration JobTable::ExpectedRun(JobIndex index, conf::Duration unknown_estimate) const {
  const JobEntry& entry = entries_[index];
  const conf::Duration whole = entry.job.estimate.value_or(entry.job.limit.value_or(unknown_estimate));
  const conf::Duration restart =
      entry.done > conf::Duration::zero() ? entry.job.checkpoint.restart : conf::Duration();
  return std::max(whole - entry.done, conf::Duration(std::chrono::seconds(1))) + restart;
}

conf::TimePoint JobTable::ExpectedEnd(JobIndex index, conf::TimePoint now,
                                      conf::Duration unknown_estimate) const {
  const JobEntry& entry = entries_[index];
  if (entry.phase == Phase::kStopping) return std::max(entry.stops_at, now);
  const conf::TimePoint end = entry.started + ExpectedRun(index, unknown_estimate);
  if (now < end) return end;
  conf::Duration over = kFirstOverrun;
  while (end + over <= now) over *= 2;
  return end + over;
}

}  // namespace scheduler
