#include "gateway/prompt_prefix.h"

#include <algorithm>

#include "gateway/exchange.h"
#include "gateway/shard.h"
#include "router/prefix/block_hash.h"

namespace gateway {
namespace {

// Requests that agree in so much of their prompts belong together: a thousand bytes.
constexpr size_t kAffinityBlocks = 4;

// What the client says belongs together, or nothing.
std::string_view SessionOf(const Exchange& x) {
  for (const std::string_view said : {x.client.head().Find("x-session-id"), x.facts.session.view(),
                                      x.facts.prompt_cache_key.view(), x.facts.user.view()}) {
    if (!said.empty()) return said;
  }
  return {};
}

const router::ReplicaState& ReplicaOf(const Exchange& x) {
  return x.runtime->load()[x.replica];
}

}  // namespace

void PromptPrefix::Find(Exchange& x, conf::TimePoint now) {
  const router::Model& model = x.runtime->routes().model(x.model_id);
  if (x.form || !router::LooksAtPrompt(model.spec.policy)) return;
  const uint64_t salt = router::prefix::SaltOf(model.spec.name, {});
  const std::span<const uint64_t> blocks =
      router::prefix::HashPrompt(x.facts, x.body, salt, x.shard.block_hasher);
  blocks_.assign(blocks.begin(), blocks.end());
  if (const std::string_view session = SessionOf(x); !session.empty()) {
    affinity_ = router::prefix::SaltOf(session, model.spec.name);
  } else if (!blocks.empty()) {
    affinity_ = blocks[std::min(blocks.size(), kAffinityBlocks) - 1];
  }
  std::array<router::prefix::Holder, kMaxMatches> holders;
  const size_t held = x.shard.shared.prefixes.Find(blocks, now, holders);
  match_count_ = router::MatchesOf(x.runtime->load(), std::span(holders).first(held), blocks.size(),
                                   x.prompt_tokens_est, matches_);
}

router::PickFacts PromptPrefix::Facts(const Exchange& x) const {
  const int64_t output = x.ExpectedOutput();
  return {.tokens = x.prompt_tokens_est + output,
          .prompt_tokens = x.prompt_tokens_est,
          .output_tokens = output,
          .affinity = affinity_,
          .cached = std::span(matches_).first(match_count_),
          .whole = !x.facts.stream && !x.spec->bound.empty(),
          .prefer_room = x.place != nullptr};
}

void PromptPrefix::Sent(const Exchange& x, conf::TimePoint now) const {
  const router::ReplicaState& replica = ReplicaOf(x);
  if (!blocks_.empty() && replica.member) x.shard.shared.prefixes.Predict(blocks_, *replica.member, now);
}

void PromptPrefix::Computed(const Exchange& x, conf::TimePoint now) const {
  const router::ReplicaState& replica = ReplicaOf(x);
  if (!blocks_.empty() && replica.member) x.shard.shared.prefixes.Confirm(blocks_, *replica.member, now);
}

}  // namespace gateway
