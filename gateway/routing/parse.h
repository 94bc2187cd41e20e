// Reads a line of the routing log, so that its choices can be repeated.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router/pick_log.h"

namespace gateway::routing {

struct LoggedPick {
  // `seen` has the candidates in the order of the line; their replica is their index there. Names and texts are below.
  router::PickTrace trace;
  router::CostWeights weights;
  std::vector<std::string> names;  // by index
  std::string model;
  std::string policy;
  std::string part;  // "prefill" or "decode"; empty: the whole request
  std::string track;
  std::string zone;
  std::string replica;  // the chosen one; empty: none
  std::string reason;
};

struct LoggedRequest {
  std::string request;
  std::string time;
  std::string model;
  std::vector<LoggedPick> picks;
  nlohmann::ordered_json line;
};

// Errors: the text is not a line of this log. None for a line of another kind.
absl::StatusOr<std::optional<LoggedRequest>> ParseRoute(std::string_view line);

// The result of repeating a logged choice with the same inputs.
struct Replay {
  enum class Result : uint8_t {
    kAgrees,
    kDiffers,      // this version, or these weights, lead to another choice or other terms
    kNothingToDo,  // no terms were computed: another policy, a session's replica, or no usable replica
  };
  Result result = Result::kNothingToDo;
  std::string replica;  // the new choice
  double score = 0;
};
Replay ReplayOf(const LoggedPick& pick);

}  // namespace gateway::routing
