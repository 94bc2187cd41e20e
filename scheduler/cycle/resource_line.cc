#include "scheduler/cycle/resource_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace scheduler {

// The free amount, without the part that is due to nominated jobs.
uint32_t ResourceLine::FreeFor(JobIndex job, const std::string& name) const {
  uint32_t free = s_.resources.free(name);
  for (const Reservation& reservation : book_.all()) {
    if (!reservation.is_nomination() || reservation.job == job) continue;
    free -= std::min(free, AskedOf(s_.jobs[reservation.job].job.resources, name));
  }
  return free;
}

// From its start, or from when enough is free.
ResourceLine::Kept ResourceLine::KeepFor(JobIndex job, const ResourceAsk& ask, conf::TimePoint start) {
  uint64_t comes = FreeFor(job, ask.name);
  bool enough = comes >= ask.count;
  conf::TimePoint from = start;
  for (const Release& release : draft_.Releases()) {
    if (enough && release.at > from) break;
    comes += AskedOf(s_.jobs[release.job].job.resources, ask.name);
    if (enough || comes < ask.count) continue;
    enough = true;
    from = std::max(from, release.at);
  }
  if (!enough) return {.job = job, .from = conf::TimePoint::max(), .spare = 0};
  return {.job = job, .from = from, .spare = static_cast<uint32_t>(comes - ask.count)};
}

void ResourceLine::Reserved(JobIndex job, conf::TimePoint start) {
  if (s_.policy.backfill.kind == Backfill::kBestEffort) return;
  for (const ResourceAsk& ask : s_.jobs[job].job.resources) {
    if (!kept_.contains(ask.name)) kept_.emplace(ask.name, KeepFor(job, ask, start));
  }
}

std::optional<ResourceLine::Refusal> ResourceLine::WhyNot(JobIndex job, const ResourceAsk& ask) const {
  const uint32_t free = FreeFor(job, ask.name);
  if (ask.count > free) {
    const uint32_t total = s_.resources.total(ask.name);
    if (ask.count > total) {
      return Refusal{{"impossible", fmt::format("asks for {} of the resource {}, the cluster has {}",
                                                ask.count, ask.name, total)},
                     conf::TimePoint::min()};
    }
    return Refusal{{"resource", fmt::format("asks for {} of the resource {}, of which {} of {} {} free",
                                            ask.count, ask.name, free, total, free == 1 ? "is" : "are")},
                   conf::TimePoint::min()};
  }
  const auto kept = kept_.find(ask.name);
  if (kept == kept_.end() || ask.count <= kept->second.spare) return std::nullopt;
  if (draft_.now() + s_.ExpectedRun(job) <= kept->second.from) return std::nullopt;
  return Refusal{
      {"resource-kept", fmt::format("the free part of the resource {} is kept for {}, which goes first",
                                    ask.name, s_.jobs[kept->second.job].job.id)},
      kept->second.from};
}

std::optional<ResourceLine::Refusal> ResourceLine::WhyNot(JobIndex job) {
  for (const ResourceAsk& ask : s_.jobs[job].job.resources) {
    std::optional<Refusal> refusal = WhyNot(job, ask);
    if (!refusal) continue;
    const bool comes = ask.count > FreeFor(job, ask.name) && ask.count <= s_.resources.total(ask.name);
    if (comes && s_.policy.backfill.kind != Backfill::kBestEffort && !kept_.contains(ask.name))
      kept_.emplace(ask.name, KeepFor(job, ask, draft_.now()));
    return refusal;
  }
  return std::nullopt;
}

bool ResourceLine::MayHave(JobIndex job) const {
  return std::ranges::none_of(s_.jobs[job].job.resources,
                              [&](const ResourceAsk& ask) { return WhyNot(job, ask).has_value(); });
}

// A job that ends before that moment takes nothing of what is left then.
void ResourceLine::Started(JobIndex job) {
  const JobEntry& entry = s_.jobs[job];
  for (const ResourceAsk& ask : entry.job.resources) {
    const auto kept = kept_.find(ask.name);
    if (kept == kept_.end() || draft_.now() + s_.ExpectedRun(job) <= kept->second.from) continue;
    kept->second.spare -= std::min(kept->second.spare, ask.count);
  }
}

}  // namespace scheduler
