// Finds replicas with headroom (load/headroom.h) in a model's pool. Callable from every shard, without a
// lock.
#pragma once

#include <cstdint>
#include <optional>

#include "conf/time.h"
#include "router/load/replica_load.h"
#include "router/routes/route_table.h"

namespace router {

struct HeadroomFound {
  uint32_t replicas = 0;  // with headroom, of those that were scanned
  bool usable = false;    // some replica may be used
  // When no replica may be used: when the first one that rests after a 429 or 503 may be. Not set where a
  // fallback model takes overloaded requests.
  std::optional<conf::TimePoint> rested_at{};

  // Whether it is worth waiting for headroom.
  bool expected() const { return usable || rested_at; }
};

// The most replicas that one search scans; later searches continue in a larger pool.
inline constexpr uint32_t kMaxHeadroomScan = 32;

// Looks for `enough` replicas with headroom, beginning where one was found last. A model without
// HeadroomLimits has headroom everywhere.
HeadroomFound FindHeadroom(const RouteTable& table, ModelId model, const LoadView& load, uint32_t enough,
                           conf::TimePoint now);

// Lets the next search begin at `replica`, which may have headroom now.
void HintHeadroomAt(const RouteTable& table, ModelId model, const LoadView& load, ReplicaId replica);

}  // namespace router
