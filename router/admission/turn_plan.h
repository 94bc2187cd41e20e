// Who of those that wait goes now, where some replicas have room and others do not: whoever is best served by
// one that has. Who is better off waiting for a busy one (it holds the prompt, and the wait is shorter than
// computing it again elsewhere) stays, and lets those behind it pass; a queue that hands every free place to
// its first one computes again what another replica holds, has the more to do by that, and stays full.
//
// A pass over the waiters in their order: those that stay count for those behind them, as if they stood where
// they wait for already, so that not all of them wait for the same replica. Nothing is kept from one pass to
// the next: who waited for a replica that became slow, or went, goes elsewhere. A replica
// that runs as many as it can is waited for only as long as the answers there show that one ends soon.
//
// By the law of the policy `cost`; of models of other policies, with replicas that compute prompts for
// others, and of requests of sessions whoever is asked goes. Pure but for the shared cells it is given.
#pragma once

#include <absl/functional/function_ref.h>

#include <optional>

#include "conf/time.h"
#include "router/admission/queue.h"
#include "router/pick.h"
#include "router/policies/cost.h"

namespace router {

class TurnPlan {
 public:
  // Whether it says anything of this model's requests.
  static bool Plans(const ModelSpec& model);

  // So many are looked at in a pass, at most.
  static constexpr uint32_t kLooks = 32;

  TurnPlan(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now,
           scheduler::Rng& rng);
  TurnPlan(const TurnPlan&) = delete;
  TurnPlan& operator=(const TurnPlan&) = delete;

  struct Going {
    bool now = true;
    // Until its first token where it is best served, if nobody were before it: its prompt's computation, and
    // its adapter's loading. Zero while that is not known.
    conf::Duration takes{};
  };
  // Of the next one in order, which asks for this plan's model or for an adapter on it.
  Going Ask(ModelId asked, const PickFacts& facts);

 private:
  const RouteTable& table_;
  const LoadView& load_;
  const conf::TimePoint now_;
  CostPlan plan_;
};

// The next of those who wait in the queue that goes, and nobody while those who were `called`, and have not
// used their turns yet, fill what room there is. Where no replica can be used at all, and none `may_start`,
// whoever is next goes to hear why. `who` is asked under the queue's lock.
struct Asking {
  ModelId model{};  // this one, or an adapter on it
  const PickFacts* facts = nullptr;
};
std::optional<Turn> NextToGo(AdmissionQueue& queue, const RouteTable& table, ModelId model,
                             const LoadView& load, uint32_t called, bool may_start, conf::TimePoint now,
                             scheduler::Rng& rng, absl::FunctionRef<Asking(WaitTicket)> who);

// Every replica that is looked at has room, or nobody is asked: no request needs a plan.
bool AllHaveRoom(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now);

}  // namespace router
