// Rollouts: how far the new versions of models have come, kept in the store, so that a rollout goes on after a restart,
// and followed by every gateway, so that all give a version the same share.
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

  // In the ledger, in the store and in force when it returns. In a shared store the record for the ledger is written
  // with the change, as the store alone knows who leads. `action`: begin, open, next, promote, roll_back, abort.
  net::Task<absl::Status> Set(Rollout rollout, std::string_view action);
  // Its policy has no rollout any more.
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
