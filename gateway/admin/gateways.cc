// The gateways that share the store.
#include <algorithm>

#include "conf/time.h"
#include "gateway/admin/answers/gateways.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/control/control_plane.h"

namespace gateway::admin {

Answer ListGateways(const Operations& operations, const Call& call) {
  std::vector<answers::Gateway> all;
  control::ControlPlane* const plane = operations.control_plane();
  const std::vector<control::GatewayStatus> gateways =
      plane == nullptr ? std::vector<control::GatewayStatus>() : plane->gateways(call.now);
  // A leader that was killed may not be known to be gone yet.
  uint64_t latest = 0;
  for (const control::GatewayStatus& gateway : gateways) latest = std::max(latest, gateway.record.epoch);
  for (const control::GatewayStatus& gateway : gateways) {
    const bool leads = gateway.self
                           ? plane->loop() != nullptr
                           : gateway.live && gateway.record.epoch != 0 && gateway.record.epoch == latest;
    all.push_back({.name = gateway.record.name,
                   .role = !gateway.live ? "gone"
                           : leads       ? "leads"
                                         : "follows",
                   .self = gateway.self,
                   .version = gateway.record.version,
                   .address = gateway.record.address,
                   .epoch = gateway.record.epoch,
                   .since = {gateway.record.since},
                   .seen_ms = conf::ToMillis(call.now - gateway.seen),
                   .lag = gateway.lag});
  }
  return ListPage(std::move(all), &answers::Gateway::name, call);
}

}  // namespace gateway::admin
