// The demand of a request on its model's replicas, estimated before it is sent.
#pragma once

#include "gateway/request/exchange.h"
#include "gateway/shard/demand.h"

namespace gateway {

// The demand of a request that its limits have admitted. Thread: the shard's.
RequestDemand EstimateDemand(const Exchange& x);

}  // namespace gateway
