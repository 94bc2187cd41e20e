#include "scheduler/cycle/preempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "scheduler/cycle/victim_search.h"

namespace scheduler {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// An inference replica that goes away: seconds of its devices' work that its service is at risk for, when
// nothing of the service stays.
constexpr double kServiceRiskSeconds = 600;
constexpr int kMaxAttempts = 8;  // to place the job, per area, and areas

}  // namespace

// By priority a job may make room in its own queue's limits.
bool VictimSearch::FreeQuota() {
  while (true) {
    const Verdict verdict = tree_.Admit(account_, demand_);
    if (verdict.admitted() || verdict.bound == Verdict::Bound::kLent) return true;
    if (mode_ != PreemptMode::kPriority) return false;
    size_t best = candidates_.size();
    double least = kInfinite;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& c = candidates_[i];
      const JobEntry& victim = jobs_[c.job];
      if (c.stopped || c.milli == 0 || !tree_.Under(victim.queue, verdict.queue)) continue;
      if (verdict.bound == Verdict::Bound::kUserLimit && victim.job.user != entry_.job.user) continue;
      const std::vector<MemberId> members = Ordered(state_.of(c.job));
      const std::vector<Amount> held = HeldBy(members);
      if (Total(held, verdict.kind) == 0 || !MayStop(c, held)) continue;
      const double ratio = c.weight / static_cast<double>(c.milli);
      if (ratio < least) {
        least = ratio;
        best = i;
      }
    }
    if (best == candidates_.size() || VictimCount() == policy_.max_victims) return false;
    Apply({best, true, Ordered(state_.of(candidates_[best].job)), candidates_[best].weight});
  }
}

// Quota and the rules between queues hold for what the job wants at least, and for what it then got.
bool VictimSearch::Attempt() {
  if (!MayHave(demand_) || !fits_(trial_)) return false;
  const std::vector<MemberId> placed = Ordered(state_.of(job_));
  if (MayHave(HeldBy(placed))) return true;
  trial_.Rollback(evicted_);
  return false;
}

bool VictimSearch::MayHave(const std::vector<Amount>& demand) const {
  return tree_.Admit(account_, demand).admitted() &&
         std::ranges::all_of(stops_, [&](const Stop& stop) { return MayStayStopped(stop, demand); });
}

bool VictimSearch::TryArea(const Area& area) {
  Reset(area.stops);
  uint64_t more = std::max<uint64_t>(1, entry_.members / 8);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (Attempt()) return true;
    if (!Gather(area, more)) return false;
    more *= 2;
  }
  return false;
}

uint64_t VictimSearch::CountSlots() const {
  uint64_t count = 0;
  for (NodeId n = 0; n < state_.cluster().nodes.size(); ++n) count += SlotsOn(n, 0);
  return count;
}

// Counting places suffices: without these members back there are `slots`, with them too few.
bool VictimSearch::SurelyNeeded(const Stop& stop, uint64_t slots) const {
  std::vector<Holding> back;
  back.reserve(stop.stopped.size());
  for (const Member& member : stop.stopped) back.push_back(member.holding);
  std::ranges::sort(back, {}, &Holding::node);
  for (size_t i = 0; i < back.size();) {
    const NodeId node = back[i].node;
    NodeState state = state_.node(node);
    for (; i < back.size() && back[i].node == node; ++i) Take(state, back[i], state_.view_of(node));
    slots -= SlotsOn(node, 0) - std::min(SlotsOn(node, 0), SlotsOf(state, node, 0));
  }
  return slots < entry_.job.roles[0].min_count;
}

// Gives back, from the heaviest, what is not needed, until nothing more can be. The job is placed before and
// after.
bool VictimSearch::Prune(bool one_area) {
  const bool countable = one_area && entry_.shapes.size() == 1 && entry_.shapes[0].size() == 1;
  bool gave_back = true;
  while (gave_back) {
    gave_back = false;
    trial_.Rollback(evicted_);
    uint64_t slots = countable ? CountSlots() : 0;
    std::vector<Stop> left = stops_;
    std::ranges::sort(left, {}, [](const Stop& stop) {
      return std::tuple(-stop.weight, stop.candidate, stop.stopped.front().role, stop.stopped.front().rank);
    });
    for (size_t i = 0; i < left.size();) {
      if (countable && SurelyNeeded(left[i], slots)) {
        ++i;
        continue;
      }
      std::vector<Stop> fewer = left;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      Reset(fewer);
      if (Attempt()) {
        gave_back = true;
        left = std::move(fewer);
        trial_.Rollback(evicted_);
        slots = countable ? CountSlots() : 0;
      } else {
        Reset(left);
        ++i;
      }
    }
  }
  return Attempt();
}

