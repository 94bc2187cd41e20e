#include "scheduler/cycle/victim_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

#include "conf/shown.h"
#include "scheduler/filler.h"
#include "scheduler/placement/filters.h"

namespace scheduler {
namespace {

__extension__ using Wide = __int128;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// The cost of the last inference replica of a service: its risk, in seconds of the work of its devices.
constexpr double kServiceRiskSeconds = 600;
// The start of a replica elsewhere, in seconds, where its duration is not known.
constexpr double kReplicaStartSeconds = 60;
constexpr int kMaxAttempts = 8;  // to place the job, per area, and areas

// `surplus`: how many members of each role the elastic gang can spare. The member of rank 0 stays.
bool MayLeave(const Member& member, const std::vector<uint32_t>& surplus) {
  return surplus[member.role] > 0 && member.rank != 0;
}

// The search and the stops that it tries.
//
// Stops are made in the trial and refunded in the tree at once, so that each is judged by the state that the earlier
// ones left; Reset takes them back. Lives for one search.
class VictimSearch {
 public:
  // Whether a reclaim leaves the victims' queues what they deserve, or may go below.
  enum class Spares : uint8_t { kDeserved, kNothing };

  VictimSearch(const VictimSearchInput& input, JobIndex job, PreemptMode mode, Spares spares, TryPlace fits)
      : trial_(input.trial),
        state_(input.trial.state()),
        jobs_(input.jobs),
        shapes_(input.shapes),
        tree_(input.tree),
        policy_(input.policy),
        now_(input.now),
        among_(input.among),
        begins_(input.begins),
        job_(job),
        entry_(input.jobs[job]),
        mode_(mode),
        spares_(spares),
        fits_(fits),
        start_(input.trial.mark()) {}

  std::vector<Victim> Run(Rng& rng);

 private:
  struct Candidate {
    JobIndex job = kNone;
    AccountId account = 0;
    QueueIndex ours = kNone;        // above the preemptor's queue, beside `theirs`
    QueueIndex theirs = kNone;      // above the victim's queue; equal to `ours` within one queue
    int64_t milli = 0;              // held by all its members
    double weight = 0;              // the key of the victims' order
    std::vector<uint32_t> surplus;  // per role, members that may still leave
    bool stopped = false;           // as a whole
  };

  // One stop: of some members, or of all that are left.
  struct Stop {
    size_t candidate = 0;
    bool whole = true;
    std::vector<MemberId> members;
    double weight = 0;
    // Once it is made, what the members held.
    std::vector<Member> stopped{};
    std::vector<Amount> held{};
  };

  struct Option {
    double ratio = std::numeric_limits<double>::infinity();  // weight per place won
    std::vector<Stop> stops;
  };

  struct Area {
    std::vector<NodeId> nodes;
    double weight = 0;
    std::vector<Stop> stops;
  };

  bool MayChoose(JobIndex other) const;
  void GatherCandidates(Rng& rng);
  double CostOf(JobIndex job, int64_t stopped_milli, int64_t held_milli, bool whole) const;
  double WeightOf(JobIndex job, int64_t milli, Rng& rng) const;
  double WeightOf(const Candidate& c, const std::vector<MemberId>& members, bool whole) const;
  static int64_t Total(const std::vector<Amount>& amounts, KindId counted_by);
  std::vector<MemberId> Ordered(std::span<const MemberId> members) const;
  std::vector<Amount> HeldBy(const std::vector<MemberId>& members) const;
  int64_t MilliOf(const std::vector<MemberId>& members) const;
  // Queues keep neither fillers nor jobs that have outlived their estimates.
  bool StopsFreely(const Candidate& c) const {
    return mode_ == PreemptMode::kOverrun || (mode_ == PreemptMode::kPriority && IsFiller(jobs_[c.job].job));
  }
  bool MayStop(const Candidate& c, const std::vector<Amount>& held) const;
  bool MayStayStopped(const Stop& stop, const std::vector<Amount>& demand) const;
  bool Allows(const Candidate& c, KindId kind, int64_t theirs_after, const Standing& theirs,
              const std::vector<Amount>& demand) const;

