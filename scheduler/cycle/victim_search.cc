#include "scheduler/cycle/victim_search.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "scheduler/placement/filters.h"

namespace scheduler {
namespace {

__extension__ using Wide = __int128;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

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

void VictimSearch::GatherCandidates(Rng& rng) {
  candidate_of_.assign(jobs_.bound(), kNone);
  const std::vector<WorkClass>& spared = entry_.job.never_preempts;
  std::vector<std::pair<uint64_t, JobIndex>> found;
  for (JobIndex j = 0; j < jobs_.bound(); ++j) {
    const JobEntry& entry = jobs_[j];
    if (j == job_ || !entry.alive || entry.phase != Phase::kRunning || !entry.job.preemptible ||
        !entry.leaving.empty()) {
      continue;
    }
    if (std::ranges::find(spared, entry.job.work) != spared.end()) continue;
    if (mode_ == PreemptMode::kPriority ? entry.job.priority >= entry_.job.priority
                                        : entry.queue == entry_.queue) {
      continue;
    }
    if (!state_.of(j).empty()) found.emplace_back(entry.sequence, j);
  }
  std::ranges::sort(found);
  for (const auto& [sequence, j] : found) {
    const JobEntry& entry = jobs_[j];
    Candidate c{.job = j, .surplus = {}};
    std::tie(c.ours, c.theirs) = tree_.Apart(entry_.queue, entry.queue);
    const std::vector<MemberId> members(state_.of(j).begin(), state_.of(j).end());
    c.milli = MilliOf(members);
    c.weight = WeightOf(entry, c.milli, rng);
    c.account = tree_.Account(entry.queue, entry.job.user);
    if (!MayStop(c, HeldBy(members))) continue;
    std::vector<uint32_t> running(entry.job.roles.size());
    for (const MemberId id : members) ++running[state_.member(id).role];
    for (size_t r = 0; r < running.size(); ++r) {
      const uint32_t least = entry.job.roles[r].min_count;
      c.surplus.push_back(running[r] > least ? running[r] - least : 0);
    }
    candidate_of_[j] = static_cast<uint32_t>(candidates_.size());
    candidates_.push_back(std::move(c));
  }
}

double VictimSearch::WeightOf(const JobEntry& entry, int64_t milli, Rng& rng) const {
  switch (policy_.victims) {
    case VictimOrder::kLeastCost:
      return StopCost(entry, milli, milli, true, now_);
    case VictimOrder::kRandom:
      return 1 + rng.Double();
    case VictimOrder::kYoungest:
      return 1 + std::max(0.0, conf::ToSeconds(now_ - entry.started));
  }
  return 0;
}

double VictimSearch::WeightOf(const Candidate& c, const std::vector<MemberId>& members, bool whole) const {
  if (whole) return c.weight;
  const int64_t milli = MilliOf(members);
  if (policy_.victims == VictimOrder::kLeastCost) return StopCost(jobs_[c.job], milli, c.milli, false, now_);
  return c.weight / 2 * static_cast<double>(milli) / static_cast<double>(std::max<int64_t>(c.milli, 1));
}

// Whether the two queues may come to stand like this.
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

// Whether the rules between the queues allow that `held` goes next; nothing: that anything goes.
bool VictimSearch::MayStop(const Candidate& c, const std::vector<Amount>& held) const {
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
  return c.ours == c.theirs || std::ranges::all_of(
                                   stop.held,
                                   [&](KindId kind) {
                                     const Standing theirs =
                                         tree_.standing(c.theirs, tree_.CountedBy(c.theirs, kind));
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

// A whole stop is made after those of its surplus members, which it takes in.
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

// Takes back all that was done, then makes these stops.
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

// The stops that can be made on a node, each allowed after those before it: lightest per device first.
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
      if (surplus[member.role] == 0 || member.rank == 0) continue;
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
  const auto settle = [&] {  // tenant and isolation of those who stay
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

}  // namespace scheduler
