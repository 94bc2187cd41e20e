// Relays the current answer to the client: a stream event by event, each as soon as it is whole; a small answer in
// one piece with its head; a large one piece by piece.
//
// Thread: the shard's.
#pragma once

#include <string_view>

#include "gateway/net/task.h"
#include "gateway/request/exchange.h"
#include "router/attempt.h"

namespace gateway {

// How the relay ended.
struct RelayEnd {
  enum class Kind : uint8_t {
    kWhole,     // the upstream's answer was read to its end; x.outcome.error, if set, is the client's answer
    kBroken,    // the upstream broke off; another replica may be tried if the client has nothing yet
    kReported,  // the engine reported an error in its stream, and the client has the report
    kGivenUp,   // the gateway ended it; x.outcome.error says why
    kClientLeft,
  };
  Kind kind;
  router::Event event;            // for the attempt
  std::string_view message = {};  // kBroken, kReported: for the client and the ledger
};

// Relays the answer of x.delivery.upstream. Meanwhile, a client that leaves aborts the upstream's connection; the
// caller ends this registration.
net::Task<RelayEnd> Relay(Exchange& x);

}  // namespace gateway
