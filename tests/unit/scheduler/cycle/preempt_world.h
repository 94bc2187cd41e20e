// Jobs on a cluster that start at once where there is room, and preempt where there is none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "scheduler/cycle/victim_search.h"
#include "scheduler/placement/gang.h"
#include "scheduler/placement/policies.h"
#include "scheduler/queues/order.h"
#include "scheduler/queues/queue_defects.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler::testing {

inline conf::TimePoint At(int64_t seconds) {
  return conf::TimePoint(std::chrono::seconds(seconds));
}

// Jobs that start at once where there is room, and preempt where there is not; who is stopped waits again.
class PreemptWorld {
 public:
  PreemptWorld(Cluster cluster, std::vector<Queue> queues, PreemptionPolicy policy = {}, uint64_t seed = 1)
      : cluster_(std::move(cluster)),
        queues_(std::move(queues)),
        policy_(policy),
        state_(cluster_),
        shapes_(cluster_),
        jobs_(shapes_),
        tree_(cluster_, queues_, std::chrono::hours(1)),
        placer_(state_, shapes_, *FindPlacementPolicy("binpack")),
        gangs_(state_, shapes_),
        rng_(seed) {
    EXPECT_EQ(FirstDefect(queues_, cluster_), "");
  }

  static Job Asks(const std::string& queue, uint32_t members, uint16_t devices, int32_t priority = 0) {
    Job job{.id = "", .queue = queue, .user = "u"};
    job.priority = priority;
    job.roles = {{.name = "w", .ask = testing::Devices(devices), .count = members, .min_count = members}};
    return job;
  }

  JobIndex Submit(Job job) {
    job.id = fmt::format("job-{}", submitted_++);
    job.submitted = now_;
    const QueueIndex queue = tree_.Find(job.queue);
    const JobIndex index = jobs_.Add(std::move(job), queue);
    tree_.Request(AccountOf(index), DemandOf(jobs_[index], shapes_, Extent::kWanted));
    return index;
  }

  // An elastic gang may get more than its minimum: then that is what its quota must allow.
  bool Fits(Trial& trial, JobIndex job) {
    Rng fixed(7);
    const Trial::Mark before = trial.mark();
    if (gangs_.Place(trial, placer_, job, jobs_[job], nullptr, fixed).placed.empty()) return false;
    Amount held{0, 0};
    for (const MemberId id : state_.of(job)) {
      const Holding& h = state_.member(id).holding;
      held.milli += AmountOf(h, state_.view_of(h.node)).milli;
    }
    if (tree_.Admit(AccountOf(job), std::span(&held, 1)).admitted()) return true;
    trial.Rollback(before);
    return false;
  }

  bool Start(JobIndex job) {
    if (!tree_.Admit(AccountOf(job), DemandOf(jobs_[job], shapes_, Extent::kMinimum)).admitted())
      return false;
    Trial trial(state_);
    if (!Fits(trial, job)) return false;
    Started(trial, job);
    return true;
  }

  std::vector<Victim> Preempt(JobIndex job, PreemptMode mode) {
    Trial trial(state_);
    const auto fits = [&](Trial& t) { return Fits(t, job); };
    std::vector<Victim> victims =
        FindVictims({trial, jobs_, shapes_, tree_, policy_, now_}, job, mode, fits, rng_);
    if (victims.empty()) {
      EXPECT_EQ(trial.mark(), 0u);
      return {};
    }
    for (const Victim& victim : victims) {
      EXPECT_EQ(victim.whole, state_.of(victim.job).empty());
      if (victim.whole) jobs_[victim.job].phase = Phase::kPending;
      lost_ += victim.cost;
    }
    Started(trial, job);
    return victims;
  }

  // With the job and its victims as they were, whether it fits while `but` of the victims stay.
  bool FitsWithout(const std::vector<Victim>& victims, size_t but, JobIndex job, const Member* member) {
    Trial trial(state_);
    std::vector<std::pair<AccountId, Amount>> refunded;
    for (size_t v = 0; v < victims.size(); ++v) {
      if (v == but && victims[v].whole) continue;
      for (const MemberAt& m : victims[v].members) {
        if (v == but && member->role == m.role && member->rank == m.rank) continue;
        for (const MemberId id : state_.of(victims[v].job)) {
          if (state_.member(id).role != m.role || state_.member(id).rank != m.rank) continue;
          refunded.emplace_back(AccountOf(victims[v].job),
                                AmountOf(m.holding, state_.view_of(m.holding.node)));
          trial.Evict(id);
          break;
        }
      }
    }
    for (const auto& [account, amount] : refunded) tree_.Refund(account, amount);
    const bool fits =
        tree_.Admit(AccountOf(job), DemandOf(jobs_[job], shapes_, Extent::kMinimum)).admitted() &&
        Fits(trial, job);
    for (const auto& [account, amount] : refunded) tree_.Charge(account, amount);
    return fits;
  }