std::vector<Victim> VictimSearch::Report() const {
  std::vector<const Stop*> stops;
  stops.reserve(stops_.size());
  for (const Stop& stop : stops_) stops.push_back(&stop);
  std::ranges::sort(stops, {}, &Stop::candidate);  // their members are sorted below
  std::vector<Victim> victims;
  std::vector<int64_t> milli;
  for (const Stop* stop : stops) {
    const Candidate& c = candidates_[stop->candidate];
    if (victims.empty() || victims.back().job != c.job) {
      victims.push_back({.job = c.job, .whole = stop->whole, .members = {}, .why = {}});
      milli.push_back(0);
    }
    Victim& victim = victims.back();
    for (const Member& m : stop->stopped) victim.members.push_back({m.role, m.rank, m.holding});
    milli.back() += Total(stop->held, kAnyKind);
    const int64_t held = c.milli;
    victim.cost = StopCost(jobs_[c.job], milli.back(), held, victim.whole, now_);
  }
  for (Victim& victim : victims) {
    std::ranges::sort(victim.members, {}, [](const MemberAt& m) { return std::pair(m.role, m.rank); });
    const JobEntry& entry = jobs_[victim.job];
    const std::string what =
        victim.whole ? "stops" : fmt::format("gives up {} members", victim.members.size());
    victim.why =
        mode_ == PreemptMode::kReclaim
            ? Reason{"reclaimed",
                     fmt::format(
                         "{}: queue \"{}\" is beyond what it deserves, and \"{}\" of queue \"{}\", which "
                         "is below, needs the room; {:.0f} GPU-seconds are lost",
                         what, tree_.name(entry.queue), entry_.job.id, tree_.name(entry_.queue), victim.cost)}
            : Reason{"preempted-for",
                     fmt::format(
                         "{}: \"{}\" of priority {} needs the room, this has {}; {:.0f} GPU-seconds are lost",
                         what, entry_.job.id, entry_.job.priority, entry.job.priority, victim.cost)};
  }
  return victims;
}

std::vector<Victim> VictimSearch::Run(Rng& rng) {
  if (std::ranges::any_of(entry_.shapes, &std::vector<ShapeId>::empty)) return {};
  account_ = tree_.Account(entry_.queue, entry_.job.user);
  demand_ = DemandOf(entry_, shapes_, Extent::kMinimum);
  GatherCandidates(rng);
  if (candidates_.empty()) return {};
  std::vector<Area> areas;
  for (Area& area : Areas()) {
    Reset({});
    if (!FreeQuota() || !Gather(area, 0)) continue;
    for (const Stop& stop : stops_) area.weight += stop.weight;
    area.stops = stops_;
    areas.push_back(std::move(area));
  }
  std::ranges::sort(areas, {}, [](const Area& a) { return std::pair(a.weight, a.nodes.front()); });
  if (areas.size() > kMaxAttempts) areas.resize(kMaxAttempts);
  const bool one_area = !entry_.topology.required;
  for (const Area& area : areas) {
    if (TryArea(area) && Prune(one_area) && !stops_.empty()) return Report();
  }
  Reset({});
  return {};
}

double StopCost(const JobEntry& entry, int64_t stopped_milli, int64_t held_milli, bool whole,
                conf::TimePoint now) {
  const double devices = static_cast<double>(stopped_milli) / kWholeDevice;
  const Checkpoint& checkpoint = entry.job.checkpoint;
  double seconds = conf::ToSeconds(checkpoint.restart) + conf::ToSeconds(checkpoint.save);
  if (whole) seconds += std::max(0.0, conf::ToSeconds(now - entry.checkpointed));
  if (entry.job.work == WorkClass::kInference && held_milli > 0) {
    const double part = static_cast<double>(stopped_milli) / static_cast<double>(held_milli);
    seconds += kServiceRiskSeconds * part;
  }
  return devices * seconds;
}

std::vector<Victim> FindVictims(const Preemption& where, JobIndex job, PreemptMode mode, TryPlace fits,
                                Rng& rng) {
  using Spares = VictimSearch::Spares;
  std::vector<Victim> victims = VictimSearch(where, job, mode, Spares::kDeserved, fits).Run(rng);
  if (!victims.empty() || mode != PreemptMode::kReclaim) return victims;
  return VictimSearch(where, job, mode, Spares::kNothing, fits).Run(rng);
}

}  // namespace scheduler
