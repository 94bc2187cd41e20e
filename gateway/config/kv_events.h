// `kv_events` of an endpoint: where its engine publishes what its KV cache holds.
#pragma once

#include <string>

namespace conf {
class Object;
}

namespace gateway::config {

struct KvEvents {
  std::string url;     // tcp://HOST:PORT, of the PUB socket
  std::string replay;  // likewise, of the ROUTER socket; empty: what was missed is not asked for
  std::string topic;   // only messages whose topic begins so
};

void Bind(conf::Object& object, KvEvents& out);

}  // namespace gateway::config
