// One line of the routing log: the inputs of a request's choices of replicas, and its outcome. Names, numbers
// and reasons only: never a prompt, an answer, a key, a session or a tenant.
//
// Built on a shard, as plain values; rendered by the log's thread. parse.h reads it back.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "conf/time.h"
#include "gateway/api/usage.h"
#include "gateway/ledger/record.h"
#include "gateway/metrics/served_names.h"
#include "router/pick_log.h"
#include "router/routes/route_table.h"

namespace gateway::routing {

// How a replica served a request, or its copy.
struct Outcome {
  int status = 0;
  api::Finish finish = api::Finish::kNone;
  uint64_t input = 0;  // tokens; 0: not reported
  uint64_t cached = 0;
  uint64_t output = 0;
  conf::Duration first_token{};  // since the dispatch; 0: none came
  conf::Duration total{};
};

// The names of ids, from the runtime that routed the request; keeps that runtime alive.
struct Routes {
  std::shared_ptr<const router::RouteTable> table;
  const ServedNames* names = nullptr;
};

struct RoutedRequest {
  Routes routes;
  conf::TimePoint at;
  std::string request;
  router::ModelId model{};  // the asked model
  bool session = false;     // the request belongs to a session
  std::vector<router::PickTrace> picks;
  Outcome outcome;
  ledger::EndReason reason{};
};

enum class Compared : uint8_t { kSame, kDiffer, kNotCompared };

// A shadow copy beside its request.
struct ShadowedRequest {
  Routes routes;
  conf::TimePoint at;
  std::string request;
  router::ModelId model{};     // of the request
  router::ModelId to_model{};  // of the copy
  std::string replica;         // of the copy; empty: none could be used
  std::string error;           // why the copy has no answer; empty: it has
  Outcome answer;              // the request's
  Outcome copy;
  Compared texts = Compared::kNotCompared;
};

using Record = std::variant<RoutedRequest, ShadowedRequest>;

nlohmann::ordered_json ToJson(const Record& record);
size_t BytesOf(const Record& record);

}  // namespace gateway::routing
