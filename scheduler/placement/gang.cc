#include "scheduler/placement/gang.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "scheduler/placement/filters.h"

namespace scheduler {
namespace {

constexpr int kNodeLevel = -1;       // below the fabric's lowest
constexpr uint32_t kBig = 8;         // devices or members from which a gang is kept together (E-Binpack)
constexpr uint32_t kTries = 8;       // of candidates on a level that is not the last resort
constexpr uint32_t kCountFrom = 16;  // members from which counting first is cheaper than trying

uint32_t LevelAbove(const Fabric& fabric, DomainId domain) {
  const DomainId parent = fabric.domains[domain].parent;
  return parent == kNone ? std::numeric_limits<uint32_t>::max() : fabric.domains[parent].level;
}

uint16_t FirstWanted(const Job& job) {
  uint16_t role = 0;
  while (job.roles[role].count == 0) ++role;
  return role;
}

}  // namespace

struct GangPlacer::Call {
  Trial& trial;
  Placer& placer;
  JobIndex job;
  const JobEntry& entry;
  const NodeSet* given;  // by the caller
  Rng& rng;
  GangResult& result;
  Trial::Mark before;

  const NodeSet* except = nullptr;  // given, and for anti-affinity what the job holds
  uint32_t wanted = 0;
  uint32_t least = 0;
  uint32_t held = 0;         // members
  DomainId home = kNone;     // the lowest domain of the members that it holds
  NodeId home_node = kNone;  // if they are on one node
  int top = 0;               // the highest level that it may span
  uint32_t short_by = UINT32_MAX;

