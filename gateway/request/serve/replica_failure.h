// A failed try at a replica: counted by its kind, and logged.
#pragma once

#include <string_view>

#include "gateway/shard/shard.h"
#include "router/attempt.h"

namespace gateway {

// `what` failed, for the log. An event that is no failure of the replica is not logged; a cancelled try is
// only counted.
void RecordReplicaFailure(Shard& shard, const Runtime& runtime, std::string_view request_id,
                          router::ReplicaId replica, std::string_view what, const router::Event& event);

}  // namespace gateway
