// The order of the queue: each job is ranked by a weighted sum of named terms.
//
// The sum has four parts. OfJob stays the same from a job's submission to its start. OfAccount is common to a queue and
// user, and changes only as devices are charged and usage decays. OfRun is common to the jobs of one class, and changes
// as jobs end. OfWait grows with the wait. So the jobs of one account, kind and class can be kept sorted by the first
// part, and a cycle needs the others only once for each group and whenever its account was charged: the head of each
// group goes into a heap, is scored again when it comes out, and goes back if it is no longer the first. Age needs no
// clock: all jobs age equally, so only the time of submission matters.
//
// No job starves because of its expected run, which counts as a week at most. With the weights e of expected and a of
// age, a job goes before all jobs that have the same other terms and were submitted e / a weeks after it. If the weight
// of overdue exceeds the differences of all other terms, jobs that have waited for more than two weeks go first, the
// longest wait first, whatever their queue and run.
//
// Pure; order.cc has the one table of terms. All parts depend on the present state and time alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/policy.h"
#include "scheduler/queues/queue_tree.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

struct OrderTermInfo {
  std::string_view name;
  std::string_view what;              // for people, one line
  double (*of_job)(const JobEntry&);  // higher goes first; null: the term is the account's
  double (*of_account)(const QueueTree&, AccountId, KindId);
  double (*of_run)(double hours);   // as expected (run_history.h)
  double (*of_wait)(double hours);  // since it was submitted; must not fall
};

std::span<const OrderTermInfo> OrderTerms();

// Null for a name that is not in the list.
const OrderTermInfo* FindOrderTerm(std::string_view name);

// One term of a job's rank: it adds weight · value.
struct OrderPart {
  std::string name{};
  double weight = 0;
  double value = 0;
};

// A place in the queue. Ties go to the job that was submitted first.
struct Rank {
  double score = 0;
  uint64_t sequence = 0;

  bool Before(const Rank& other) const {
    return score != other.score ? score > other.score : sequence < other.sequence;
  }
};

class Order {
 public:
  // The names were checked by the policy's reader; a term that is not in the list counts for nothing.
  explicit Order(std::span<const OrderTerm> terms);

  double OfJob(const JobEntry& entry) const;
  // `kind`: of the job's first device demand, kAnyKind where several will do or none is asked for.
  double OfAccount(const QueueTree& tree, AccountId account, KindId kind) const;
  // `hours`: the expected run of its class; 0: it has none.
  double OfRun(double hours) const;
  bool uses_runs() const { return !of_run_.empty(); }
  double OfWait(const JobEntry& entry, conf::TimePoint now) const;

  // The job's terms in the policy's order. The value of age is the hours that it has waited.
  std::vector<OrderPart> PartsOf(const JobEntry& entry, const QueueTree& tree, AccountId account, KindId kind,
                                 double expected_hours, conf::TimePoint now) const;

  // All parts of a job that is the only one of its kind.
  Rank RankOf(const JobEntry& entry, const QueueTree& tree, AccountId account, KindId kind,
              double expected_hours, conf::TimePoint now) const {
    return {OfJob(entry) + OfAccount(tree, account, kind) + OfRun(expected_hours) + OfWait(entry, now),
            entry.sequence};
  }

 private:
  struct Weighted {
    const OrderTermInfo* term;
    double weight;
  };
  std::vector<Weighted> of_job_;
  std::vector<Weighted> of_account_;
  std::vector<Weighted> of_run_;
  std::vector<Weighted> of_wait_;
  std::vector<Weighted> all_;
};

// The kind by which a job is ranked: of its first role that asks for devices.
KindId RankedBy(const JobEntry& entry, const ShapeTable& shapes);

}  // namespace scheduler