  bool anti_affinity() const { return entry.job.anti_affinity; }
  bool elastic() const { return least < wanted; }
};

GangPlacer::GangPlacer(ClusterState& state, const ShapeTable& shapes, const RunningArrays* arrays)
    : state_(&state),
      shapes_(&shapes),
      arrays_(arrays),
      below_(state),
      spreader_(state),
      forbidden_(state.cluster().nodes.size()) {}

uint32_t GangPlacer::SlotsByCounters(const Shape& shape) const {
  if (shape.count == 0) return state_->totals().schedulable_nodes == 0 ? 0 : UINT32_MAX;
  uint32_t slots = 0;
  for (size_t k = 0; k < state_->cluster().kinds.size(); ++k) {
    const auto kind = static_cast<KindId>(k);
    if ((shape.kinds >> kind & 1) == 0) continue;
    for (int free = shape.count; free <= kMaxDevices; ++free) {
      slots += state_->nodes_with(kind, free) * static_cast<uint32_t>(free / shape.count);
    }
  }
  return slots;
}

GangResult GangPlacer::PlacePinned(Trial& trial, JobIndex job, const JobEntry& entry,
                                   const NodeSet* except) const {
  const Trial::Mark before = trial.mark();
  GangResult result;
  for (const MemberAt& at : entry.job.pinned) {
    const NodeId node = at.holding.node;
    if (node >= state_->cluster().nodes.size()) return {.placed = {}, .short_by = entry.members};  // has left
    const FixedClass& fixed = state_->fixed(state_->classes()[state_->classes().of(node)].fixed);
    const bool open = TakesWork(fixed) && (except == nullptr || !except->Has(node));
    if (!open || !IsFree(state_->node(node), at.holding, state_->view_of(node))) {
      trial.Rollback(before);
      return {.placed = {}, .short_by = entry.members};
    }
    trial.Assign({.job = job, .role = at.role, .rank = at.rank, .holding = at.holding});
    result.placed.push_back(at);
  }
  return result;
}

bool GangPlacer::MightFit(const JobEntry& entry) const {
  if (!entry.job.pinned.empty()) return true;  // told by a look at its few places
  bool any = false;
  for (size_t r = 0; r < entry.shapes.size(); ++r) {
    uint64_t slots = 0;
    for (const ShapeId shape : entry.shapes[r]) slots += SlotsByCounters((*shapes_)[shape]);
    // A running job's missing minimum members are not known here.
    if (entry.phase == Phase::kPending && slots < entry.job.roles[r].min_count) return false;
    any |= slots > 0;
  }
  return any;
}

bool GangPlacer::FitsByCounters(Call& call) const {
  uint64_t short_by = 0;
  for (const Need& need : needs_) {
    uint64_t slots = 0;
    for (const ShapeId shape : need.shapes) slots += SlotsByCounters((*shapes_)[shape]);
    if (slots < need.least) short_by += need.least - slots;
  }
  if (short_by > 0) call.short_by = static_cast<uint32_t>(short_by);
  return short_by == 0;
}

bool GangPlacer::Gather(Call& call) {
  const Job& job = call.entry.job;
  const Fabric& fabric = state_->cluster().fabric;
  needs_.clear();
  size_t ranks = 0;
  for (size_t r = 0; r < job.roles.size(); ++r) {
    const Role& role = job.roles[r];
    needs_.push_back({.role = static_cast<uint16_t>(r),
                      .least = role.min_count,
                      .wanted = role.count,
                      .taken_at = ranks,
                      .shapes = call.entry.shapes[r]});
    ranks += role.count;
  }
  taken_.assign(ranks, 0);
  for (const MemberId id : state_->of(call.job)) {
    const Member& member = state_->member(id);
    const NodeId node = member.holding.node;
    const DomainId domain = state_->cluster().nodes[node].domain;
    call.home = call.held == 0 ? domain : CommonDomain(fabric, call.home, domain);
    call.home_node = call.held == 0 || call.home_node == node ? node : kNone;
    ++call.held;
    if (member.role >= needs_.size()) continue;
    Need& need = needs_[member.role];
    if (member.rank < job.roles[member.role].count) taken_[need.taken_at + member.rank] = 1;
    need.least -= std::min(need.least, 1u);
    need.wanted -= std::min(need.wanted, 1u);
  }
  // Of a job that is a whole array, its members; of an element of one, max_running counts its like.
  uint32_t may_run = job.max_running == 0 || !job.array.empty()
                         ? UINT32_MAX
                         : job.max_running - std::min(job.max_running, call.held);
  for (Need& need : needs_) {
    if (need.shapes.empty() && need.least > 0) {
      call.short_by = need.least;
      return false;
    }
    need.wanted = need.shapes.empty() ? 0 : std::min(need.wanted, may_run);
    need.least = std::min(need.least, need.wanted);
    may_run -= need.wanted;
    call.wanted += need.wanted;
    call.least += need.least;
  }
  std::erase_if(needs_, [](const Need& need) { return need.wanted == 0; });
  const auto size_of = [&](const Need& need) {
    const Shape& shape = (*shapes_)[need.shapes.front()];
    return std::tuple(shape.count, shape.milli, shape.is_partition(), shape.cpu_milli, shape.memory_mib);
  };
  std::ranges::sort(needs_, [&](const Need& a, const Need& b) {
    const auto size_a = size_of(a);
    const auto size_b = size_of(b);
    return size_a != size_b ? size_a > size_b : a.role < b.role;
  });
  while (trees_.size() < needs_.size()) trees_.emplace_back(*state_);

  call.top = static_cast<int>(fabric.levels.size()) - 1;
  const Topology& topology = call.entry.topology;
  if (!topology.required || topology.level.empty()) return true;
  if (topology.level == "node") {
    call.top = kNodeLevel;
    return true;
  }
  const auto level = std::ranges::find(fabric.levels, topology.level);
  call.top = static_cast<int>(level - fabric.levels.begin());
  call.short_by = call.least;
  return level != fabric.levels.end();
}

GangResult GangPlacer::Place(Trial& trial, Placer& placer, JobIndex job, const JobEntry& entry,
                             const NodeSet* except, Rng& rng) {
  if (!entry.job.pinned.empty()) return PlacePinned(trial, job, entry, except);
  GangResult result;
  if (entry.members == 1 && !entry.job.spread && entry.topology.level.empty() && state_->of(job).empty()) {
    const uint16_t role = FirstWanted(entry.job);
    const auto holding = placer.Choose(entry.shapes[role], {.except = except}, rng);
    if (!holding) return {.placed = {}, .short_by = entry.job.roles[role].min_count};
    trial.Assign({.job = job, .role = role, .rank = 0, .holding = *holding});
    result.placed.push_back({role, 0, *holding});
    return result;
  }
  Call call{.trial = trial,
            .placer = placer,
            .job = job,
            .entry = entry,
            .given = except,
            .rng = rng,
            .result = result,
            .before = trial.mark()};
  if (!Gather(call)) return {.placed = {}, .short_by = call.short_by};
  if (call.wanted == 0) return result;
  if (!FitsByCounters(call)) return {.placed = {}, .short_by = call.short_by};

  size_t alternatives = 1;
  for (const Need& need : needs_) alternatives = std::max(alternatives, need.shapes.size());
  const size_t rounds = alternatives + (alternatives > 1 ? 1 : 0);
  const bool one_by_one = GoesOneByOne(call);
  const bool below_one = entry.topology.required && !entry.topology.level.empty();
  for (size_t round = 0; round < rounds; ++round) {
    AllowAlternative(round);
    ForbidNodes(call);
    const bool placed = !one_by_one ? Together(call)
                        : below_one ? SpreadBelowOne(call)
                                    : OneByOne(call, kNone);
    if (!placed || result.placed.empty()) continue;
    std::ranges::sort(result.placed, [](const MemberAt& a, const MemberAt& b) {
      return std::pair(a.role, a.rank) < std::pair(b.role, b.rank);
    });
    return result;
  }
  return {.placed = {}, .short_by = call.least == 0 ? 0 : std::clamp(call.short_by, 1u, call.least)};
}

bool GangPlacer::GoesOneByOne(const Call& call) const {
  const Job& job = call.entry.job;
  if (job.spread) return call.top != kNodeLevel;
  if (!call.entry.topology.level.empty()) return false;
  if (job.work == WorkClass::kArray || job.work == WorkClass::kInference) return true;
  if (call.placer.policy().tie_break == TieBreak::kEmptiestLeaf) return true;
  return call.entry.device_milli < int64_t{kBig} * kWholeDevice && call.entry.members < kBig;
}

// Round i: the i-th alternative of each role, or its last; after these, all alternatives.
void GangPlacer::AllowAlternative(size_t round) {
  size_t alternatives = 1;
  for (const Need& need : needs_) alternatives = std::max(alternatives, need.shapes.size());
  for (Need& need : needs_) {
    need.allowed =
        round < alternatives ? need.shapes.subspan(std::min(round, need.shapes.size() - 1), 1) : need.shapes;
  }
}

void GangPlacer::ForbidNodes(Call& call) {
  call.except = call.given;
  if (!call.anti_affinity()) return;
  if (call.given != nullptr) {
    forbidden_ = *call.given;
  } else {
    forbidden_.Clear();
  }
  for (const MemberId id : state_->of(call.job)) forbidden_.Add(state_->member(id).holding.node);
  call.except = &forbidden_;
}

void GangPlacer::Assign(Call& call, Need& need, const Holding& holding) {
  while (taken_[need.taken_at + need.next_rank] != 0) ++need.next_rank;
  const uint32_t rank = need.next_rank++;
  if (call.result.placed.empty()) call.result.placed.reserve(call.wanted);
  call.trial.Assign({.job = call.job, .role = need.role, .rank = rank, .holding = holding});
  call.result.placed.push_back({need.role, rank, holding});
  ++need.placed;
  if (call.anti_affinity()) forbidden_.Add(holding.node);
}

void GangPlacer::TakeBack(Call& call) {
  if (call.result.placed.empty()) return;
  call.trial.Rollback(call.before);
  call.result.placed.clear();
  for (Need& need : needs_) need.placed = need.next_rank = 0;
  ForbidNodes(call);
}

bool GangPlacer::OneByOne(Call& call, DomainId under) {
  if (under == kNone && call.least >= kCountFrom) {
    CountAll(call);
    if (call.short_by != UINT32_MAX && call.short_by > 0) return false;
  }
  const Job& job = call.entry.job;
  const bool spreads = job.spread || job.anti_affinity ||
                       (call.wanted > 1 && call.placer.policy().tie_break == TieBreak::kEmptiestLeaf);
  for (const bool extra : {false, true}) {
    for (Need& need : needs_) {
      const uint32_t goal = extra ? need.wanted : need.least;
      if (need.placed >= goal) continue;
      const uint32_t members = goal - need.placed;
      const uint32_t placed =
          spreads ? Spread(call, need, under, members) : Follow(call, need, under, members);
      if (extra || placed == members) continue;
      const auto all = static_cast<uint32_t>(call.result.placed.size());
      call.short_by = std::min(call.short_by, call.least - std::min(all, call.least));
      TakeBack(call);
      return false;
    }
  }
  return true;
}

// The running jobs of its array, which a job that spreads avoids; null: none.
const std::set<JobIndex>* GangPlacer::Beside(const Call& call) const {
  if (arrays_ == nullptr || !call.entry.job.spread) return nullptr;
  const auto array = arrays_->find(call.entry.job.array);
  return array == arrays_->end() ? nullptr : &array->second;
}

// Places members one by one, apart from each other.
uint32_t GangPlacer::Spread(Call& call, Need& need, DomainId under, uint32_t members) {
  uint32_t placed = 0;
  const std::set<JobIndex>* const beside = Beside(call);
  for (const ShapeId shape : need.allowed) {
    if (placed == members) break;
    spreader_.Start(call.placer,
                    {.job = call.job,
                     .shape = shape,
                     .under = under,
                     .except = call.given,
                     .beside = beside,
                     .apart = call.anti_affinity(),
                     .spread = call.entry.job.spread,
                     .over = call.entry.job.spread_over},
                    call.rng);
    for (; placed < members; ++placed) {
      const auto holding = spreader_.Next(call.placer);
      if (!holding) break;
      Assign(call, need, *holding);
    }
  }
  return placed;
}

// Places members one by one, as the policy says.
uint32_t GangPlacer::Follow(Call& call, Need& need, DomainId under, uint32_t members) {
  const Where where{.under = under, .except = call.except};
  for (uint32_t placed = 0; placed < members; ++placed) {
    const auto holding = call.placer.Choose(need.allowed, where, call.rng);
    if (!holding) return placed;
    Assign(call, need, *holding);
  }
  return members;
}

// Spreads within one domain of the required level: first tries the domain with the fewest members of its array, among
// equals the one with the most room.
bool GangPlacer::SpreadBelowOne(Call& call) {
  CountAll(call);
  candidates_.clear();
  const std::vector<Domain>& domains = state_->cluster().fabric.domains;
  std::vector<uint32_t> crowd(domains.size());
  if (const std::set<JobIndex>* const beside = Beside(call)) {
    for (const JobIndex job : *beside) {
      for (const MemberId id : state_->of(job)) {
        DomainId d = state_->cluster().nodes[state_->member(id).holding.node].domain;
        for (; d != kNone; d = domains[d].parent) ++crowd[d];
      }
    }
  }
  for (DomainId d = 0; d < domains.size(); ++d) {
    if (!IsTop(call, d) || !IsOpen(call, d)) continue;
    bool holds = true;
    for (size_t i = 0; i < needs_.size(); ++i) holds &= trees_[i].below(d) >= needs_[i].least;
    if (holds) candidates_.push_back({.slots = trees_.front().below(d), .id = d});
  }
  std::ranges::sort(candidates_, [&](const Candidate& a, const Candidate& b) {
    return std::tuple(crowd[a.id], b.slots, a.id) < std::tuple(crowd[b.id], a.slots, b.id);
  });
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (OneByOne(call, candidates_[i].id) && !call.result.placed.empty()) return true;
  }
  return false;
}