  std::vector<Area> Areas() const;
  bool Gather(const Area& area, uint64_t more);
  Option BestOn(NodeId node, size_t role, uint64_t need);
  std::vector<Stop> StopsOn(NodeId node, uint64_t need);
  std::pair<uint16_t, uint32_t> FirstOf(const Stop& stop) const {
    const Member& member = state_.member(stop.members.front());
    return {member.role, member.rank};
  }
  void Consider(NodeId node, size_t role, uint64_t need, const std::vector<Stop>& stops, Option& best);
  uint64_t SlotsOn(NodeId node, size_t role) const;
  uint64_t SlotsOf(const NodeState& state, NodeId node, size_t role) const;
  bool Allowed(NodeId node, ShapeId shape) const;

  bool StopHolders();
  bool FreeQuota();
  bool Attempt();
  bool MayHave(const std::vector<Amount>& demand) const;
  void StopWhole(Stop stop);
  void Apply(Stop stop);
  void Reset(const std::vector<Stop>& stops);
  bool TryArea(const Area& area);
  bool Prune(bool one_area);
  uint64_t CountSlots() const;
  bool SurelyNeeded(const Stop& stop, uint64_t slots) const;
  size_t VictimCount() const;
  Reason WhyStopped(const Victim& victim) const;
  std::vector<Victim> Report() const;

  Trial& trial_;
  ClusterState& state_;
  const JobTable& jobs_;
  const ShapeTable& shapes_;
  QueueTree& tree_;
  const PreemptionPolicy& policy_;
  conf::TimePoint now_;
  const std::function<bool(JobIndex)>& among_;
  const std::function<bool(JobIndex)>& begins_;
  JobIndex job_;
  const JobEntry& entry_;
  PreemptMode mode_;
  Spares spares_;
  TryPlace fits_;
  Trial::Mark start_;

