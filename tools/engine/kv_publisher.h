// KvPublisher: publishes the KV log as vLLM does (vllm/distributed/kv_events.py): numbered batches in msgpack
// on a PUB socket, and the last of them again on a ROUTER socket for subscribers that missed some.
//
// Loop's thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/net/zmq.h"
#include "tools/engine/kv_log.h"

namespace tidegate_engine {

struct KvEventOptions {
  std::string url;     // tcp://ADDRESS:PORT to listen on
  std::string replay;  // address of the replay socket; empty: none
  std::string topic;
  size_t buffer = 10'000;  // batches that are kept
  bool maps = false;       // vLLM's newer form
};

class KvPublisher {
 public:
  static absl::StatusOr<std::unique_ptr<KvPublisher>> Open(gateway::net::Loop& loop,
                                                           const KvEventOptions& options);

  // Publishes the events as one batch; nothing if there are none.
  void Publish(const std::vector<KvEvent>& events, conf::TimePoint now);

 private:
  explicit KvPublisher(KvEventOptions options) : options_(std::move(options)) {}
  void OnReplay(std::span<const std::string_view> frames);

  const KvEventOptions options_;
  gateway::net::ZmqContext context_;
  std::unique_ptr<gateway::net::ZmqSocket> live_;
  std::unique_ptr<gateway::net::ZmqSocket> replay_;
  uint64_t next_ = 0;
  std::deque<std::string> sent_;  // the last of them is number next_ - 1
};

// One batch, as msgpack.
std::string EncodeKvBatch(const std::vector<KvEvent>& events, double at, bool maps);

}  // namespace tidegate_engine