// Slots of each role everywhere, and the least number of members that would be missing.
void GangPlacer::CountAll(Call& call) {
  const auto domains = static_cast<DomainId>(state_->cluster().fabric.domains.size());
  uint64_t short_by = 0;
  for (size_t i = 0; i < needs_.size(); ++i) {
    const SlotTree::Query query{needs_[i].allowed, call.except, call.anti_affinity()};
    uint32_t most = 0;
    for (DomainId d = 0; d < domains; ++d) {
      if (state_->cluster().fabric.domains[d].parent == kNone) trees_[i].Count(call.placer, query, d);
    }
    for (DomainId d = 0; d < domains; ++d) {
      if (IsTop(call, d) && IsOpen(call, d)) most = std::max(most, trees_[i].below(d));
    }
    if (call.top == kNodeLevel) {
      for (NodeId n = 0; n < state_->cluster().nodes.size(); ++n) most = std::max(most, trees_[i].on(n));
    }
    short_by += needs_[i].least - std::min(needs_[i].least, most);
  }
  call.short_by = static_cast<uint32_t>(std::min<uint64_t>(call.short_by, short_by));
}

bool GangPlacer::IsTop(const Call& call, DomainId domain) const {
  const Fabric& fabric = state_->cluster().fabric;
  int top = call.top;
  if (call.home != kNone) top = std::max(top, int{fabric.domains[call.home].level});
  if (call.top == kNodeLevel || fabric.domains[domain].level > top) return false;
  return LevelAbove(fabric, domain) > static_cast<uint32_t>(top);
}

