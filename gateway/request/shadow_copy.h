// Shadow copies: copies a share of a model's requests to another model, or to the endpoints of a track of its
// own. The copy's answer is compared with the request's and then dropped; the result is counted and written to
// the routing log.
//
// A copy uses no limits, is charged to no tenant, and is not recorded in the ledger. It is sent after the request
// itself, and counts as load of its replica like any other work. The number of running copies and the sizes of
// their requests and answers are bounded; a request that exceeds a bound is not copied.
//
// Owner and thread: the shard.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gateway/config/routing.h"
#include "gateway/request/outgoing_request.h"
#include "gateway/routing/record.h"
#include "router/pick.h"

namespace gateway::routing {

// The ids of a runtime, for the routing log; keeps the runtime alive.
Routes RoutesOf(const std::shared_ptr<const Runtime>& runtime);

// The first bytes of an answer, for the comparison.
struct KeptAnswer {
  std::string text;
  bool whole = true;
  // Keeps the piece unless the text would exceed `most` bytes.
  void Add(std::string_view piece, uint64_t most);
};

// How the copy ended.
struct CopyResult {
  std::string error;  // why the copy has no answer; empty: it has one
  Outcome outcome;
  KeptAnswer answer;
};

// ShadowComparison: the request's answer and the copy's. The one that ends last starts the comparison.
class ShadowComparison {
 public:
  // `to_model` and `to_replica` get the copy. `most`: the bytes kept of each answer.
  ShadowComparison(const OutgoingRequest& request, ModelId to_model, std::string to_replica, uint64_t most);

  // A piece of the request's answer.
  void KeepAnswer(std::string_view piece) { answer_.Add(piece, most_); }
  void RequestEnded(const Outcome& outcome, bool answer_whole);
  void CopyEnded(CopyResult copy);

 private:
  void Compare();

  Shard& shard_;
  ShadowCells& cells_;  // of the request's model
  const uint64_t most_;
  const bool stream_;
  const std::shared_ptr<const Runtime> runtime_;
  ShadowedRequest result_;
  KeptAnswer answer_;
  KeptAnswer copy_;
  bool answer_whole_ = false;
  bool request_ended_ = false;
  bool copy_ended_ = false;
};

// Draws one of `shadows` by its share, and sends it a copy of the request after the request itself is sent. Null
// if no copy is made. `facts` are the request's. Running copies end with Shard::shadow_copies.
std::shared_ptr<ShadowComparison> StartShadowCopy(const OutgoingRequest& request,
                                                  std::span<const config::Shadow> shadows,
                                                  const router::PickFacts& facts, conf::TimePoint now);

}  // namespace gateway::routing
