// Section `queue` of a model: which requests wait at the gateway, for how long, and in which order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/config/types.h"

namespace gateway::config {

// One class of urgency, by the name that tenants and keys give as their `priority`.
struct Band {
  std::string name;
  double reserved = 0;  // its part of the places and of what is dispatched, whatever more urgent ones ask
};

struct Queue {
  bool enabled = true;
  uint32_t max_requests = 10'000;
  uint64_t max_bytes = uint64_t{256} << 20;                  // of waiting requests
  conf::Duration max_wait = std::chrono::minutes(5);         // as for the first byte of an answer
  conf::Duration busy_for = std::chrono::milliseconds(500);  // of prefill; then a replica is full enough
  // A request lets shorter requests of its tenant pass for at most this many times the duration of its own
  // prompt computation and adapter load.
  double shorter_first = 4;
  std::optional<uint32_t> max_running;  // requests on a replica; absent: what its engine says or shows
  // Between two tokens: lines of batches go only to replicas whose tokens come this fast; absent: to any with places.
  std::optional<conf::Duration> batch_token_time;
  std::vector<Band> bands{{"high"}, {"normal", 0.1}, {"low", 0.05}};  // the most urgent first
  std::string default_band;  // of priorities that are no band here; empty: "normal", else the last

  // The band of this priority.
  size_t BandOf(std::string_view priority) const;
};

void Bind(conf::Object& object, Queue& out);

}  // namespace gateway::config
