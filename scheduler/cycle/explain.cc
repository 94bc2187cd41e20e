#include "scheduler/cycle/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "scheduler/cycle/explain_slots.h"

namespace scheduler {
namespace {

constexpr std::string_view kOneNode = "node";

// The ends of jobs that hold something, the earliest first; only the ends that are asked for get sorted.
class Ends {
 public:
  explicit Ends(const ExplainInput& input) {
    for (JobIndex job = 0; job < input.jobs.bound(); ++job) {
      const JobEntry& entry = input.jobs[job];
      if (!entry.alive || job == input.job || input.state.of(job).empty()) continue;
      heap_.push_back({input.jobs.ExpectedEnd(job, input.now, input.unknown_estimate), entry.sequence, job});
    }
    std::ranges::make_heap(heap_, Later);
  }

  const Release* Next() {
    if (heap_.empty()) return nullptr;
    std::ranges::pop_heap(heap_, Later);
    next_ = heap_.back();
    heap_.pop_back();
    return &next_;
  }

 private:
  static bool Later(const Release& a, const Release& b) {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }

  std::vector<Release> heap_;
  Release next_;
};

// A job without an estimate, such as a replica, ends when it is stopped. Its assumed end serves for planning, but is
// not shown to people.
bool EndIsKnown(const JobEntry& entry) {
  return entry.phase == Phase::kStopping || entry.job.estimate || entry.job.limit;
}

void Name(ReleaseFinding& finding, const JobEntry& entry) {
  if (finding.jobs.size() < kNamedJobs) finding.jobs.push_back(entry.job.id);
  ++finding.count;
  finding.end_unknown |= !EndIsKnown(entry);
}

void SetTime(ReleaseFinding& finding, conf::TimePoint at) {
  if (!finding.end_unknown) finding.at = at;
}

class Explainer {
 public:
  explicit Explainer(const ExplainInput& input)
      : in_(input),
        entry_(input.jobs[input.job]),
        cluster_(input.state.cluster()),
        reserved_(cluster_.nodes.size()) {}

  Explanation Run() {
    out_.job = entry_.job.id;
    out_.phase = entry_.phase;
    out_.as_of = in_.now;
    out_.submitted = entry_.job.submitted;
    out_.nodes = static_cast<uint32_t>(cluster_.nodes.size());
    if (entry_.phase == Phase::kPending) {
      ExplainAsk();
      if (entry_.job.pinned.empty()) {
        ExplainSpace();
      } else {
        ExplainPins();
      }
      ExplainQuotas();
      ExplainResources();
      out_.order = in_.order;
    } else {
      Blame(WaitCause::kNotPending);
    }
    std::ranges::sort(out_.causes);
    if (out_.causes.empty()) out_.causes.push_back(WaitCause::kNextCycle);
    out_.cause = out_.causes.front();
    return std::move(out_);
  }

 private:
  void Blame(WaitCause cause) { out_.causes.push_back(cause); }

  void ExplainAsk() {
    out_.unfinished = in_.unfinished;
    if (!out_.unfinished.empty()) Blame(WaitCause::kDependency);
    out_.not_before = entry_.job.not_before;
    if (out_.not_before && *out_.not_before > in_.now) Blame(WaitCause::kNotBefore);
    if (in_.line_stopped_by != kNone && in_.line_stopped_by != in_.job) {
      out_.line_stopped_by = in_.jobs[in_.line_stopped_by].job.id;
      Blame(WaitCause::kLine);
    }
    uint64_t kinds = 0;
    for (const auto& shapes : entry_.shapes) {
      for (const ShapeId shape : shapes) kinds |= in_.shapes[shape].kinds;
    }
    std::vector<uint32_t> totals(cluster_.kinds.size());
    for (const Node& node : cluster_.nodes) {
      const NodeType& type = cluster_.types[node.type];
      if (type.devices > 0) totals[type.kind] += type.devices;
    }
    for (size_t k = 0; k < cluster_.kinds.size(); ++k) {
      if ((kinds >> k & 1) == 0) continue;
      out_.kinds.push_back(
          {cluster_.kinds[k].name, in_.state.whole_devices(static_cast<KindId>(k)), totals[k]});
    }
  }

  void FindReservations(const SlotBoard& board) {
    for (const Reservation& reservation : in_.reservations) {
      if (reservation.job == in_.job) {
        out_.reserved_start = reservation.start;
        continue;
      }
      ReservationFinding finding{in_.jobs[reservation.job].job.id, reservation.start};
      for (const NodeId node : reservation.nodes) {
        reserved_.Add(node);
        bool room = false;
        for (size_t role = 0; role < needed_.size(); ++role) room |= board.on(role, node) > 0;
        finding.nodes += room;
      }
      if (finding.nodes > 0) out_.reservations.push_back(std::move(finding));
    }
  }

