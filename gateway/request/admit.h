// Admission: sends a request to a replica at once, or after a wait in its model's queue. A cold start is such a
// wait. The stage `admit` begins it; `serve` returns to it when every replica went away and another one may be
// started.
//
// Thread: the shard's.
#pragma once

#include "conf/time.h"
#include "gateway/net/task.h"
#include "gateway/request/exchange.h"

namespace gateway {

// Waits in the model's queue again, after the tried replicas went away, and begins a new attempt.
// kContinue: the attempt's first step is x.delivery.step.
net::Task<StageResult> AdmitAgain(Exchange& x);

// Wakes waiting requests: the request's replica may have room now.
void WakeNext(const Exchange& x, conf::TimePoint now);

// The cost that fairness between tenants counts: an output token costs as much as two input tokens.
double QueueCost(const router::limits::Usage& usage);

}  // namespace gateway
