// PromptPrefix: the prompt's blocks and the replicas that probably hold them, for the router's choice. Also
// teaches the prefix index where the request goes. Empty for policies that ignore the prompt.
//
// If the model has a single replica whose engine does not report its cache, the blocks are not computed: the
// replica counts as holding the same share of the prompt as it reported for recent prompts. That share is right
// on average, and so are the replica's backlog and the prefill rate computed from it. It is wrong for a single
// prompt, but such an error does not last.
//
// Part of an exchange, on its shard. Keeps the blocks (8 bytes for each 256 of the prompt) until the engine
// has computed them; the charge of a stream keeps them until the stream ends.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "conf/time.h"
#include "gateway/request/outgoing_request.h"
#include "router/load/replica_load.h"
#include "router/pick.h"

namespace gateway {

class PromptPrefix {
 public:
  // Hashes the prompt and finds which replicas hold how much of it, if the model's policy uses that.
  void Find(const OutgoingRequest& request, conf::TimePoint now);

  // What Find() found; valid until its next call.
  std::span<const router::PrefixMatch> matches() const { return std::span(matches_).first(match_count_); }
  uint64_t affinity() const { return affinity_; }

  // Below, `served` is the model that the try is for. A fallback's cache holds the prompt under another salt, so
  // nothing is learned from a fallback.

  // The request is being sent to the replica.
  void Sent(const OutgoingRequest& request, ReplicaId replica, ModelId served, conf::TimePoint now) const;
  // The replica has computed the prompt.
  void Computed(const OutgoingRequest& request, ReplicaId replica, ModelId served, conf::TimePoint now) const;
  // The replica has computed the prompt of a stream, and holds it while the charge lasts. Called once.
  void Running(const OutgoingRequest& request, ReplicaId replica, ModelId served, router::Charge& charge,
               conf::TimePoint now);

 private:
  void ReportPrompt(const OutgoingRequest& request, router::prefix::MemberId member) const;

  static constexpr size_t kMaxMatches = 32;

  std::vector<uint64_t> blocks_;
  std::array<router::PrefixMatch, kMaxMatches> matches_;
  size_t match_count_ = 0;
  uint64_t bytes_ = 0;  // of the canonical prompt
  uint64_t affinity_ = 0;
};

}  // namespace gateway