  void ExplainPins() {
    for (const MemberAt& at : entry_.job.pinned) {
      const NodeId node = at.holding.node;
      if (node >= cluster_.nodes.size()) return Blame(WaitCause::kNeverFits);
      const bool free = in_.state.health(node) == Health::kHealthy &&
                        IsFree(in_.state.node(node), at.holding, in_.state.view_of(node));
      if (free) continue;
      PinnedFinding finding{.node = cluster_.nodes[node].name};
      for (const MemberId id : in_.state.on(node)) {
        const Member& member = in_.state.member(id);
        if ((member.holding.devices & at.holding.devices) != 0)
          finding.held_by.push_back(in_.jobs[member.job].job.id);
      }
      std::ranges::sort(finding.held_by);
      finding.held_by.erase(std::ranges::unique(finding.held_by).begin(), finding.held_by.end());
      out_.pinned = std::move(finding);
      return Blame(WaitCause::kPinned);
    }
  }

  void ExplainSpace() {
    const std::vector<Role>& roles = entry_.job.roles;
    std::vector<uint32_t> held(roles.size());
    for (const MemberId id : in_.state.of(in_.job)) ++held[in_.state.member(id).role];
    for (size_t role = 0; role < roles.size(); ++role) {
      needed_.push_back(roles[role].min_count - std::min(held[role], roles[role].min_count));
    }
    SlotBoard board(in_.state, in_.shapes, entry_.shapes, entry_.job.anti_affinity);
    const SlotBoard empty = SlotBoard::WhenEmpty(board);
    FindReservations(board);

    bool never = false;
    bool short_now = false;
    bool short_unreserved = false;
    for (size_t role = 0; role < roles.size(); ++role) {
      RoleFinding finding = CheckRole(role, board);
      finding.wanted = roles[role].count - std::min(held[role], roles[role].count);
      finding.fit_empty = empty.total(role);
      never |= finding.fit_empty < finding.needed;
      short_now |= finding.fit_now < finding.needed;
      short_unreserved |= finding.fit_unreserved < finding.needed;
      out_.roles.push_back(std::move(finding));
    }
    const bool level_holds = CheckLevel(board, empty);
    never |= out_.domain && !out_.domain->holds_when_empty && !out_.domain->until;
    if (never) {
      Blame(WaitCause::kNeverFits);
    } else if (short_now) {
      Blame(WaitCause::kCapacity);
    } else if (!level_holds) {
      Blame(WaitCause::kTopology);
    } else if (short_unreserved) {
      Blame(WaitCause::kReservation);
    }
    if (!never && (short_now || !level_holds)) out_.release = FindRelease(board);
  }

  RoleFinding CheckRole(size_t role, const SlotBoard& board) const {
    const Role& asked = entry_.job.roles[role];
    RoleFinding finding{.role = asked.name, .each = InWords(asked.ask), .needed = needed_[role]};
    std::array<uint32_t, kFilters> kept_off{};
    for (NodeId node = 0; node < cluster_.nodes.size(); ++node) {
      const uint32_t slots = board.on(role, node);
      finding.nodes_with_room += slots > 0;
      if (!reserved_.Has(node)) finding.fit_unreserved += slots;
      if (slots == 0) ++kept_off[FilterOrder(board.obstacle(role, node))];
    }
    finding.fit_now = board.total(role);
    for (size_t order = 0; order < kFilters; ++order) {
      if (kept_off[order] > 0) finding.obstacles.push_back({FilterAt(order), kept_off[order]});
    }
    return finding;
  }

  // Whether a domain of the level that the job requires holds it; true where it requires none. At the level "node", each
  // node is a domain.
  bool CheckLevel(const SlotBoard& board, const SlotBoard& empty) {
    const Topology& topology = entry_.topology;
    if (!topology.required) return true;
    DomainFinding finding{.level = topology.level};
    if (!entry_.job.topology.required) finding.until = entry_.job.submitted + topology.wait;
    for (const uint32_t needed : needed_) finding.needed += needed;
    bool any = false;
    const auto offer = [&](const std::string& name, const auto& fits_now, const auto& fits_empty) {
      uint64_t fit = 0;
      uint64_t fit_empty = 0;
      for (size_t role = 0; role < needed_.size(); ++role) {
        fit += std::min<uint64_t>(fits_now(role), needed_[role]);
        fit_empty += std::min<uint64_t>(fits_empty(role), needed_[role]);
      }
      if (!any || fit > finding.fit) {
        finding.fit = fit;
        finding.domain = name;
      }
      any = true;
      finding.holds_when_empty |= fit_empty == finding.needed;
    };
    if (topology.level == kOneNode) {
      for (NodeId node = 0; node < cluster_.nodes.size(); ++node) {
        offer(
            cluster_.nodes[node].name, [&](size_t role) { return board.on(role, node); },
            [&](size_t role) { return empty.on(role, node); });
      }
    } else {
      const auto now = board.ByDomain();
      const auto then = empty.ByDomain();
      const auto& levels = cluster_.fabric.levels;
      const auto level = static_cast<size_t>(std::ranges::find(levels, topology.level) - levels.begin());
      for (DomainId d = 0; d < cluster_.fabric.domains.size(); ++d) {
        if (cluster_.fabric.domains[d].level != level) continue;
        offer(
            cluster_.fabric.domains[d].name, [&](size_t role) { return now[role][d]; },
            [&](size_t role) { return then[role][d]; });
      }
    }
    out_.domain = std::move(finding);
    return out_.domain->fit == out_.domain->needed;
  }

