// Room: engines are kept just full enough. More than they can begin at once only waits in them, where nobody
// can call it back, reorder it or give it to a replica that becomes free elsewhere.
//
// A replica is full by what has been seen of it, never by what is guessed:
//   - it runs as many requests as the operator or its engine says that it can;
//   - it holds a quarter more than ran there when others were seen to queue in it (FullBatch);
//   - its engine says that its KV cache is full;
//   - our streams there wait: their backlog over the measured prefill rate, or their number over the first
//     tokens that come a second, is longer than `busy_for` beyond what a request takes that finds nobody
//     waiting. Up to eight are no queue, nor 64 where no first token has been seen yet.
//
// Where requests wait for the replica that serves each best (see TurnPlan) a tenth of `busy_for` is enough,
// so that the engine is not idle when those before have begun: what waits here can still be put in order.
// There it may be more for a short prompt, by what is computed: until that and its own together take
// `busy_for`, since many short ones are computed in one step, and had better be there for it.
//
// So answers that come whole fill a replica only up to a number that somebody has told or that its engine was
// seen to reach. One that is idle always has room, whatever the meters say; a provider always, but for the
// operator's bound.
//
// Pure but for the shared cells it is given. Callable from every shard, without a lock.
#pragma once

#include <cstdint>
#include <optional>

#include "conf/time.h"
#include "router/replica_load.h"
#include "router/route_table.h"

namespace router {

// Who waits at the gateway for this very replica (see TurnPlan), or for any that has room.
enum class WaitsFor : uint8_t { kAny, kThis };

// The prompt of who asks, in tokens.
struct Prompt {
  double held = 0;      // by this replica, which may be busier by as long as they would take to compute
  double computed = 0;  // the others
};

bool HasRoom(const SeenSignals& seen, const RoomSpec& spec, const Prompt& prompt = {},
             WaitsFor waits = WaitsFor::kAny);
// Of this replica, a provider or not, of a model that may have no RoomSpec: then it has room.
bool HasRoom(const ModelSpec& model, const ReplicaSpec& replica, const SeenSignals& seen,
             const Prompt& prompt = {});

// It has none until an answer ends, however soon the prompts there are computed: it runs as many as it can.
bool IsFull(const SeenSignals& seen, const RoomSpec& spec);
bool IsFull(const ModelSpec& model, const ReplicaSpec& replica, const SeenSignals& seen);

struct RoomFound {
  uint32_t replicas = 0;  // that have room, of those looked at
  bool usable = false;    // somebody may be asked
  // Nobody may, but somebody who rests after a 429 or 503 may be from then on, and no other model is to be
  // asked meanwhile.
  std::optional<conf::TimePoint> rested_at{};

  // Whether it is worth waiting for.
  bool expected() const { return usable || rested_at; }
};

// Looks for `enough` replicas with room, from where some was last found, at no more than kRoomLooks of them:
// a larger pool is gone through by the looks that follow. A model without a RoomSpec has it everywhere.
inline constexpr uint32_t kRoomLooks = 32;
RoomFound LookForRoom(const RouteTable& table, ModelId model, const LoadView& load, uint32_t enough,
                      conf::TimePoint now);

// The replica may have room now: the next look begins there.
void RoomMayBeAt(const RouteTable& table, ModelId model, const LoadView& load, ReplicaId replica);

}  // namespace router
