// Cordons: nodes and devices that operators have set aside. They get no new work; running work continues.
// The store keeps them, so they outlive the gateway, and changes by other processes are followed.
//
// Owner: the ScalingLoop; stopped before it is destroyed. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gateway/control/planning/cordon.h"
#include "gateway/control/workloads/context.h"
#include "gateway/net/loop.h"
#include "gateway/store/stored_copy.h"

namespace gateway::control {

class Cordons {
 public:
  // All outlive it.
  Cordons(net::Loop& loop, store::Store& store, const Context& context);

  // Reports the present cordons to the planner, and later changes. Until it has returned Ok nothing may be
  // placed; it may be called again.
  net::Task<absl::Status> Start();
  void Stop() { stored_.Stop(); }

  // The cordon is in the ledger, in the store and in force when these return. A cordon that is set again replaces the
  // earlier one. Errors: NotFound (the cluster has no such node or device), FailedPrecondition (it is not cordoned, or
  // for Undrain not drained), and those of the store.
  net::Task<absl::Status> Set(Cordon cordon);
  net::Task<absl::Status> Lift(Cordon cordon);
  net::Task<absl::Status> Drain(Cordon cordon);
  net::Task<absl::Status> Undrain(Cordon cordon);

  // Reports all cordons to the planner again, since it has other nodes.
  void UpdatePlanner();

  // No read of the store is under way after Stop().
  bool idle() const { return stored_.idle(); }

  std::vector<Cordon> all() const;
  // The order to drain the node; null: there is none.
  const Cordon* Drains(const std::string& node) const;
  // Sentences for the explanation of waiting workloads.
  std::vector<std::string> InWords() const;

 private:
  absl::Status Check(const Cordon& cordon) const;
  ledger::Event EventOf(std::string_view action, const Cordon& cordon) const;
  net::Task<absl::Status> Commit(ledger::Event event, std::function<std::optional<store::Write>()> write);

  const Context& context_;
  store::StoredCopy<Cordon> stored_;
  bool started_ = false;
};

}  // namespace gateway::control