  // Preempts, but first checks on a copy of the situation that every victim is needed.
  std::vector<Victim> PreemptWithCause(JobIndex job, PreemptMode mode) {
    std::vector<Victim> victims;
    Rng again = rng_;
    {
      Trial trial(state_);
      const auto fits = [&](Trial& t) { return Fits(t, job); };
      victims = FindVictims({trial, jobs_, shapes_, tree_, policy_, now_}, job, mode, fits, again);
      for (const Victim& victim : victims) Recharge(victim, 1);
    }
    for (size_t v = 0; v < victims.size(); ++v) {
      if (victims[v].whole) {
        EXPECT_FALSE(FitsWithout(victims, v, job, nullptr)) << "a victim was not needed";
        continue;
      }
      for (const MemberAt& m : victims[v].members) {
        const Member member{victims[v].job, m.role, m.rank, m.holding};
        EXPECT_FALSE(FitsWithout(victims, v, job, &member)) << "a member shrank without need";
      }
    }
    return Preempt(job, mode);
  }

  void End(JobIndex job) {
    Trial trial(state_);
    for (const MemberId id : state_.of(job)) {
      const Holding& h = state_.member(id).holding;
      tree_.Refund(AccountOf(job), AmountOf(h, state_.view_of(h.node)));
    }
    trial.EvictJob(job);
    trial.Commit();
    tree_.Withdraw(AccountOf(job), DemandOf(jobs_[job], shapes_, Extent::kWanted));
    jobs_.Erase(job);
  }

  void Advance(int64_t seconds) {
    now_ += std::chrono::seconds(seconds);
    tree_.AdvanceTo(now_);
  }

  std::vector<JobIndex> In(Phase phase) {
    std::vector<JobIndex> found;
    for (JobIndex j = 0; j < jobs_.bound(); ++j) {
      if (jobs_[j].alive && jobs_[j].phase == phase) found.push_back(j);
    }
    std::ranges::sort(found, {}, [&](JobIndex j) { return jobs_[j].sequence; });
    return found;
  }

  // Those that wait, as the default policy has it.
  std::vector<JobIndex> Line() {
    tree_.ComputeShares();
    const Order order(Policy().order);
    std::vector<std::pair<Rank, JobIndex>> line;
    for (const JobIndex j : In(Phase::kPending)) {
      line.emplace_back(order.RankOf(jobs_[j], tree_, AccountOf(j), RankedBy(jobs_[j], shapes_), 0, {}), j);
    }
    std::ranges::sort(line, [](const auto& a, const auto& b) { return a.first.Before(b.first); });
    std::vector<JobIndex> jobs;
    for (const auto& [rank, job] : line) jobs.push_back(job);
    return jobs;
  }

  int64_t Held(const std::string& queue) const { return tree_.allocated(tree_.Find(queue), kAnyKind); }
  AccountId AccountOf(JobIndex job) { return tree_.Account(jobs_[job].queue, jobs_[job].job.user); }

  void Recharge(const Victim& victim, int sign) {
    for (const MemberAt& m : victim.members) {
      const Amount amount = AmountOf(m.holding, state_.view_of(m.holding.node));
      tree_.Charge(AccountOf(victim.job), {amount.kind, sign * amount.milli});
    }
  }

  Cluster cluster_;
  std::vector<Queue> queues_;
  PreemptionPolicy policy_;
  ClusterState state_;
  ShapeTable shapes_;
  JobTable jobs_;
  QueueTree tree_;
  Placer placer_;
  GangPlacer gangs_;
  Rng rng_;
  conf::TimePoint now_ = At(1'000'000);
  double lost_ = 0;

 private:
  void Started(Trial& trial, JobIndex job) {
    for (const MemberId id : state_.of(job)) {
      const Holding& h = state_.member(id).holding;
      tree_.Charge(AccountOf(job), AmountOf(h, state_.view_of(h.node)));
    }
    trial.Commit();
    jobs_[job].phase = Phase::kRunning;
    jobs_[job].started = jobs_[job].checkpointed = now_;
  }

  int submitted_ = 0;
};

}  // namespace scheduler::testing
