// The cluster as the planner sees it, made of Slurm's nodes and of the jobs that hold their devices. Pure.
//
// The nodes are those of the partition that runs are submitted to. Devices are the GRES whose names are
// configured; a node's kind is the type of its first such GRES ("h100" of gpu:h100:8).
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
  // Slurm may put others' jobs in these back into the queue for ours.
  std::vector<std::string> preemptible_partitions{};
  std::vector<std::string> preemptible_qos{};
};

// The part of a node that a job holds. Where Slurm does not name its devices: the lowest free ones.
struct NodeShare {
  scheduler::NodeId node = 0;
  std::vector<uint8_t> devices{};
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
};

struct Occupant {
  uint32_t job = 0;
  std::string name{};  // of one of our runs: its id
  std::string user{};
  std::string partition{};
  std::string qos{};
  bool ours = false;
  bool preemptible = false;
  conf::TimePoint started{};
  std::optional<conf::TimePoint> ends{};  // by its time limit, at the latest
  std::vector<NodeShare> holds{};         // on nodes of this cluster
};

struct View {
  scheduler::Cluster cluster{};
  std::vector<Occupant> occupants{};    // by job
  std::vector<std::string> left_out{};  // nodes and devices that the planner does not see, and why
};

View ViewOf(const std::vector<Node>& nodes, const std::vector<Job>& jobs, const ViewOptions& options,
            const std::function<bool(const Job&)>& is_ours);

// Down and failed nodes are quarantined, drained nodes drain, and a node that has not answered lately is
// suspect.
scheduler::Health HealthOf(const Node& node);

// Whether the node waits for its jobs to end: drained, or to be rebooted then. A replica has no end.
bool IsDrained(const Node& node);

}  // namespace plugins::launchers::slurm
