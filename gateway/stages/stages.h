// The stages of the pipeline, in its order. Each is one room of this folder; pipeline.cc lists them.
#pragma once

#include <string_view>
#include <vector>

#include "gateway/exchange.h"
#include "gateway/net/task.h"
#include "gateway/pipeline.h"
#include "router/admission/turn_plan.h"

namespace gateway::stages {

Verdict Route(Exchange& x);
Verdict Authenticate(Exchange& x);
net::Task<Verdict> AnswerModels(Exchange& x);
net::Task<Verdict> ReadBody(Exchange& x);
Verdict ReadFacts(Exchange& x);
Verdict Reserve(Exchange& x);
net::Task<Verdict> RecordOpen(Exchange& x);
net::Task<Verdict> Dispatch(Exchange& x);
net::Task<Verdict> Relay(Exchange& x);
// Whether it may go to a replica now: nobody waits before it, and the replica that serves it best has room.
router::TurnPlan::Going GoesAtOnce(Exchange& x, conf::TimePoint now);
// Whether it is best served by a replica that has room, as far as is known of its prompt.
router::TurnPlan::Going AskPlan(Exchange& x, conf::TimePoint now);
// How a wait in the model's queue has ended.
struct Turn {
  enum class Outcome : uint8_t {
    kCome,           // and there is room
    kRefused,        // at once, or when it was too late to be answered in time
    kWaitedTooLong,  // as long as it may
    kOutOfTime,      // its own time has passed
    kClientGone,
  };
  Outcome outcome;
  router::Entered entered;  // kRefused: why, and when to come back
};
// `takes`: until its first token, as the plan has said.
net::Task<Turn> AwaitTurn(Exchange& x, conf::Duration takes);
// What the client is told when no turn has come.
Verdict Denied(Exchange& x, const Turn& turn);
// Room may have come free at the replica that serves the request: whoever waits for it is called.
void CallNext(const Exchange& x, conf::TimePoint now);
// What fairness between tenants counts: output is twice as dear as input.
double QueueCost(const router::limits::Usage& usage);
// Does what the attempt says until an answer is in hand (kGoOn) or nothing more can be tried.
net::Task<Verdict> Pursue(Exchange& x, router::Step step, conf::TimePoint now);

// Charges what the request used and gives back the rest and its permit. Before the last bytes of an answer go
// out, so that a client that asks again at once finds its room; later calls do nothing.
void Charge(Exchange& x);
// Ends every request, however it went: what was used is charged, recorded, counted and traced.
void Settle(Exchange& x);

// Names of the models that this caller may use, for errors.
std::vector<std::string_view> AllowedModels(const Exchange& x);
// What the ledger says of the request itself.
ledger::OpenRecord OpenRecordOf(const Exchange& x);

}  // namespace gateway::stages
