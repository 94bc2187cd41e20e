// RunTimeModels: what operators change of models at run time: LoRA adapters, and how far rollouts of new versions have
// come. It keeps what of it is in force for the next runtime.
//
// Owner: the Process. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gateway/control/control_plane.h"
#include "gateway/control/models/adapter_loads.h"
#include "gateway/control/models/adapters.h"
#include "gateway/control/models/rollouts.h"
#include "gateway/net/loop.h"
#include "gateway/shard/runtime.h"
#include "gateway/store/store.h"

namespace gateway {

class RunTimeModels {
 public:
  struct Environment {
    // The event is on disk when it returns.
    std::function<net::Task<absl::Status>(ledger::Event)> record;
    std::function<std::shared_ptr<const Runtime>()> runtime;
    // Null before there is one.
    std::function<control::ControlPlane*()> control_plane;
    // What is in force has changed.
    std::function<void()> publish;
    // Something that people see has changed.
    std::function<void()> changed;
  };

  // All outlive it.
  RunTimeModels(net::Loop& loop, store::Store& store, Environment env);

  // What the store has is in force when it returns Ok. Blocks; before anything is served.
  absl::Status Open();
  void Start() { loads_.Start(); }
  // A request has begun to wait.
  void OnWaiting() { loads_.Wake(); }
  // No engine is asked any more.
  void StopLoads() { loads_.Stop(); }
  void Stop();

  control::Adapters& adapters() { return adapters_; }
  control::AdapterLoads& loads() { return loads_; }
  control::Rollouts& rollouts() { return rollouts_; }
  std::vector<config::RunTimeAdapter> adapters_in_force() const { return adapters_.InForce(); }
  std::vector<config::ShareOfVersion> shares(const Config& configured) const {
    return rollouts_.Shares(configured);
  }

 private:
  uint64_t Epoch() const;
  void OnAdapters();
  void OnRollouts();

  net::Loop& loop_;
  const Environment env_;
  control::Adapters adapters_;
  control::AdapterLoads loads_;
  control::Rollouts rollouts_;
  std::vector<config::RunTimeAdapter> published_;
};

}  // namespace gateway