  bool Holds(const SlotBoard& board) const {
    for (size_t role = 0; role < needed_.size(); ++role) {
      if (board.total(role) < needed_[role]) return false;
    }
    return true;
  }

  // Whether the job fits below a domain of the required level that holds one of the nodes.
  bool HoldsAt(const SlotBoard& board, const std::vector<NodeId>& nodes) const {
    const Topology& topology = entry_.topology;
    if (!topology.required) return true;
    if (topology.level == kOneNode) {
      return std::ranges::any_of(nodes, [&](NodeId node) {
        for (size_t role = 0; role < needed_.size(); ++role) {
          if (board.on(role, node) < needed_[role]) return false;
        }
        return true;
      });
    }
    std::set<DomainId> domains;
    for (const NodeId node : nodes) {
      for (DomainId d = cluster_.nodes[node].domain; d != kNone; d = cluster_.fabric.domains[d].parent) {
        if (cluster_.fabric.levels[cluster_.fabric.domains[d].level] == topology.level) domains.insert(d);
      }
    }
    return std::ranges::any_of(domains, [&](DomainId d) {
      for (size_t role = 0; role < needed_.size(); ++role) {
        uint64_t fit = 0;
        for (const NodeId node : in_.state.nodes_under(d)) fit += board.on(role, node);
        if (fit < needed_[role]) return false;
      }
      return true;
    });
  }

  // Names only the ends that make room for it.
  ReleaseFinding FindRelease(SlotBoard& board) const {
    ReleaseFinding finding;
    Ends ends(in_);
    for (uint32_t i = 0; i < kMaxReleases; ++i) {
      const Release* const end = ends.Next();
      if (end == nullptr) break;
      const std::vector<NodeId> freed = board.Release(end->job);
      if (freed.empty()) continue;
      Name(finding, in_.jobs[end->job]);
      if (!Holds(board) || !HoldsAt(board, freed)) continue;
      SetTime(finding, end->at);
      return finding;
    }
    finding.end_unknown = false;
    return finding;
  }

  int64_t CountedMilli(JobIndex job, const QuotaRefusal& refusal) const {
    const JobEntry& entry = in_.jobs[job];
    if (std::ranges::find(refusal.counts, entry.queue) == refusal.counts.end()) return 0;
    if (!refusal.user.empty() && entry.job.user != refusal.user) return 0;
    int64_t milli = 0;
    for (const MemberId id : in_.state.of(job)) {
      const Holding& holding = in_.state.member(id).holding;
      const TypeView& view = in_.state.view_of(holding.node);
      if (holding.devices == 0) continue;
      if (refusal.kind != "*" && cluster_.kinds[view.type->kind].name != refusal.kind) continue;
      milli += HeldMilli(holding, view);
    }
    return milli;
  }

  void ExplainQuotas() {
    for (const QuotaRefusal& refusal : in_.quotas) {
      QuotaFinding finding{refusal, {}};
      int64_t excess = refusal.has + refusal.asked - refusal.most;
      Ends ends(in_);
      for (uint32_t i = 0; i < kMaxReleases && excess > 0; ++i) {
        const Release* const end = ends.Next();
        if (end == nullptr) break;
        const int64_t milli = CountedMilli(end->job, refusal);
        if (milli == 0) continue;
        Name(finding.release, in_.jobs[end->job]);
        excess -= milli;
        if (excess <= 0) SetTime(finding.release, end->at);
      }
      if (excess > 0) finding.release.end_unknown = false;
      out_.quotas.push_back(std::move(finding));
    }
    if (!out_.quotas.empty()) Blame(WaitCause::kQuota);
  }

