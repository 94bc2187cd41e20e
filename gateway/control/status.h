// The state of the control loop for metrics, readiness and the admin API: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "conf/time.h"
#include "gateway/control/devices/device_state.h"
#include "gateway/control/devices/power_caps.h"
#include "gateway/control/learned/learned_starts.h"
#include "gateway/control/moves/replica_moves.h"
#include "gateway/control/nodes/node_trust.h"
#include "gateway/control/planning/cluster_metrics.h"
#include "gateway/control/planning/cordon.h"
#include "gateway/control/replicas/replica_status.h"
#include "gateway/control/scaling/model_status.h"
#include "gateway/control/weights/prefetches.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

struct Status {
  bool begun = false;          // the workloads of earlier processes are known
  std::string launcher;        // empty: nothing is scaled here
  std::string trouble;         // with the launcher; empty: none
  std::string run_warning;     // why runs can do what the gateway can; empty: they cannot
  std::string device_warning;  // why another gateway could give out the same devices; empty: none could
  std::vector<ReplicaStatus> replicas;
  std::vector<ModelStatus> models;
  std::vector<ColdStart> cold_starts;
  std::vector<ColdStart> wakes;
  std::vector<LearnedStarts::Row> start_phases;
  uint64_t weights_transferred = 0;      // bytes, for replicas, since the start
  uint64_t weights_from_neighbours = 0;  // of these
  std::vector<PrefetchStatus> prefetches;
  uint64_t prefetched = 0;         // fetches that succeeded, since the start
  uint64_t failed_prefetches = 0;  // fetches that failed, since the start
  std::vector<NodeStatus> nodes;
  std::vector<plugins::launchers::DeviceFault> faults;
  std::vector<Cordon> cordons;
  ClusterStatus cluster;
  MoveCounts moves{};
  std::vector<PowerCapStatus> power_caps;
  std::string power_cap_trouble;  // why limits cannot be set; empty: they can, or none is needed
  uint64_t suspicions = 0;        // of nodes, since the start
  uint64_t launches = 0;          // of replicas, since the start
  uint64_t failures = 0;          // of replicas, since the start
  std::shared_ptr<const TelemetryStatus> telemetry;  // null: nothing is measured
  // Energy since the start, in millijoules; idle devices have neither tenant nor model.
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> energy;
  // Device time since the start, in microseconds, by tenant, model (empty: jobs) and kind.
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> devices;
};

}  // namespace gateway::control
