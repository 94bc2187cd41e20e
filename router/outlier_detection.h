// Outlier detection: finds the replicas of a model that hang, are much slower than the others, have returned,
// or are new. It evaluates them a few times a second by the tokens that each has sent.
//
//   hung     The replica has work and has sent nothing for `hung_after`, or for three times its longest
//            recent silence if that is longer (at most four times hung_after). Silence that prompts or
//            answers without streaming explain does not count (EngineSignals::Overdue). The state ends with
//            the next token, from a trial or from a request that still waits there.
//   ejected  Its time to first token per uncached token, or its time per token, is slow_factor times the
//            pool's median, in three consecutive windows of slow_for / 3 that have enough samples. At most a
//            third of the pool is ejected, the slowest first. After the ejection trials decide: the replica
//            returns, or is ejected for twice as long.
//   new      Slow start: the replica joined a pool that already serves, or has become usable again by its
//            probes, its breaker or one of the above.
//
// One thread calls it for all models. It writes nothing but the shared state of the load view.
#pragma once

#include <vector>

#include "conf/time.h"
#include "router/load/replica_load.h"
#include "router/routes/route_table.h"

namespace router {

struct OutlierChange {
  ReplicaId replica;
  OutlierStatus::State was;
  OutlierStatus::State is;
};

// Judges the replicas of `model` and appends to `changes` every state that changed.
void DetectOutliers(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now,
                    std::vector<OutlierChange>& changes);

}  // namespace router
