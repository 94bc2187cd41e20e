// Whether the process can take new work, and which parts are degraded. Control loop's thread; never waits.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "gateway/admin/operations.h"

namespace gateway::admin {

// Something that is not as it should be.
struct Condition {
  std::string part;    // ledger, redis, model:chat-small, …
  std::string detail;  // what is wrong, for people
  bool fatal = false;  // no new work can be taken
};

struct Readiness {
  bool ready = true;
  std::vector<Condition> conditions;  // empty: all is well
  std::vector<Condition> warnings;    // all is well, and could be safer
};

Readiness Judge(const Operations& operations, conf::TimePoint now);

// {"ready":true,"status":"degraded","degraded":[{"part","detail","fatal"}],"warnings":[…],…}
nlohmann::ordered_json ToJson(const Readiness& readiness, const Operations& operations);

}  // namespace gateway::admin