// Whether members may be placed below the domain, as far as running members bind them.
bool GangPlacer::IsOpen(const Call& call, DomainId domain) const {
  if (call.held == 0 || call.home == kNone) return true;
  return CommonDomain(state_->cluster().fabric, call.home, domain) == domain;
}

bool GangPlacer::Together(Call& call) {
  CountAll(call);
  const auto levels = static_cast<uint8_t>(state_->cluster().fabric.levels.size());
  int top = call.top;
  if (call.top != kNodeLevel && call.home != kNone) {
    top = std::max(top, int{state_->cluster().fabric.domains[call.home].level});
  }
  if (SearchNodes(call, false)) return true;
  for (uint8_t level = 0; level < levels && int{level} <= top; ++level) {
    if (SearchLevel(call, level, false)) return true;
  }
  if (!call.elastic()) return false;
  if (call.top == kNodeLevel) return SearchNodes(call, true);
  for (uint8_t level = 0; level < levels && int{level} <= top; ++level) {
    if (SearchLevel(call, level, true)) return true;
  }
  return false;
}

bool GangPlacer::SearchNodes(Call& call, bool elastic) {
  if (call.held > 0 && call.home_node == kNone) return false;
  const SlotTree& tree = trees_.front();
  const uint32_t least = elastic ? needs_.front().least : needs_.front().wanted;
  candidates_.clear();
  for (NodeId n = 0; n < state_->cluster().nodes.size(); ++n) {
    if (tree.on(n) < least || tree.on(n) == 0) continue;
    if (call.home_node != kNone && n != call.home_node) continue;
    candidates_.push_back({.slots = tree.on(n),
                           .suits = call.placer.SuitabilityOf(n, tree.shape_at(n)),
                           .free_milli = state_->counters(state_->cluster().nodes[n].domain).free_milli,
                           .id = n});
  }
  const auto worse = [elastic](const Candidate& a, const Candidate& b) {
    if (a.suits.preference != b.suits.preference) return a.suits.preference < b.suits.preference;
    if (a.slots != b.slots) return elastic ? a.slots < b.slots : a.slots > b.slots;
    if (a.suits.score != b.suits.score) return a.suits.score < b.suits.score;
    return a.free_milli != b.free_milli ? a.free_milli > b.free_milli : a.id > b.id;
  };
  const size_t tries = call.top == kNodeLevel ? candidates_.size() : kTries;
  std::ranges::make_heap(candidates_, worse);
  for (size_t i = 0; i < tries && !candidates_.empty(); ++i) {
    std::ranges::pop_heap(candidates_, worse);
    const NodeId node = candidates_.back().id;
    candidates_.pop_back();
    if (TryNode(call, node, elastic)) return true;
  }
  return false;
}

