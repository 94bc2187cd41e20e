#include "gateway/prompt_prefix.h"

#include <algorithm>
#include <utility>

#include "gateway/exchange.h"
#include "gateway/shard.h"
#include "router/prefix/block_hash.h"

namespace gateway {
namespace {

// Requests that agree in so much of their prompts belong together: a thousand bytes.
constexpr size_t kAffinityBlocks = 4;

// Whatever the prompt, it goes to one replica, whose engine says nothing of its cache; and so would a copy.
bool GoesToOne(const Exchange& x, const router::Model& model) {
  return model.replica_count == 1 && model.fallbacks.empty() && x.model().config->routing.shadows.empty() &&
         !x.runtime->replica(x.runtime->routes().replicas(model.id).front().id).config->kv_events;
}

}  // namespace

std::string_view SessionOf(const Exchange& x) {
  for (const std::string_view said : {x.client.head().Find("x-session-id"), x.facts.session.view(),
                                      x.facts.prompt_cache_key.view(), x.facts.user.view()}) {
    if (!said.empty()) return said;
  }
  return {};
}

void PromptPrefix::Find(Exchange& x, conf::TimePoint now) {
  const router::Model& model = x.runtime->routes().model(x.model_id);
  if (x.form || !router::LooksAtPrompt(model.spec.policy)) return;
  if (GoesToOne(x, model)) {
    matches_[0] = {x.runtime->routes().replicas(model.id).front().id,
                   x.model().estimate->Cached(x.prompt_tokens_est)};
    match_count_ = 1;
    return;
  }
  const uint64_t salt = router::prefix::SaltOf(model.spec.name, {});
  const std::span<const uint64_t> blocks =
      router::prefix::HashPrompt(x.facts, x.body, salt, x.shard.block_hasher);
  blocks_.assign(blocks.begin(), blocks.end());
  bytes_ = x.shard.block_hasher.bytes();
  if (const std::string_view session = SessionOf(x); !session.empty()) {
    affinity_ = router::prefix::SaltOf(session, model.spec.name);
  } else if (!blocks.empty()) {
    affinity_ = blocks[std::min(blocks.size(), kAffinityBlocks) - 1];
  }
  if (blocks.empty()) return;
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
          .whole = !x.facts.stream,
          .max_output = x.MaxOutput(),
          .affinity = affinity_,
          .cached = std::span(matches_).first(match_count_),
          .may_hand_over = x.hop != nullptr,
          .prefer_room = x.place != nullptr};
}

void PromptPrefix::Sent(const Exchange& x, router::ReplicaId id, conf::TimePoint now) const {
  const router::ReplicaState& replica = x.runtime->load()[id];
  if (x.attempt->model() != x.model_id) return;  // a fallback's cache has it under another salt
  if (!blocks_.empty() && replica.member) x.shard.shared.prefixes.Predict(blocks_, *replica.member, now);
}

void PromptPrefix::Computed(const Exchange& x, router::ReplicaId id, conf::TimePoint now) const {
  const router::ReplicaState& replica = x.runtime->load()[id];
  if (blocks_.empty() || !replica.member || x.attempt->model() != x.model_id) return;
  x.shard.shared.prefixes.Confirm(blocks_, *replica.member, now);
  TellTokens(x, *replica.member);
}

void PromptPrefix::Running(Exchange& x, conf::TimePoint now) {
  const router::ReplicaState& replica = x.runtime->load()[x.replica];
  if (blocks_.empty() || !replica.member || x.attempt->model() != x.model_id) return;
  TellTokens(x, *replica.member);
  x.attempt->charge().Hold(std::move(blocks_), now);
  blocks_.clear();
}

// Where the engine tells of its cache, and has not told yet that it holds all of this.
void PromptPrefix::TellTokens(const Exchange& x, router::prefix::MemberId member) const {
  const router::prefix::Index& index = x.shard.shared.prefixes;
  if (x.model().config->lora) return;  // of whose blocks the tokens alone say nothing
  if (!index.heard(member) || index.Told(blocks_.back(), member) || x.facts.media_parts > 0) return;
  const auto part = [&](router::PromptPart which) { return x.facts.part(which).In(x.body); };
  std::string_view prompt;
  std::string_view tools;
  if (x.spec->api == router::Api::kChatCompletions) {
    prompt = part(router::PromptPart::kMessages);
    tools = part(router::PromptPart::kTools);
  } else if (x.spec->api == router::Api::kCompletions && x.facts.inputs == 1) {
    prompt = part(router::PromptPart::kPrompt);
  }
  ComputedPrompts& computed = x.shard.shared.computed;
  if (prompt.empty() || !computed.HasRoomFor(prompt.size() + tools.size())) return;
  ComputedPrompt told{.member = member,
                      .blocks = {blocks_.begin(), blocks_.end()},
                      .bytes = bytes_,
                      .text = {},
                      .ids_at = {}};
  if (x.spec->api == router::Api::kChatCompletions) {
    told.text.append("\"messages\":").append(prompt);
    if (!tools.empty()) told.text.append(",\"tools\":").append(tools);
  } else if (prompt.front() == '[') {
    told.text = prompt;
    told.ids_at = bytes_ - prompt.size();  // a completion has no other part
  } else {
    told.text.append("\"prompt\":").append(prompt);
  }
  computed.Add(std::move(told));
}

}  // namespace gateway