  void ExplainResources() {
    bool never = false;
    for (const ResourceAsk& ask : entry_.job.resources) {
      const uint32_t free = in_.resources == nullptr ? 0 : in_.resources->free(ask.name);
      const uint32_t total = in_.resources == nullptr ? 0 : in_.resources->total(ask.name);
      if (ask.count <= free) continue;
      never |= ask.count > total;
      ResourceFinding finding{.lack = {ask.name, ask.count, free, total}};
      uint64_t comes = free;
      Ends ends(in_);
      while (const Release* const end = ends.Next()) {
        const uint32_t holds = AskedOf(in_.jobs[end->job].job.resources, ask.name);
        if (holds == 0) continue;
        const JobEntry& holder = in_.jobs[end->job];
        if (finding.held_by.size() < kNamedJobs) finding.held_by.push_back(holder.job.id);
        if (comes >= ask.count) continue;
        Name(finding.release, holder);
        comes += holds;
        if (comes >= ask.count) SetTime(finding.release, end->at);
      }
      std::ranges::sort(finding.held_by);
      out_.resources.push_back(std::move(finding));
    }
    if (never) {
      Blame(WaitCause::kNeverFits);
    } else if (!out_.resources.empty()) {
      Blame(WaitCause::kResource);
    }
  }

  const ExplainInput& in_;
  const JobEntry& entry_;
  const Cluster& cluster_;
  NodeSet reserved_;              // for others
  std::vector<uint32_t> needed_;  // per role
  Explanation out_;
};

std::string InWords(const DeviceAsk& ask) {
  const std::string kinds =
      ask.kinds.empty() ? "devices of any kind" : fmt::format("{}", fmt::join(ask.kinds, " or "));
  std::string text;
  if (ask.count > 0) {
    text = fmt::format("{} {}", ask.count, kinds);
  } else if (!ask.profile.empty()) {
    text = fmt::format("a partition {} of {}", ask.profile, kinds);
  } else {
    text = fmt::format("{}/1000 of {}", ask.milli, kinds);
  }
  if (ask.memory_mib > 0) text += fmt::format(" with {} MiB", ask.memory_mib);
  return text;
}

void AddRules(std::string& text, std::string_view verb, const std::vector<LabelRule>& rules) {
  for (const LabelRule& rule : rules) {
    fmt::format_to(std::back_inserter(text), ", {} {}={}", verb, rule.key, fmt::join(rule.values, "|"));
  }
}

}  // namespace

QuotaRefusal RefusalBy(const QueueTree& tree, const QuotaVerdict& verdict, const Cluster& cluster,
                       const std::string& user) {
  constexpr std::array<std::string_view, 5> kBounds = {"none", "limit", "user-limit", "deserved", "lent"};
  QuotaRefusal refusal{.queue = tree.name(verdict.queue),
                       .bound = std::string(kBounds[static_cast<size_t>(verdict.bound)]),
                       .kind = verdict.kind == kAnyKind ? "*" : cluster.kinds[verdict.kind].name,
                       .has = verdict.has,
                       .asked = verdict.asked,
                       .most = verdict.most};
  for (QueueIndex queue = 0; queue < tree.size(); ++queue) {
    if (tree.Under(queue, verdict.queue)) refusal.counts.push_back(queue);
  }
  if (verdict.bound == QuotaVerdict::Bound::kUserLimit) refusal.user = user;
  return refusal;
}

Explanation Explain(const ExplainInput& input) {
  return Explainer(input).Run();
}

constexpr conf::Word<WaitCause> kWaitCauses[] = {{"not-pending", WaitCause::kNotPending},
                                                 {"never-fits", WaitCause::kNeverFits},
                                                 {"dependency", WaitCause::kDependency},
                                                 {"not-before", WaitCause::kNotBefore},
                                                 {"quota", WaitCause::kQuota},
                                                 {"resource", WaitCause::kResource},
                                                 {"capacity", WaitCause::kCapacity},
                                                 {"topology", WaitCause::kTopology},
                                                 {"reservation", WaitCause::kReservation},
                                                 {"pinned", WaitCause::kPinned},
                                                 {"line", WaitCause::kLine},
                                                 {"next-cycle", WaitCause::kNextCycle}};

conf::Words<WaitCause> WordsOf(WaitCause) {
  return kWaitCauses;
}

std::string_view Name(WaitCause cause) {
  return conf::WordOf(kWaitCauses, cause);
}

std::string InWords(const Ask& ask) {
  std::vector<std::string> ways;
  ways.reserve(ask.devices.size());
  for (const DeviceAsk& device : ask.devices) ways.push_back(InWords(device));
  std::string text = ways.empty() ? "no devices" : fmt::format("{}", fmt::join(ways, ", else "));
  if (ask.cpu_milli > 0) text += fmt::format(", {:g} cores", static_cast<double>(ask.cpu_milli) / 1000);
  if (ask.memory_mib > 0) text += fmt::format(", {} MiB of memory", ask.memory_mib);
  AddRules(text, "with", ask.require);
  AddRules(text, "without", ask.avoid);
  if (ask.isolation == Isolation::kTenant) text += ", on nodes of its own tenant";
  if (ask.isolation == Isolation::kNode) text += ", on nodes of its own";
  return text;
}

}  // namespace scheduler
