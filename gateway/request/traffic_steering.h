// TrafficSteering: what the operator's routing rules mean for one request: which track serves it (a canary,
// by header or share), which replica (the one that its session used last), whether its choice is written to
// the routing log, and whether a copy of it goes elsewhere. A model without such rules costs a request a few
// comparisons.
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

  // Before the first choice of a replica: completes `facts`, and starts a copy where the model wants one.
  void Steer(const OutgoingRequest& request, router::PickFacts& facts, conf::TimePoint now);
  // A try goes to the replica: its session stays there.
  void Sent(const OutgoingRequest& request, ReplicaId replica, conf::TimePoint now) const;
  // A piece of the answer, as the client gets it.
  void KeepAnswer(std::string_view piece) {
    if (comparison_) comparison_->KeepAnswer(piece);
  }

  // Whether Ended() has anything to do.
  bool wants_outcome() const { return comparison_ || (log_ && !log_->picks.empty()); }
  // The request is over, and no replica is chosen for it any more.
  struct Result {
    Outcome outcome;
    bool answer_whole = false;
    ledger::EndReason reason{};
    conf::TimePoint at;
  };
  void Ended(const OutgoingRequest& request, const Result& end);

 private:
  uint64_t session_ = 0;  // 0: none, or no rule asks for it
  std::unique_ptr<router::PickLog> log_;
  std::shared_ptr<ShadowComparison> comparison_;
};

}  // namespace gateway::routing
