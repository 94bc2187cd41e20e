// Operations: what an operator's side (metrics, readiness, the admin API) sees of the process and may ask of
// it.
//
// Filled by the Process, which owns all that is pointed to and outlives whoever holds this. Thread: the
// control loop's, unless a member says otherwise. A function that is empty stands for a part that is not
// configured.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/audit_delivery.h"
#include "gateway/key_events.h"
#include "gateway/limits_sync.h"
#include "gateway/runtime.h"
#include "gateway/shard_metrics.h"
#include "gateway/shared.h"
#include "gateway/telemetry/otlp.h"

namespace gateway {

// How the attempts to load a configuration have gone since the start.
struct ReloadState {
  uint64_t applied = 0;
  uint64_t refused = 0;
  bool last_ok = true;
  conf::TimePoint last_at{};
  std::string why;  // the last refusal, all its problems
};

// Something that is not as it should be.
struct Condition {
  std::string part;    // ledger, redis, model:chat-small, …
  std::string detail;  // what is wrong, for people
  bool fatal = false;  // no new work can be taken
};

struct Operations {
  Shared* shared = nullptr;
  KeyEvents* key_events = nullptr;
  std::function<std::shared_ptr<const Runtime>()> runtime;
  std::function<std::vector<const ShardMetrics*>()> shards;
  std::function<std::string()> metrics;  // in Prometheus' text format
  std::function<ReloadState()> reloads;
  std::function<absl::Status(std::string_view actor)> reload;
  // After keys were made or revoked: shards work by them from now on.
  std::function<void()> publish_keys;

  std::function<SharingStatus()> sharing;
  std::function<std::vector<SinkStatus>()> sinks;
  std::function<telemetry::OtlpExporter::Status()> traces;
  // What else is wrong: one function for each part that can tell.
  std::vector<std::function<void(std::vector<Condition>&)>> conditions;
};

}  // namespace gateway
