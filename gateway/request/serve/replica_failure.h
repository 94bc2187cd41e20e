// Counts a failed try at a replica by its kind, and logs it.
#pragma once

#include <string_view>

#include "gateway/shard/shard.h"
#include "router/attempt.h"

namespace gateway {

// `what`: the message of the log line. An event that is not the replica's failure is not logged; a cancelled try is
// only counted.
void RecordReplicaFailure(Shard& shard, const Runtime& runtime, std::string_view request_id,
                          router::ReplicaId replica, std::string_view what, const router::Event& event);

}  // namespace gateway