  AccountId account_ = 0;
  std::vector<Amount> demand_;
  std::vector<Candidate> candidates_;   // by sequence
  std::vector<uint32_t> candidate_of_;  // by job
  std::vector<Stop> stops_;             // evicted in the trial, refunded in the tree
  Trial::Mark evicted_ = 0;             // the trial with them, before the job is placed
};

int64_t VictimSearch::Total(const std::vector<Amount>& amounts, KindId counted_by) {
  int64_t sum = 0;
  for (const Amount& a : amounts) sum += counted_by == kAnyKind || a.kind == counted_by ? a.milli : 0;
  return sum;
}

std::vector<MemberId> VictimSearch::Ordered(std::span<const MemberId> members) const {
  std::vector<MemberId> sorted(members.begin(), members.end());
  std::ranges::sort(
      sorted, {}, [this](MemberId id) { return std::pair(state_.member(id).role, state_.member(id).rank); });
  return sorted;
}

std::vector<Amount> VictimSearch::HeldBy(const std::vector<MemberId>& members) const {
  std::vector<Amount> held;
  for (const MemberId id : members) {
    const Holding& holding = state_.member(id).holding;
    const Amount amount = AmountOf(holding, state_.view_of(holding.node));
    const auto at = std::ranges::find(held, amount.kind, &Amount::kind);
    if (at != held.end()) {
      at->milli += amount.milli;
    } else if (amount.milli > 0) {
      held.push_back(amount);
    }
  }
  return held;
}

int64_t VictimSearch::MilliOf(const std::vector<MemberId>& members) const {
  int64_t milli = 0;
  for (const MemberId id : members) {
    const Holding& holding = state_.member(id).holding;
    milli += HeldMilli(holding, state_.view_of(holding.node));
  }
  return milli;
}

bool VictimSearch::MayChoose(JobIndex other) const {
  if (mode_ == PreemptMode::kMove) return among_(other);
  const JobEntry& entry = jobs_[other];
  const std::vector<WorkClass>& spared = entry_.job.never_preempts;
  if (!entry.job.preemptible || std::ranges::find(spared, entry.job.work) != spared.end()) return false;
  if (mode_ == PreemptMode::kOverrun) return among_(other);
  if (mode_ == PreemptMode::kReclaim) return entry.queue != entry_.queue;
  return entry.job.priority < entry_.job.priority && (policy_.by_priority || IsFiller(entry.job));
}

void VictimSearch::GatherCandidates(Rng& rng) {
  candidate_of_.assign(jobs_.bound(), kNone);
  std::vector<std::pair<uint64_t, JobIndex>> found;
  for (JobIndex j = 0; j < jobs_.bound(); ++j) {
    const JobEntry& entry = jobs_[j];
    if (j == job_ || !entry.alive || entry.phase != Phase::kRunning || !entry.leaving.empty()) continue;
    if (!MayChoose(j)) continue;
    if (!state_.of(j).empty()) found.emplace_back(entry.sequence, j);
  }
  std::ranges::sort(found);
  for (const auto& [sequence, j] : found) {
    const JobEntry& entry = jobs_[j];
    Candidate c{.job = j, .surplus = {}};
    std::tie(c.ours, c.theirs) = tree_.Apart(entry_.queue, entry.queue);
    const std::vector<MemberId> members(state_.of(j).begin(), state_.of(j).end());
    c.milli = MilliOf(members);
    c.weight = WeightOf(j, c.milli, rng);
    c.account = tree_.Account(entry.queue, entry.job.user);
    std::vector<uint32_t> running(entry.job.roles.size());
    for (const MemberId id : members) ++running[state_.member(id).role];
    for (size_t r = 0; r < running.size(); ++r) {
      const uint32_t least = entry.job.roles[r].min_count;
      const bool shrinks = mode_ != PreemptMode::kMove && running[r] > least;
      c.surplus.push_back(shrinks ? running[r] - least : 0);
    }
    // A queue that must keep most of a gang may still have to give up members of it.
    const auto may_leave = [&](MemberId id) {
      return MayLeave(state_.member(id), c.surplus) && MayStop(c, HeldBy({id}));
    };
    if (!MayStop(c, HeldBy(members)) && std::ranges::none_of(members, may_leave)) continue;
    candidate_of_[j] = static_cast<uint32_t>(candidates_.size());
    candidates_.push_back(std::move(c));
  }
}

double VictimSearch::CostOf(JobIndex job, int64_t stopped_milli, int64_t held_milli, bool whole) const {
  if (begins_ && begins_(job)) return 0;
  return StopCost(jobs_[job], stopped_milli, held_milli, whole, now_);
}

double VictimSearch::WeightOf(JobIndex job, int64_t milli, Rng& rng) const {
  if (mode_ == PreemptMode::kMove) return MoveCost(jobs_[job], milli);
  switch (policy_.victims) {
    case VictimOrder::kLeastCost:
      return CostOf(job, milli, milli, true);
    case VictimOrder::kRandom:
      return 1 + rng.Double();
    case VictimOrder::kYoungest:
      return 1 + std::max(0.0, conf::ToSeconds(now_ - jobs_[job].started));
  }
  return 0;
}

double VictimSearch::WeightOf(const Candidate& c, const std::vector<MemberId>& members, bool whole) const {
  if (whole) return c.weight;
  const int64_t milli = MilliOf(members);
  if (policy_.victims == VictimOrder::kLeastCost) return CostOf(c.job, milli, c.milli, false);
  return c.weight / 2 * static_cast<double>(milli) / static_cast<double>(std::max<int64_t>(c.milli, 1));
}

// Whether the rules allow the two queues to hold these amounts.
bool VictimSearch::Allows(const Candidate& c, KindId kind, int64_t theirs_after, const Standing& theirs,
                          const std::vector<Amount>& demand) const {
  if (mode_ == PreemptMode::kPriority) return theirs_after >= theirs.deserved;
  const bool same = std::ranges::find(demand, kind, &Amount::kind) != demand.end();
  const KindId our_kind = same || demand.empty() ? kind : demand.front().kind;
  const KindId by = tree_.CountedBy(c.ours, our_kind);
  const Standing ours = tree_.standing(c.ours, by);
  const int64_t ours_after = ours.allocated + Total(demand, by);
  if (ours_after > ours.deserved) return false;
  if (theirs_after >= theirs.deserved) return true;
  return spares_ == Spares::kNothing && 2 * ours_after <= ours.deserved &&
         Wide{theirs_after} * ours.deserved >= Wide{ours_after} * theirs.deserved;
}

// Whether the rules between the queues allow that `held` is stopped next; empty: that anything is.
bool VictimSearch::MayStop(const Candidate& c, const std::vector<Amount>& held) const {
  if (mode_ == PreemptMode::kMove || StopsFreely(c)) return true;
  if (c.ours == c.theirs) return mode_ == PreemptMode::kPriority;
  const auto allows = [&](KindId kind) {
    const KindId by = tree_.CountedBy(c.theirs, kind);
    const Standing theirs = tree_.standing(c.theirs, by);
    return theirs.allocated > theirs.deserved &&
           Allows(c, kind, theirs.allocated - Total(held, by), theirs, demand_);
  };
  return std::ranges::all_of(held, allows, &Amount::kind);
}

bool VictimSearch::MayStayStopped(const Stop& stop, const std::vector<Amount>& demand) const {
  const Candidate& c = candidates_[stop.candidate];
  return mode_ == PreemptMode::kMove || c.ours == c.theirs || StopsFreely(c) ||
         std::ranges::all_of(
             stop.held,
             [&](KindId kind) {
               const Standing theirs = tree_.standing(c.theirs, tree_.CountedBy(c.theirs, kind));
               return Allows(c, kind, theirs.allocated, theirs, demand);
             },
             &Amount::kind);
}

bool VictimSearch::Allowed(NodeId node, ShapeId id) const {
  const Shape& shape = shapes_[id];
  const FixedClass& fixed = state_.fixed(state_.classes()[state_.classes().of(node)].fixed);
  return TakesWork(fixed) && KindAllows(shape, fixed, state_.view_of(node)) && LabelsAllow(shape, fixed);
}

uint64_t VictimSearch::SlotsOf(const NodeState& state, NodeId node, size_t role) const {
  uint32_t most = 0;
  for (const ShapeId id : entry_.shapes[role]) {
    if (Allowed(node, id)) most = std::max(most, Slots(state, shapes_[id], state_.view_of(node)));
  }
  return entry_.job.anti_affinity ? std::min(most, 1u) : most;
}

uint64_t VictimSearch::SlotsOn(NodeId node, size_t role) const {
  return SlotsOf(state_.node(node), node, role);
}

// A stop of a whole job includes the earlier stops of its surplus members.
void VictimSearch::StopWhole(Stop stop) {
  std::vector<Stop> others = stops_;
  const auto shrinks = [&](const Stop& s) { return s.candidate == stop.candidate; };
  if (std::erase_if(others, shrinks) > 0) {
    Reset(others);
    stop.members = Ordered(state_.of(candidates_[stop.candidate].job));
  }
  Apply(std::move(stop));
}

void VictimSearch::Apply(Stop stop) {
  Candidate& c = candidates_[stop.candidate];
  stop.held = HeldBy(stop.members);
  stop.stopped.clear();
  stop.weight = WeightOf(c, stop.members, stop.whole);
  for (const Amount& amount : stop.held) tree_.Refund(c.account, amount);
  for (const MemberId id : stop.members) {
    stop.stopped.push_back(state_.member(id));
    if (!stop.whole) --c.surplus[state_.member(id).role];
    trial_.Evict(id);
  }
  c.stopped |= stop.whole;
  stops_.push_back(std::move(stop));
  evicted_ = trial_.mark();
}

// Takes back everything that was done, then makes these stops.
void VictimSearch::Reset(const std::vector<Stop>& stops) {
  trial_.Rollback(start_);
  for (const Stop& stop : stops_) {
    Candidate& c = candidates_[stop.candidate];
    for (const Amount& amount : stop.held) tree_.Charge(c.account, amount);
    if (stop.whole) {
      c.stopped = false;
    } else {
      for (const Member& member : stop.stopped) ++c.surplus[member.role];
    }
  }
  stops_.clear();
  evicted_ = start_;
  for (const Stop& stop : stops) Apply(stop);
}

size_t VictimSearch::VictimCount() const {
  std::vector<size_t> victims;
  victims.reserve(stops_.size());
  for (const Stop& stop : stops_) victims.push_back(stop.candidate);
  std::ranges::sort(victims);
  return static_cast<size_t>(std::ranges::unique(victims).begin() - victims.begin());
}

// The stops that can be made on a node, the lightest for each device first; each is allowed after the ones before it.
std::vector<VictimSearch::Stop> VictimSearch::StopsOn(NodeId node, uint64_t need) {
  struct Here {
    size_t candidate;
    std::vector<MemberId> members;
    int64_t milli = 0;
  };
  std::vector<Here> here;
  for (const MemberId id : state_.on(node)) {
    const uint32_t c = candidate_of_[state_.member(id).job];
    if (c == kNone || candidates_[c].stopped) continue;
    const auto at = std::ranges::find(here, c, &Here::candidate);
    if (at == here.end()) {
      here.push_back({c, {id}});
    } else {
      at->members.push_back(id);
    }
  }
  std::vector<Stop> stops;
  for (Here& h : here) {
    const Candidate& c = candidates_[h.candidate];
    h.members = Ordered(h.members);
    h.milli = MilliOf(h.members);
    std::vector<uint32_t> surplus = c.surplus;
    for (auto id = h.members.rbegin(); id != h.members.rend(); ++id) {
      const Member& member = state_.member(*id);
      if (!MayLeave(member, surplus)) continue;
      --surplus[member.role];
      Stop& stop = stops.emplace_back(Stop{h.candidate, false, {*id}});
      stop.weight = WeightOf(c, stop.members, false);
    }
    // A gang's nodes share its weight, where the job can use more than one of them.
    const double part =
        std::max(static_cast<double>(h.milli) / static_cast<double>(std::max<int64_t>(c.milli, 1)),
                 1 / static_cast<double>(need));
    stops.push_back({h.candidate, true, Ordered(state_.of(c.job)), c.weight * part});
  }
  const auto density = [&](const Stop& stop) {
    const auto at = std::ranges::find(here, stop.candidate, &Here::candidate);
    const int64_t milli = stop.whole ? at->milli : MilliOf(stop.members);
    return stop.weight / static_cast<double>(std::max<int64_t>(milli, 1));
  };
  std::ranges::sort(stops, {}, [&](const Stop& stop) {
    return std::tuple(density(stop), stop.candidate, stop.whole, FirstOf(stop));
  });
  return stops;
}

void VictimSearch::Consider(NodeId node, size_t role, uint64_t need, const std::vector<Stop>& stops,
                            Option& best) {
  const TypeView& view = state_.view_of(node);
  const uint64_t had = SlotsOn(node, role);
  std::vector<MemberId> gone;
  std::vector<Stop> made;
  std::vector<std::pair<AccountId, Amount>> refunded;
  double weight = 0;
  NodeState state = state_.node(node);
  const auto settle = [&] {  // tenant and isolation of the remaining members
    state.tenant = 0;
    state.isolation = Isolation::kNone;
    for (const MemberId id : state_.on(node)) {
      if (std::ranges::find(gone, id) != gone.end()) continue;
      const Holding& holding = state_.member(id).holding;
      state.tenant = state.tenant == 0 || state.tenant == holding.tenant ? holding.tenant : kManyTenants;
      state.isolation = std::max(state.isolation, holding.isolation);
    }
  };
  for (const Stop& stop : stops) {
    const Candidate& c = candidates_[stop.candidate];
    Stop now_stopped = stop;
    std::erase_if(now_stopped.members,
                  [&](MemberId id) { return std::ranges::find(gone, id) != gone.end(); });
    if (now_stopped.members.empty()) continue;
    const std::vector<Amount> held = HeldBy(now_stopped.members);
    if (!MayStop(c, held)) continue;
    for (const Amount& amount : held) {
      tree_.Refund(c.account, amount);
      refunded.emplace_back(c.account, amount);
    }
    for (const MemberId id : now_stopped.members) {
      gone.push_back(id);
      if (state_.member(id).holding.node == node) Give(state, state_.member(id).holding, view);
    }
    settle();
    weight += now_stopped.weight;
    made.push_back(std::move(now_stopped));
    const uint64_t has = SlotsOf(state, node, role);
    const uint64_t won = std::min(has > had ? has - had : 0, need);
    if (won > 0 && weight / static_cast<double>(won) < best.ratio) {
      best.ratio = weight / static_cast<double>(won);
      best.stops = made;
    }
    if (won == need) break;
  }
  for (const auto& [account, amount] : refunded) tree_.Charge(account, amount);
}

// The lightest way to win places on a node: by weight for each device, or by weight alone.
VictimSearch::Option VictimSearch::BestOn(NodeId node, size_t role, uint64_t need) {
  Option best;
  std::vector<Stop> stops = StopsOn(node, need);
  if (stops.empty()) return best;
  Consider(node, role, need, stops, best);
  std::ranges::sort(stops, {}, [&](const Stop& stop) {
    return std::tuple(stop.weight, stop.candidate, stop.whole, FirstOf(stop));
  });
  Consider(node, role, need, stops, best);
  return best;
}

bool VictimSearch::Gather(const Area& area, uint64_t more) {
  struct Entry {
    double ratio;
    NodeId node;
    bool operator<(const Entry& other) const {  // of a heap: the least comes first
      return std::tuple(ratio, node) > std::tuple(other.ratio, other.node);
    }
  };
  std::vector<bool> inside(state_.cluster().nodes.size());
  for (const NodeId n : area.nodes) inside[n] = true;
  for (size_t role = 0; role < entry_.shapes.size(); ++role) {
    std::vector<uint64_t> slots(state_.cluster().nodes.size());
    uint64_t have = 0;
    for (const NodeId n : area.nodes) have += slots[n] = SlotsOn(n, role);
    const uint64_t want = std::max<uint64_t>(entry_.job.roles[role].min_count, more > 0 ? have + more : 0);
    if (have >= want) continue;
    std::priority_queue<Entry> heap;
    const auto offer = [&](NodeId n) {
      const Option option = BestOn(n, role, want - have);
      if (option.ratio < kInfinite) heap.push({option.ratio, n});
    };
    for (const NodeId n : area.nodes) {
      if (std::ranges::any_of(entry_.shapes[role], [&](ShapeId id) { return Allowed(n, id); })) offer(n);
    }
    while (have < want) {
      if (heap.empty()) return false;
      const Entry top = heap.top();
      heap.pop();
      const Option option = BestOn(top.node, role, want - have);
      if (option.ratio == kInfinite) continue;
      if (!heap.empty() && Entry{option.ratio, top.node} < heap.top()) {
        heap.push({option.ratio, top.node});
        continue;
      }
      std::vector<NodeId> touched;
      for (const Stop& stop : option.stops) {
        for (const MemberId id : stop.members) touched.push_back(state_.member(id).holding.node);
        stop.whole ? StopWhole(stop) : Apply(stop);
      }
      if (VictimCount() > policy_.max_victims) return false;
      std::ranges::sort(touched);
      touched.erase(std::ranges::unique(touched).begin(), touched.end());
      for (const NodeId n : touched) {
        if (!inside[n]) continue;
        const uint64_t has = SlotsOn(n, role);
        have = have + has - slots[n];
        slots[n] = has;
        if (have < want) offer(n);
      }
    }
  }
  return true;
}

std::vector<VictimSearch::Area> VictimSearch::Areas() const {
  const Topology& topology = entry_.topology;
  const Fabric& fabric = state_.cluster().fabric;
  std::vector<Area> areas;
  if (topology.required && topology.level == "node") {
    for (NodeId n = 0; n < state_.cluster().nodes.size(); ++n) areas.push_back({{n}, 0, {}});
    return areas;
  }
  const auto level = std::ranges::find(fabric.levels, topology.level);
  if (topology.required && level != fabric.levels.end()) {
    for (const DomainId d : state_.at_level(static_cast<uint8_t>(level - fabric.levels.begin()))) {
      areas.push_back({{state_.nodes_under(d).begin(), state_.nodes_under(d).end()}, 0, {}});
    }
    return areas;
  }
  Area all;
  for (NodeId n = 0; n < state_.cluster().nodes.size(); ++n) all.nodes.push_back(n);
  areas.push_back(std::move(all));
  return areas;
}

// By priority, a job may make room within the limits of its own queue.
bool VictimSearch::FreeQuota() {
  while (true) {
    const QuotaVerdict verdict = tree_.Admit(account_, demand_);
    if (verdict.admitted() || verdict.bound == QuotaVerdict::Bound::kLent) return true;
    if (mode_ != PreemptMode::kPriority) return false;
    size_t best = candidates_.size();
    double least = kInfinite;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& c = candidates_[i];
      const JobEntry& victim = jobs_[c.job];
      if (c.stopped || c.milli == 0 || !tree_.Under(victim.queue, verdict.queue)) continue;
      if (verdict.bound == QuotaVerdict::Bound::kUserLimit && victim.job.user != entry_.job.user) continue;
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

// Quota and the rules between queues apply to the least that the job wants, and to what it then gets.
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

// Counting places suffices: there are `slots` places now, and too few if these members stay.
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

// Releases unneeded victims, most expensive first, until none is left. The job is placed before and
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

Reason VictimSearch::WhyStopped(const Victim& victim) const {
  const JobEntry& entry = jobs_[victim.job];
  const std::string what =
      victim.whole ? "stops" : "gives up " + conf::Counted(victim.members.size(), "member");
  switch (mode_) {
    case PreemptMode::kReclaim:
      return {
          "reclaimed",
          fmt::format("{}: queue \"{}\" has more than it deserves, and \"{}\" of queue \"{}\", which has "
                      "less, needs the room; {:.0f} GPU-seconds are lost",
                      what, tree_.name(entry.queue), entry_.job.id, tree_.name(entry_.queue), victim.cost)};
    case PreemptMode::kOverrun:
      return {"overran",
              fmt::format("{}: it overtook jobs ahead of it and has run for {}, longer than expected; {:.0f} "
                          "GPU-seconds are lost",
                          what, conf::InWords(std::chrono::floor<std::chrono::seconds>(now_ - entry.started)),
                          victim.cost)};
    case PreemptMode::kPriority:
      return {"preempted",
              fmt::format("{}: \"{}\" of priority {} needs the room, this job has priority {}; {:.0f} "
                          "GPU-seconds are lost",
                          what, entry_.job.id, entry_.job.priority, entry.job.priority, victim.cost)};
    case PreemptMode::kMove:
      break;
  }
  return {};  // the caller says why it moves
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
    victim.cost = mode_ == PreemptMode::kMove ? MoveCost(jobs_[c.job], milli.back())
                                              : CostOf(c.job, milli.back(), held, victim.whole);
  }
  for (Victim& victim : victims) {
    std::ranges::sort(victim.members, {}, [](const MemberAt& m) { return std::pair(m.role, m.rank); });
    victim.why = WhyStopped(victim);
  }
  return victims;
}

// For a pinned job: stops what may be stopped on its places, and nothing else.
bool VictimSearch::StopHolders() {
  for (const MemberAt& at : entry_.job.pinned) {
    if (at.holding.node >= state_.cluster().nodes.size()) return false;
    std::vector<size_t> holders;
    for (const MemberId id : state_.on(at.holding.node)) {
      const Member& member = state_.member(id);
      const uint32_t c = candidate_of_[member.job];
      if (c != kNone && (member.holding.devices & at.holding.devices) != 0) holders.push_back(c);
    }
    std::ranges::sort(holders);
    for (const size_t c : holders) {
      if (!candidates_[c].stopped) StopWhole({c, true, Ordered(state_.of(candidates_[c].job))});
    }
  }
  return !stops_.empty() && Attempt();
}

std::vector<Victim> VictimSearch::Run(Rng& rng) {
  if (std::ranges::any_of(entry_.shapes, &std::vector<ShapeId>::empty)) return {};
  account_ = tree_.Account(entry_.queue, entry_.job.user);
  demand_ = DemandOf(entry_, shapes_, Extent::kMinimum);
  GatherCandidates(rng);
  if (candidates_.empty()) return {};
  if (!entry_.job.pinned.empty()) {
    if (StopHolders()) return Report();
    Reset({});
    return {};
  }
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

}  // namespace

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

double MoveCost(const JobEntry& entry, int64_t held_milli) {
  const Checkpoint& checkpoint = entry.job.checkpoint;
  double seconds = conf::ToSeconds(checkpoint.restart) + conf::ToSeconds(checkpoint.save);
  if (entry.job.work == WorkClass::kInference) seconds = std::max(seconds, kReplicaStartSeconds);
  return static_cast<double>(held_milli) / kWholeDevice * std::max(seconds, 1.0);
}

std::vector<Victim> FindVictims(const VictimSearchInput& input, JobIndex job, PreemptMode mode, TryPlace fits,
                                Rng& rng) {
  using Spares = VictimSearch::Spares;
  std::vector<Victim> victims = VictimSearch(input, job, mode, Spares::kDeserved, fits).Run(rng);
  if (!victims.empty() || mode != PreemptMode::kReclaim) return victims;
  return VictimSearch(input, job, mode, Spares::kNothing, fits).Run(rng);
}

}  // namespace scheduler
