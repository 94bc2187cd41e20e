#include "gateway/control/replica_endpoint.h"

namespace gateway::control {

std::shared_ptr<const config::Endpoint> EndpointOf(const ReplicaAddress& address,
                                                   const config::ReplicaTemplate& by,
                                                   const ReplicaKeys& keys) {
  auto endpoint = std::make_shared<config::Endpoint>();
  endpoint->name = address.replica;
  endpoint->url = {
      .scheme = by.tls ? "https" : "http", .host = address.host, .port = address.port, .path = ""};
  endpoint->engine = by.engine;
  endpoint->model = by.model;
  endpoint->apis = config::DefaultApis(by.engine);
  if (by.tls) endpoint->tls = *by.tls;
  if (address.keyed) endpoint->api_key = keys.Of(address.replica);
  return endpoint;
}

}  // namespace gateway::control
