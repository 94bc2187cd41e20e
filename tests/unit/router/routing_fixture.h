// A table with its cells, for tests of what chooses from it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "router/pick.h"

namespace router {

inline constexpr conf::TimePoint kStart{std::chrono::seconds(1'000'000)};

// Replicas are called NAME/0, NAME/1, …; one for each weight.
inline ModelSpec Serving(std::string name, const std::vector<double>& weights,
                         PolicyKind policy = PolicyKind::kLeastLoad) {
  ModelSpec spec;
  for (size_t i = 0; i < weights.size(); ++i) {
    ReplicaSpec replica;
    replica.identity = name + "/" + std::to_string(i);
    replica.weight = weights[i];
    spec.replicas.push_back(std::move(replica));
  }
  spec.name = std::move(name);
  spec.policy = policy;
  return spec;
}

inline RouteTable MakeTable(std::vector<ModelSpec> models) {
  auto table = RouteTable::Build(std::move(models));
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

struct Routing {
  explicit Routing(std::vector<ModelSpec> models)
      : table(MakeTable(std::move(models))), load(table, states) {}

  ReplicaState& state(uint32_t id) const { return load[static_cast<ReplicaId>(id)]; }
  void Break(uint32_t id, conf::TimePoint now = kStart) const {
    for (int i = 0; i < 5; ++i) state(id).breaker.Report(Outcome::kBad, Admission::kAdmitted, now);
  }
  void TakeDown(uint32_t id) const {
    for (int i = 0; i < 3; ++i) state(id).health.OnProbe(ProbeResult::kFailed, kStart);
  }
  Decision PickOf(ModelId model = ModelId{0}, int64_t tokens = 1, std::span<const ReplicaId> tried = {},
                  conf::TimePoint now = kStart) {
    return Pick(table, model, load, {.tokens = tokens}, tried, now, rng);
  }

  RouteTable table;
  ReplicaStates states;
  LoadView load;
  scheduler::Rng rng{1};
};

}  // namespace router
