// Admission: when a request goes to a replica: at once, or after a wait in its model's queue. A cold start is
// a wait. The stage `admit` begins it; `serve` comes back to it when every replica went away and another may
// be started.
//
// Thread: the shard's.
#pragma once

#include "conf/time.h"
#include "gateway/net/task.h"
#include "gateway/request/exchange.h"

namespace gateway {

// Waits in the model's queue again, after the replicas that were tried have gone, and begins a new attempt.
// kContinue: its first step is x.delivery.step.
net::Task<StageResult> AdmitAgain(Exchange& x);

// Wakes waiting requests: the request's replica may have room now.
void WakeNext(const Exchange& x, conf::TimePoint now);

// What fairness between tenants counts: an output token costs twice an input token.
double QueueCost(const router::limits::Usage& usage);

}  // namespace gateway
