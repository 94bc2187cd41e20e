#include "gateway/request/prompt_prefix.h"

#include <algorithm>
#include <utility>

#include "router/prefix/block_hash.h"

namespace gateway {
namespace {

// Requests whose prompts share this many blocks, a thousand bytes, belong together.
constexpr size_t kAffinityBlocks = 4;

// Whether every prompt goes to one replica, whose engine does not report its cache, and no copy is sent to
// another.
bool HasOneSilentReplica(const OutgoingRequest& request, const router::Model& model) {
  const Runtime& runtime = *request.runtime;
  return model.replica_count == 1 && model.fallbacks.empty() &&
         request.model().config->routing.shadows.empty() &&
         !runtime.replica(runtime.routes().replicas(model.id).front().id).config->kv_events;
}

}  // namespace

void PromptPrefix::Find(const OutgoingRequest& request, conf::TimePoint now) {
  const router::Model& model = request.route();
  if (request.body.form || !router::LooksAtPrompt(model.spec.policy)) return;
  if (HasOneSilentReplica(request, model)) {
    matches_[0] = {request.runtime->routes().replicas(model.id).front().id,
                   request.model().estimate->Cached(request.body.prompt_tokens)};
    match_count_ = 1;
    return;
  }
  router::prefix::BlockHasher& hasher = request.shard.block_hasher;
  const uint64_t salt = router::prefix::SaltOf(model.spec.name, request.identity.cache_salt());
  const std::span<const uint64_t> blocks =
      router::prefix::HashPrompt(request.body.facts, request.body.text, salt, hasher);
  blocks_.assign(blocks.begin(), blocks.end());
  bytes_ = hasher.bytes();
  if (const std::string_view session = request.Session(); !session.empty()) {
    affinity_ = router::prefix::SaltOf(session, model.spec.name);
  } else if (!blocks.empty()) {
    affinity_ = blocks[std::min(blocks.size(), kAffinityBlocks) - 1];
  }
  if (blocks.empty()) return;
  std::array<router::prefix::Holder, kMaxMatches> holders;
  const size_t held = request.shard.shared.prefixes.Find(blocks, now, holders);
  match_count_ = router::MatchesOf(request.runtime->load(), std::span(holders).first(held), blocks.size(),
                                   request.body.prompt_tokens, matches_);
}

void PromptPrefix::Sent(const OutgoingRequest& request, ReplicaId replica, ModelId served,
                        conf::TimePoint now) const {
  const auto member = request.runtime->load()[replica].member;
  if (served != request.model_id || blocks_.empty() || !member) return;
  request.shard.shared.prefixes.Predict(blocks_, *member, now);
}

void PromptPrefix::Computed(const OutgoingRequest& request, ReplicaId replica, ModelId served,
                            conf::TimePoint now) const {
  const auto member = request.runtime->load()[replica].member;
  if (served != request.model_id || blocks_.empty() || !member) return;
  request.shard.shared.prefixes.Confirm(blocks_, *member, now);
  ReportPrompt(request, *member);
}

void PromptPrefix::Running(const OutgoingRequest& request, ReplicaId replica, ModelId served,
                           router::Charge& charge, conf::TimePoint now) {
  const auto member = request.runtime->load()[replica].member;
  if (served != request.model_id || blocks_.empty() || !member) return;
  ReportPrompt(request, *member);
  charge.Hold(std::move(blocks_), now);
  blocks_.clear();
}

// Tells KvEvents about the prompt, whose tokens it learns. Only if the engine reports its cache, and has not
// yet reported all of this prompt.
void PromptPrefix::ReportPrompt(const OutgoingRequest& request, router::prefix::MemberId member) const {
  const router::prefix::Index& index = request.shard.shared.prefixes;
  const router::BodyFacts& facts = request.body.facts;
  if (request.model().config->lora) return;  // an adapter's blocks do not follow from the tokens alone
  if (!index.reporting(member) || index.IsReported(blocks_.back(), member) || facts.media_parts > 0) return;
  const auto part = [&](router::PromptPart which) { return facts.part(which).In(request.body.text); };
  const router::Api api = request.identity.spec->api;
  std::string_view prompt;
  std::string_view tools;
  if (api == router::Api::kChatCompletions) {
    prompt = part(router::PromptPart::kMessages);
    tools = part(router::PromptPart::kTools);
  } else if (api == router::Api::kCompletions && facts.inputs == 1) {
    prompt = part(router::PromptPart::kPrompt);
  }
  ComputedPrompts& computed = request.shard.shared.computed;
  if (prompt.empty() || !computed.HasRoomFor(prompt.size() + tools.size())) return;
  ComputedPrompt told{.member = member,
                      .blocks = {blocks_.begin(), blocks_.end()},
                      .bytes = bytes_,
                      .text = {},
                      .ids_at = {}};
  if (api == router::Api::kChatCompletions) {
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
