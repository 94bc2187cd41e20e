#include "gateway/replicas/ask_replica.h"

#include <string>

#include "gateway/shard/endpoint_fields.h"

namespace gateway {

net::http::FetchRequest AskReplica(const ReplicaRuntime& replica, std::string_view path,
                                   conf::Duration timeout) {
  net::http::FetchRequest request;
  request.url = {replica.config->url.tls(), replica.remote.host, replica.remote.port, std::string(path), ""};
  request.headers = FieldsOf(*replica.config);
  request.timeout = timeout;
  request.tls = replica.remote.tls;
  request.server_name = replica.remote.server_name;
  return request;
}

}  // namespace gateway
