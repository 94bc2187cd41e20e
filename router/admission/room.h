// Room: engines are kept just full enough. More than they can begin at once only waits in them, where nobody
// can call it back, reorder it or give it to a replica that becomes free elsewhere.
//
// A replica has room while what is measured of it says that a request would begin soon: its backlog over its
// prefill rate, once that is measured, is below `busy_for`, it runs fewer requests than it can, few of them
// still wait for a first token, and its KV cache is not full. One that is idle always has room, whatever the
// meters say.
//
// Pure but for the shared cells it is given. Callable from every shard, without a lock.
#pragma once

#include <cstdint>

#include "conf/time.h"
#include "router/replica_load.h"
#include "router/route_table.h"

namespace router {

// `spared`: seconds of prefill that this replica would save the request, by which it may be busier.
bool HasRoom(const Signals& signals, const RoomSpec& spec, double spared = 0);

struct RoomFound {
  uint32_t replicas = 0;  // that have room, of those looked at
  bool usable = false;    // somebody may be asked at all, or will be soon: resting after a 429 or 503
};

// Looks for `enough` replicas with room, from where some was last found, at no more than kRoomLooks of them:
// a larger pool is gone through by the looks that follow. A model without a RoomSpec has it everywhere.
inline constexpr uint32_t kRoomLooks = 32;
RoomFound LookForRoom(const RouteTable& table, ModelId model, const LoadView& load, uint32_t enough,
                      conf::TimePoint now);

// The replica may have room now: the next look begins there.
void RoomMayBeAt(const RouteTable& table, ModelId model, const LoadView& load, ReplicaId replica);

}  // namespace router
