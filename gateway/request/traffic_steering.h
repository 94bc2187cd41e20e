// TrafficSteering: applies the operator's routing rules to one request: which track serves it (a canary, by header
// or share), which replica (the one that its session used last), whether the choice is written to the routing
// log, and whether a copy is sent. Without such rules, a request costs a few comparisons.
//
// Part of an exchange, on its shard.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "conf/time.h"
#include "gateway/ledger/record.h"
#include "gateway/request/outgoing_request.h"
#include "gateway/request/shadow_copy.h"
#include "gateway/routing/record.h"
#include "router/pick.h"

namespace gateway::routing {

class TrafficSteering {
 public:
  TrafficSteering() = default;
  TrafficSteering(const TrafficSteering&) = delete;
  TrafficSteering& operator=(const TrafficSteering&) = delete;

  // Called before the first choice of a replica: completes `facts`, and starts a copy if the model wants one.
  void Steer(const OutgoingRequest& request, router::PickFacts& facts, conf::TimePoint now);
  // A try goes to the replica: the session stays there.
  void Sent(const OutgoingRequest& request, ReplicaId replica, conf::TimePoint now) const;
  // Keeps a piece of the answer, as the client gets it.
  void KeepAnswer(std::string_view piece) {
    if (comparison_) comparison_->KeepAnswer(piece);
  }

  // Whether Ended() has anything to do.
  bool wants_outcome() const { return comparison_ || (log_ && !log_->picks.empty()); }
  // The request has ended: no more replicas are chosen for it.
  struct Result {
    Outcome outcome;
    bool answer_whole = false;
    ledger::EndReason reason{};
    conf::TimePoint at;
  };
  void Ended(const OutgoingRequest& request, const Result& end);

 private:
  uint64_t session_ = 0;  // 0: no session, or no rule needs it
  std::unique_ptr<router::PickLog> log_;
  std::shared_ptr<ShadowComparison> comparison_;
};

}  // namespace gateway::routing
