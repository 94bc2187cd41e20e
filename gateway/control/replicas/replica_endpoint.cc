#include "gateway/control/replicas/replica_endpoint.h"

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

std::shared_ptr<const config::Endpoint> InRole(std::shared_ptr<const config::Endpoint> endpoint,
                                               VersionRole role, std::string_view version) {
  const std::string_view track = role == VersionRole::kNew ? version : std::string_view();
  const uint32_t weight = role == VersionRole::kLeaves ? 0 : 1;
  if (endpoint->track == track && endpoint->weight == weight) return endpoint;
  auto other = std::make_shared<config::Endpoint>(*endpoint);
  other->track = track;
  other->weight = weight;
  return other;
}

}  // namespace gateway::control
