// What the router is told of a request's prompt, and what it learns from where the request goes: the prompt's
// blocks, and which replicas are taken to hold them. Empty for policies that do not look at the prompt.
//
// Where there is nothing to choose between, and no engine tells of its cache, nobody needs to know the
// blocks: what the only replica is taken to hold of a prompt is then the share that it reported of the last
// ones. That is right in the mean, and so are the replica's backlog and the prefill rate measured from it; it
// is not of one prompt, which neither matter for long.
//
// Part of an Exchange, on its shard. Keeps the blocks (8 bytes for each 256 of the prompt) until the engine
// has computed them, and the charge those of a stream until it ends.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "router/pick.h"

namespace gateway {

struct Exchange;

// What the client says belongs together (x-session-id, then the body's session, cache key and user), or
// nothing.
std::string_view SessionOf(const Exchange& x);

class PromptPrefix {
 public:
  // Hashes the prompt and asks who holds how much of it, where that matters. Valid while the exchange's
  // runtime is.
  void Find(Exchange& x, conf::TimePoint now);

  // Views of what Find found.
  router::PickFacts Facts(const Exchange& x) const;

  // The request is on its way to the replica, or its prompt has been computed there.
  void Sent(const Exchange& x, router::ReplicaId replica, conf::TimePoint now) const;
  void Computed(const Exchange& x, router::ReplicaId replica, conf::TimePoint now) const;
  // ... at the replica that answers, which goes on to run on it; once.
  void Running(Exchange& x, conf::TimePoint now);

 private:
  void TellTokens(const Exchange& x, router::prefix::MemberId member) const;

  static constexpr size_t kMaxMatches = 32;

  std::vector<uint64_t> blocks_;
  std::array<router::PrefixMatch, kMaxMatches> matches_;
  size_t match_count_ = 0;
  uint64_t bytes_ = 0;  // of the canonical prompt
  uint64_t affinity_ = 0;
};

}  // namespace gateway
