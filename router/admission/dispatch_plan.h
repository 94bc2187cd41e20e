// Which waiting request goes next, when some replicas have headroom and others do not: the first one that a replica
// with headroom serves best. A request stays if waiting for a busy replica is better: that replica holds its prompt,
// and the wait is shorter than computing the prompt elsewhere. Requests behind it may pass. A queue that gave every
// free place to its first request would compute prompts again that other replicas hold; this makes more work, and the
// queue stays full.
//
// A plan is one pass over the waiting requests in their order. For the requests behind it, a request that stays counts
// as if it were already at the replica for which it waits, so that not all wait for the same replica. Nothing is kept
// from one pass to the next, so a replica that becomes slow or goes away needs no special case. A request waits for a
// full replica only when the measured answers there show that one ends soon.
//
// The plan uses the formula of the `cost` policy. Requests of models with another policy or with prefill transfer, and
// requests of sessions or canaries, go in the order of the queue. A spare request goes when a replica has room to spare
// (load/spare_room.h) and no other request waits: otherwise spare requests would take the replicas for which others
// wait, one after the other. Pure except for the shared state that it is given.
#pragma once

#include <absl/functional/function_ref.h>

#include <optional>

#include "conf/time.h"
#include "router/admission/queue.h"
#include "router/candidates.h"
#include "router/policies/cost.h"

namespace router {

class DispatchPlan {
 public:
  // The most requests that one pass considers.
  static constexpr uint32_t kMaxConsidered = 32;

  DispatchPlan(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now,
               scheduler::Rng& rng);
  DispatchPlan(const DispatchPlan&) = delete;
  DispatchPlan& operator=(const DispatchPlan&) = delete;

  struct Advice {
    bool now = true;  // the request should go now
    // Seconds to its first token on the best replica if no other request were before it: computing its prompt
    // and loading its adapter. Zero while that is not known.
    conf::Duration takes{};
  };
  // Plans the next request in the queue's order, which asks for this plan's model or for an adapter on it.
  Advice Consider(ModelId asked, const PickFacts& facts);

 private:
  Candidates CandidatesOf(ModelId asked) const;
  Advice ConsiderSpare(ModelId asked, const PickFacts& facts);

  const RouteTable& table_;
  const LoadView& load_;
  const conf::TimePoint now_;
  CostPlan plan_;
  scheduler::Rng& rng_;
  bool no_spare_room_ = false;
};

// A request in the queue: its model, which may be an adapter on the queue's model, and its facts.
struct WaitingRequest {
  ModelId model{};
  const PickFacts* facts = nullptr;
};

// Takes the next request that should go out of the queue. Absent while `dispatched` requests, which were taken before
// and have not been charged to a replica yet, use up the present headroom. When no replica can be used and none
// `may_start`, the first request goes and learns the reason. `lookup` is called under the queue's lock.
std::optional<Dispatch> NextDispatch(AdmissionQueue& queue, const RouteTable& table, ModelId model,
                                     const LoadView& load, uint32_t dispatched, bool may_start,
                                     conf::TimePoint now, scheduler::Rng& rng,
                                     absl::FunctionRef<WaitingRequest(WaitTicket)> lookup);

// Whether all replicas that a search scans have headroom, or the model's requests need no plan: then a
// request may go without one.
bool AllHaveHeadroom(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now);

}  // namespace router
