// Models that share a cluster, in virtual time: recorded requests of each behind the production router (served_model.h),
// the production autoscaler for each, production's law of sleeping replicas and of replicas for batches, and the
// production planner for the devices of all.
//
// A replica waits until the planner gives it devices, starts for `cold_start`, serves, drains and ends. Where its
// policy lets replicas sleep it falls asleep instead, gives its devices back, and wakes on the same devices in `wake`.
// Host memory is taken to suffice for all that sleep. A replica for batches serves any request of its model, changes
// hands with the autoscaler (BatchReplicas), and leaves within kBatchDrain when the planner gives its devices to another.
//
// Pure: the same options give the same report.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "conf/time.h"
#include "router/sim/report.h"
#include "router/sim/world.h"
#include "scheduler/autoscale/batch_replicas.h"
#include "scheduler/autoscale/policy.h"
#include "scheduler/engine/model.h"
#include "scheduler/model.h"

namespace router::sim {

inline constexpr conf::Duration kBatchDrain = std::chrono::seconds(15);

struct FleetModel {
  std::string name;
  scheduler::engine::Profile engine;  // a replica takes its `devices`
  scheduler::autoscale::ScalingPolicy policy;
  scheduler::autoscale::BatchStarts batch{};
  std::span<const Request> requests{};  // by time
  std::span<const Request> lines{};     // of batches; they begin again when all have been sent
  uint32_t lines_in_flight = 0;
  conf::Duration cold_start = std::chrono::seconds(90);
  conf::Duration fall{};  // how long falling asleep takes
  conf::Duration wake{};
  uint32_t initial = 0;  // replicas that are ready at the start
};

struct FleetOptions {
  scheduler::Cluster cluster;
  std::vector<FleetModel> models{};
  conf::Duration tick = std::chrono::milliseconds(100);  // of the control loop
  conf::Duration sample_every{};                         // of Report::first_tokens; zero: none
  uint64_t seed = 1;
};

struct FleetModelReport {
  std::string name;
  Report served;
  double device_seconds = 0;  // held, from the launch to the end, without sleep
  double batch_seconds = 0;   // of these, by replicas for batches
  double asleep_seconds = 0;  // of replicas
  uint32_t cold_starts = 0;
  uint32_t batch_starts = 0;  // of replicas for batches
  uint32_t wakes = 0;
  uint32_t changed_hands = 0;  // replicas that went on for batches, or no longer for batches alone
  uint32_t most_replicas = 0;  // that held devices
};

struct FleetReport {
  std::vector<FleetModelReport> models;  // in their order
  double seconds = 0;
  uint32_t preempted = 0;  // replicas for batches that made room
};

// `keep_going` is called now and then with the part of the requests that has arrived, 0 to 1; when it returns false
// the simulation ends with a useless report.
FleetReport SimulateFleet(const FleetOptions& options,
                          const std::function<bool(double part)>& keep_going = {});

}  // namespace router::sim
