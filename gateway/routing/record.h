// One line of the routing log: what a choice of replicas was made by, and what came of it. Names, numbers and
// reasons only: never a prompt, an answer, a key, a session or a tenant.
//
// Made on a shard, as plain values; rendered by the log's own thread. parse.h reads it back.
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
#include "gateway/runtime.h"
#include "router/pick_log.h"

namespace gateway::routing {

// How a request went, at a replica that served it or a copy of it.
struct Outcome {
  int status = 0;
  api::Finish finish = api::Finish::kNone;
  uint64_t input = 0;  // tokens; 0: not told
  uint64_t cached = 0;
  uint64_t output = 0;
  conf::Duration first_token{};  // since it was sent on its way; 0: none came
  conf::Duration total{};
};

struct RoutedRequest {
  std::shared_ptr<const Runtime> runtime;
  conf::TimePoint at;
  std::string request;
  router::ModelId model{};  // that was asked for
  bool session = false;     // it belongs to one
  std::vector<router::PickTrace> picks;
  Outcome outcome;
  ledger::EndReason reason{};
};

enum class Compared : uint8_t { kSame, kDiffer, kNotCompared };

// A copy that went elsewhere, beside the request that it is of.
struct ShadowedRequest {
  std::shared_ptr<const Runtime> runtime;
  conf::TimePoint at;
  std::string request;
  router::ModelId model{};     // of the request
  router::ModelId to_model{};  // of the copy
  std::string replica;         // that the copy was sent to; empty: none could be used
  std::string error;           // why the copy has no answer; empty: it has
  Outcome answer;              // the request's
  Outcome copy;
  Compared texts = Compared::kNotCompared;
};

using Record = std::variant<RoutedRequest, ShadowedRequest>;

nlohmann::ordered_json ToJson(const Record& record);
size_t BytesOf(const Record& record);

}  // namespace gateway::routing
