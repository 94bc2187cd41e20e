// A line of the routing log read back, so that its choices can be made again.
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
  // `seen` in the order of the line, each with its index there as its replica. Names and texts are below.
  router::PickTrace trace;
  router::CostWeights weights;
  std::vector<std::string> names;  // by index
  std::string model;
  std::string policy;
  std::string part;  // "prefill" or "decode"; empty: all of the request
  std::string track;
  std::string zone;
  std::string replica;  // chosen; empty: none
  std::string reason;
};

struct LoggedRequest {
  std::string request;
  std::string time;
  std::string model;
  std::vector<LoggedPick> picks;
  nlohmann::ordered_json line;
};

// Errors: not a line of this log. Nothing where it is one of another kind.
absl::StatusOr<std::optional<LoggedRequest>> ParseRoute(std::string_view line);

// A pick made once more, of what it saw.
struct Replay {
  enum class Verdict : uint8_t {
    kAgrees,
    kDiffers,      // today's law, or its weights, chooses or reckons otherwise
    kNothingToDo,  // nothing was reckoned: another policy, a session's replica, or nobody could be used
  };
  Verdict verdict = Verdict::kNothingToDo;
  std::string replica;  // that it chooses now
  double score = 0;
};
Replay ReplayOf(const LoggedPick& pick);

}  // namespace gateway::routing
