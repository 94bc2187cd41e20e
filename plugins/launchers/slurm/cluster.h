// The cluster as the planner sees it, from what Slurm says of its nodes, and who holds what of it. Pure.
//
// A node belongs to it when it is in the partition that runs are submitted to. Devices are those GRES whose
// names are configured; a node's kind is the type of the first of them that it has ("h100" of gpu:h100:8).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "plugins/launchers/slurm/answers.h"
#include "scheduler/model.h"

namespace plugins::launchers::slurm {

struct ViewOptions {
  std::string partition{};
  std::vector<std::string> gres{"gpu"};
  // Jobs of others in these may be put back into the queue for ours.
  std::vector<std::string> preemptible_partitions{};
  std::vector<std::string> preemptible_qos{};
};

// What a job has of one node. Where Slurm does not say which devices, the lowest that nobody else has.
struct Holding {
  scheduler::NodeId node = 0;
  std::vector<uint8_t> devices{};
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
};

struct Occupant {
  uint32_t job = 0;
  std::string name{};  // of a run of ours, its id
  std::string user{};
  std::string partition{};
  std::string qos{};
  bool ours = false;
  bool preemptible = false;
  conf::TimePoint started{};
  std::optional<conf::TimePoint> ends{};  // at the latest, by its time limit
  std::vector<Holding> holds{};           // of nodes of this cluster
};

struct View {
  scheduler::Cluster cluster{};
  std::vector<Occupant> occupants{};    // by job
  std::vector<std::string> left_out{};  // nodes and devices that the planner does not see, and why
};

View ViewOf(const std::vector<Node>& nodes, const std::vector<Job>& jobs, const ViewOptions& options,
            const std::function<bool(const Job&)>& is_ours);

// Down and failed nodes are quarantined, drained ones drain, and one that has not answered lately is suspect.
scheduler::Health HealthOf(const Node& node);

}  // namespace plugins::launchers::slurm
