// A rollout of a model's new version, as the store keeps it (kind `rollout`, id: the model).
//
// The policy describes the new version (its section `rollout`); this is its progress.
//
// Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/config/model_policy.h"

namespace gateway::control {

enum class RolloutState : uint8_t {
  kRunning,
  kPromoted,    // the new version serves all requests
  kRolledBack,  // it was worse than the old one
  kAborted,     // by an operator
};
std::string_view Name(RolloutState state);

struct Rollout {
  std::string model{};
  std::string version{};  // the new one
  RolloutState state = RolloutState::kRunning;
  uint32_t step = 0;        // of the policy's steps
  bool open = false;        // its share is in force; before, the replicas for it start
  double percent = 0;       // of the requests, in force
  conf::TimePoint began{};  // the rollout
  conf::TimePoint since{};  // the state, the step or its opening
  std::string why{};
  std::string by{};  // who caused the last change: "control", an admin key's id, a person

  bool operator==(const Rollout&) const = default;
};

// The present role of a model's version.
enum class VersionRole : uint8_t {
  kServes,  // the version in force: the autoscaler decides how many there are
  kNew,     // has the share of the rollout's step
  kLeaves,  // of the version that lost: takes no requests, and ends
};
// `rollout`: as stored; null: none was begun.
VersionRole RoleOf(const config::ModelPolicy& policy, const Rollout* rollout, std::string_view version);
// The version of replicas that the autoscaler starts.
std::string VersionInForce(const config::ModelPolicy& policy, const Rollout* rollout);

std::string BodyOf(const Rollout& rollout);
// DataLoss names the model.
absl::StatusOr<Rollout> ReadRollout(const std::string& model, const std::string& body);
// The detail of its records in the ledger, whose actions are rollout.begin, .open, .next, .promote, .roll_back, .abort.
std::string DetailOf(const Rollout& rollout);

// A record of the ledger.
struct RolloutRecord {
  std::string_view action;
  std::string_view actor;
  std::string_view subject;
  std::string_view detail;
  conf::TimePoint at{};
};
// Applies a record to the rollouts, by model. False: it is no record of a rollout.
bool TakeRecord(const RolloutRecord& record, std::map<std::string, Rollout>& rollouts);

}  // namespace gateway::control