bool GangPlacer::SearchLevel(Call& call, uint8_t level, bool elastic) {
  candidates_.clear();
  size_t tries = kTries;
  for (const DomainId d : state_->at_level(level)) {
    const bool top = IsTop(call, d);
    if (!IsOpen(call, d) || (elastic && !top)) continue;
    uint64_t slots = 0;
    bool holds = true;
    for (size_t i = 0; i < needs_.size(); ++i) {
      const uint32_t below = trees_[i].below(d);
      holds &= below >= (elastic ? needs_[i].least : needs_[i].wanted);
      slots += elastic ? std::min(below, needs_[i].wanted) : 0;
    }
    if (!holds) continue;
    if (top) ++tries;
    const uint32_t key = elastic ? static_cast<uint32_t>(slots) : trees_.front().below(d);
    candidates_.push_back({.slots = key, .free_milli = state_->counters(d).free_milli, .id = d});
  }
  const auto worse = [elastic](const Candidate& a, const Candidate& b) {
    if (a.slots != b.slots) return elastic ? a.slots < b.slots : a.slots > b.slots;
    return a.free_milli != b.free_milli ? a.free_milli > b.free_milli : a.id > b.id;
  };
  std::ranges::make_heap(candidates_, worse);
  for (size_t i = 0; i < tries && !candidates_.empty(); ++i) {
    std::ranges::pop_heap(candidates_, worse);
    const DomainId domain = candidates_.back().id;
    candidates_.pop_back();
    if (TryDomain(call, domain, elastic)) return true;
  }
  return false;
}

