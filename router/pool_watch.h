// Who of a model's replicas hangs, is an outlier, is back, or is new: judged by what came from each, a few
// times a second.
//
//   hung     something is under way, and nothing has been heard for `hung_after`, or three times the longest
//            silence of late (up to four times hung_after), beyond what the prompts there and answers that
//            come whole explain (EngineSignals::Overdue). Over as soon as a token comes, of a trial or of
//            whoever still waits there.
//   ejected  its time to the first token per uncached token, or its time per token, is slow_factor times the
//            median of the pool's, in each of three windows of slow_for / 3 with enough to go by; at most a
//            third of the pool, the slowest first. Over when trials after its time are no longer slow; else
//            it is ejected for twice as long.
//   new      slow start: it came to a pool that others serve already, or has become usable again, by its
//            probes, its breaker or the above.
//
// One thread calls it for all models. Pure but for the shared cells.
#pragma once

#include <vector>

#include "conf/time.h"
#include "router/replica_load.h"
#include "router/route_table.h"

namespace router {

class PoolWatch {
 public:
  // A replica's standing has changed.
  struct Change {
    ReplicaId replica;
    Standing::State was;
    Standing::State is;
  };

  // Looks at a model's replicas; what changed is appended.
  static void Look(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now,
                   std::vector<Change>& changes);

 private:
  struct Pool;
};

}  // namespace router
