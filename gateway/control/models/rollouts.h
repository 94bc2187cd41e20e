// Rollouts: the progress of the new versions of models. The store keeps it, so that a rollout continues after a
// restart; every gateway follows it, so that all give a version the same share of requests.
//
// Owner: the Process; stopped before it is destroyed. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <string>
#include <vector>

#include "gateway/config/config.h"
#include "gateway/control/models/rollout.h"
#include "gateway/ledger/record.h"
#include "gateway/net/loop.h"
#include "gateway/store/stored_copy.h"

namespace gateway::control {

class Rollouts {
 public:
  struct Environment {
    // The event is on disk when it returns.
    std::function<net::Task<absl::Status>(ledger::Event)> record;
    // The term in which this gateway leads; 0: no other gateway may lead.
    std::function<uint64_t()> epoch = [] { return uint64_t{0}; };
    // Rollouts have changed.
    std::function<void()> changed = [] {};
  };

  // All outlive it.
  Rollouts(net::Loop& loop, store::Store& store, Environment env);

  // The present rollouts are known when it returns Ok.
  net::Task<absl::Status> Start() { return stored_.Start(); }
  void Stop() { stored_.Stop(); }

  // The change is in the ledger, in the store and in force when this returns. A shared store alone knows who leads, so
  // there one write has the change and its record. `action`: begin, open, next, promote, roll_back, abort.
  net::Task<absl::Status> Set(Rollout rollout, std::string_view action);
  // The model's policy no longer has a rollout.
  net::Task<absl::Status> Forget(std::string model);

  // Null: none was begun.
  const Rollout* Find(std::string_view model) const;
  // The shares of new versions now, by the policies of the configuration.
  std::vector<config::ShareOfVersion> Shares(const Config& configured) const;

 private:
  const Environment env_;
  store::StoredCopy<Rollout> stored_;  // by model
};

}  // namespace gateway::control
