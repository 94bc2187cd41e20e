// One line of the routing log: the inputs of a request's choices of replicas, and its outcome. It contains only names,
// numbers and reasons: never a prompt, an answer, a key, a session or a tenant.
//
// A shard builds it as plain values; the log's thread renders it. parse.h reads it.
#pragma once

#include <cstddef>
#include <memory>
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
  conf::Duration first_token{};  // since the dispatch; 0: no token came
  conf::Duration total{};
};

// The names for the ids of the runtime that routed the request; keeps that runtime alive.
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

// A shadow copy and its request.
struct ShadowedRequest {
  Routes routes;
  conf::TimePoint at;
  std::string request;
  router::ModelId model{};     // of the request
  router::ModelId to_model{};  // of the copy
  std::string replica;         // of the copy; empty: no replica was usable
  std::string error;           // why the copy has no answer; empty: it has one
  Outcome answer;              // of the request
  Outcome copy;
  Compared texts = Compared::kNotCompared;
};

using Record = std::variant<RoutedRequest, ShadowedRequest>;

// Appends the line, with its end.
void AppendLine(std::string& out, const Record& record);
size_t BytesOf(const Record& record);

}  // namespace gateway::routing
