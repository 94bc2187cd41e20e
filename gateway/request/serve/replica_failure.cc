#include "gateway/request/serve/replica_failure.h"

#include "gateway/log.h"

namespace gateway {

using router::Event;

void RecordReplicaFailure(Shard& shard, const Runtime& runtime, std::string_view request_id,
                          router::ReplicaId replica, std::string_view what, const Event& event) {
  ReplicaCells& cells = shard.metrics.replica(runtime.names(), replica);
  switch (event.kind) {
    case Event::Kind::kConnectFailed:
      cells.connect_failures.Add();
      break;
    case Event::Kind::kTimedOut:
      cells.timeouts.Add();
      break;
    case Event::Kind::kHung:
      cells.hung.Add();
      break;
    case Event::Kind::kBroken:
      cells.broken.Add();
      break;
    case Event::Kind::kClientGone:
      cells.cancelled.Add();
      return;
    case Event::Kind::kStatus:
      if (event.status < 300 || (event.status >= 400 && event.status < 500 && event.status != 429)) return;
      (event.status == 429 || event.status == 503 ? cells.refusals : cells.errors).Add();
      break;
    default:
      return;
  }
  log::Warn(what, {{"request_id", request_id},
                   {"replica", runtime.replica(replica).name()},
                   {"how", Event::NameOf(event.kind)},
                   {"status", event.status}});
}

}  // namespace gateway
