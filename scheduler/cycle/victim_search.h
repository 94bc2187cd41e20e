// The search behind preempt.h: its state, and the stops that it tries. Used by nothing else.
//
// Stops are made in the trial and refunded in the tree at once, so that each is judged by what those before
// it left; Reset takes them back. Lives for one question.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "scheduler/cycle/preempt.h"

namespace scheduler {

class VictimSearch {
 public:
  // Whether a reclaim leaves the victims' queues what they deserve, or may go below.
  enum class Spares : uint8_t { kDeserved, kNothing };

  VictimSearch(const Preemption& where, JobIndex job, PreemptMode mode, Spares spares, TryPlace fits)
      : trial_(where.trial),
        state_(where.trial.state()),
        jobs_(where.jobs),
        shapes_(where.shapes),
        tree_(where.tree),
        policy_(where.policy),
        now_(where.now),
        job_(job),
        entry_(where.jobs[job]),
        mode_(mode),
        spares_(spares),
        fits_(fits),
        start_(where.trial.mark()) {}

  std::vector<Victim> Run(Rng& rng);

 private:
  struct Candidate {
    JobIndex job = kNone;
    AccountId account = 0;
    QueueIndex ours = kNone;        // above the preemptor's queue, beside `theirs`
    QueueIndex theirs = kNone;      // above the victim's queue; equal to `ours` within one queue
    int64_t milli = 0;              // held by all its members
    double weight = 0;              // what the victims' order goes by
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

  void GatherCandidates(Rng& rng);
  double WeightOf(const JobEntry& entry, int64_t milli, Rng& rng) const;
  double WeightOf(const Candidate& c, const std::vector<MemberId>& members, bool whole) const;
  static int64_t Total(const std::vector<Amount>& amounts, KindId counted_by);
  std::vector<MemberId> Ordered(std::span<const MemberId> members) const;
  std::vector<Amount> HeldBy(const std::vector<MemberId>& members) const;
  int64_t MilliOf(const std::vector<MemberId>& members) const;
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
  std::vector<Victim> Report() const;

  Trial& trial_;
  ClusterState& state_;
  const JobTable& jobs_;
  const ShapeTable& shapes_;
  QueueTree& tree_;
  const PreemptionPolicy& policy_;
  conf::TimePoint now_;
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

}  // namespace scheduler