bool GangPlacer::TryNode(Call& call, NodeId node, bool elastic) {
  for (const bool extra : {false, true}) {
    if (extra && !elastic) break;
    for (Need& need : needs_) {
      const uint32_t goal = elastic && !extra ? need.least : need.wanted;
      while (need.placed < goal) {
        const bool closed = call.except != nullptr && call.except->Has(node);
        const auto holding = closed ? std::nullopt : call.placer.On(node, need.allowed);
        if (!holding && extra) break;
        if (!holding) {
          TakeBack(call);
          return false;
        }
        Assign(call, need, *holding);
      }
    }
  }
  return !call.result.placed.empty();
}

bool GangPlacer::TryDomain(Call& call, DomainId domain, bool elastic) {
  for (const bool extra : {false, true}) {
    if (extra && !elastic) break;
    for (size_t i = 0; i < needs_.size(); ++i) {
      Need& need = needs_[i];
      const uint32_t goal = elastic && !extra ? need.least : need.wanted;
      if (need.placed >= goal) continue;
      const bool untouched = call.result.placed.empty();
      if (!untouched) below_.Count(call.placer, {need.allowed, call.except, call.anti_affinity()}, domain);
      SlotTree& tree = untouched ? trees_[i] : below_;
      const uint32_t members = std::min(goal - need.placed, tree.below(domain));
      if (extra && members == 0) continue;
      const bool placed = Put(call, need, tree, domain, members);
      if (!extra && (!placed || need.placed < goal)) {
        TakeBack(call);
        return false;
      }
    }
  }
  return !call.result.placed.empty();
}

bool GangPlacer::Put(Call& call, Need& need, SlotTree& tree, DomainId domain, uint32_t members) {
  shares_.clear();
  tree.Divide(call.placer, domain, members, shares_);
  for (const NodeShare& share : shares_) {
    for (uint32_t i = 0; i < share.members; ++i) {
      const auto holding = call.placer.On(share.node, {&share.shape, 1});
      if (!holding) return false;
      Assign(call, need, *holding);
    }
  }
  return true;
}

}  // namespace scheduler
