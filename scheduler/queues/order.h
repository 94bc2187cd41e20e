// The order of the queue: each job is ranked by a weighted sum of named terms.
//
// The sum has a part that a job keeps from its submission to its start (OfJob) and a part that its queue and
// user have in common (OfAccount), which changes only as devices are charged and usage decays. So jobs of one
// account and kind can be kept sorted by the first, and a cycle needs the second only once per account and
// whenever that was charged: the head of each such group goes into a heap, is scored again when it comes out,
// and goes back if it is no longer the first. Age needs no clock: all jobs age alike, so the earlier
// submission says all.
//
// Pure; order.cc has the one table of terms. Both parts depend on nothing but the present state.
#pragma once

#include <cstdint>
#include <span>
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
};

std::span<const OrderTermInfo> OrderTerms();

// Null for a name that is not in the list.
const OrderTermInfo* FindOrderTerm(std::string_view name);

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

  Rank RankOf(const JobEntry& entry, const QueueTree& tree, AccountId account, KindId kind) const {
    return {OfJob(entry) + OfAccount(tree, account, kind), entry.sequence};
  }

 private:
  struct Weighted {
    const OrderTermInfo* term;
    double weight;
  };
  std::vector<Weighted> of_job_;
  std::vector<Weighted> of_account_;
};

// The kind by which a job is ranked: of its first role that asks for devices.
KindId RankedBy(const JobEntry& entry, const ShapeTable& shapes);

}  // namespace scheduler
