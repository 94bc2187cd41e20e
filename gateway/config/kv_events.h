// `kv_events` of an endpoint: the address at which its engine publishes the contents of its KV cache.
#pragma once

#include <string>

namespace conf {
class Object;
}

namespace gateway::config {

struct KvEvents {
  std::string url;     // tcp://HOST:PORT, of the PUB socket; of discovered addresses: tcp://{host}:PORT
  std::string replay;  // of the ROUTER socket; empty: missed batches are not replayed
  std::string topic;   // only messages whose topic begins so
};

void Bind(conf::Object& object, KvEvents& out);

}  // namespace gateway::config
