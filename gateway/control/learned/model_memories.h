// ModelMemories: keeps in the store what scaling has learned of the models, for the next process or the next leader.
// A process that is killed loses what it has learned in the last five minutes.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gateway/control/learned/model_memory.h"
#include "gateway/control/workloads/context.h"
#include "gateway/store/store.h"

namespace gateway::control {

class ModelMemories {
 public:
  static constexpr conf::Duration kEvery = std::chrono::minutes(5);

  struct Environment {
    std::function<std::vector<std::string>()> models;  // the models that have a policy
    std::function<ModelMemory(const std::string& model)> learned;
    std::function<void(const std::string& model, const ModelMemory& memory)> recall;
  };
  ModelMemories(const Context& context, store::Store& store, Environment env)
      : context_(context), store_(store), env_(std::move(env)) {}

  // Recalls what an earlier process, or an earlier leader, has kept.
  net::Task<absl::Status> Load();
  // Keeps what was learned, now and then.
  void Tick();
  // Keeps what was learned until now.
  net::Task<void> Save();
  size_t under_way() const { return saving_ ? 1 : 0; }

 private:
  std::vector<store::Write> Changes() const;
  net::Task<void> SaveInTurn();

  const Context& context_;
  store::Store& store_;
  const Environment env_;
  std::map<std::string, uint64_t> versions_;  // in the store, by model
  bool loaded_ = false;
  bool saving_ = false;
  conf::TimePoint next_{};
};

}  // namespace gateway::control
