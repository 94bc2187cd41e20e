// ReplicaMoves: carries out the planner's decisions to move replicas. Another replica starts at the new place; the old
// one ends when the new one serves and the model has as many serving replicas as it should have. If the new one fails
// to start, the old one stays.
//
// The new replica's record names the one that it replaces. So a move continues after a restart, and each of the two
// keeps its own devices.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "gateway/control/replicas/replicas.h"
#include "gateway/control/workloads/context.h"
#include "gateway/control/workloads/workloads.h"

namespace gateway::control {

// Moves of running work, since the start.
struct MoveCounts {
  uint64_t jobs = 0;      // began to move
  uint64_t replicas = 0;  // began to move
  uint64_t done = 0;      // replicas that another one has replaced
  uint64_t failed = 0;    // replicas that stayed, since the new one failed to start
};

class ReplicaMoves {
 public:
  struct Environment {
    // How many replicas a model should have.
    std::function<uint32_t(const std::string& model)> wanted;
  };

  ReplicaMoves(const Context& context, Workloads& workloads, Replicas& replicas, Environment env)
      : context_(context), workloads_(workloads), replicas_(replicas), env_(std::move(env)) {}

  // The planner holds old and new places for the replica; false: it stays where it is.
  bool Begin(Workload& replica, const scheduler::Action& move);
  // From now on the autoscaler does not count replicas that others have replaced. After Replicas::SetAside.
  void SetAside();
  // Ends what is replaced, and gives up moves that have failed. After the autoscaler's decision.
  void Tick();

  const MoveCounts& counts() const { return counts_; }

 private:
  struct Move {
    std::string old;       // the replica that is replaced
    bool retired = false;  // it ends since the other one serves
  };

  const Context& context_;
  Workloads& workloads_;
  Replicas& replicas_;
  const Environment env_;
  std::map<std::string, Move> moving_;  // by the ids of the new replicas
  MoveCounts counts_;
};

}  // namespace gateway::control
