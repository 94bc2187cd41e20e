#include "router/prefill_transfer.h"

#include <algorithm>

namespace router {
namespace {

// What a transfer costs beside computing: one more request, and the KV cache on the wire (some 160 KB per
// token of a large model, over 200 Gb/s). It makes a replica that holds the prompt preferable.
constexpr double kExtraRequest = 0.005;    // seconds
constexpr double kTransferRate = 150'000;  // tokens per second
// When the wait for a prefill replica is longer, serving without a transfer is considered too.
constexpr double kBusySeconds = 0.25;

// Whether some replica may serve whole requests.
bool CanServeWhole(const RouteTable& table, ModelId model) {
  const Roles whole = RolesFor(Part::kWhole, table.model(model).spec.prefill_transfer);
  return std::ranges::any_of(table.replicas(model), [&](const Replica& replica) {
    return (whole & RoleBit(replica.spec.role)) != 0 && replica.spec.weight > 0;
  });
}

}  // namespace

Decision PickPrefill(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
                     std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng) {
  PickFacts first = facts;
  first.part = Part::kPrefill;
  first.tokens = facts.prompt_tokens + 1;
  first.output_tokens = first.max_output = 1;
  first.not_streamed = false;  // its answer is its first token
  first.of_session.reset();
  first.prefer_headroom = false;
  return Pick(table, model, load, first, tried, now, rng);
}

Decision PickDecode(const RouteTable& table, ModelId model, const LoadView& load, PickFacts facts,
                    std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng) {
  facts.part = Part::kDecode;
  if (facts.remote_prefill_from == 0) facts.remote_prefill_from = 1;
  return Pick(table, model, load, facts, tried, now, rng);
}

ReplicaPair PickReplicaPair(const RouteTable& table, ModelId model, const LoadView& load,
                            const PickFacts& facts, std::span<const ReplicaId> tried,
                            std::span<const ReplicaId> prefills_tried, conf::TimePoint now,
                            scheduler::Rng& rng) {
  const std::optional<PrefillTransferSpec>& spec = table.model(model).spec.prefill_transfer;
  const bool may = spec && facts.may_split && facts.prompt_tokens > 0;
  if (!may) return {.answer = Pick(table, model, load, facts, tried, now, rng), .prefill = {}};
  ReplicaPair pair;
  if (facts.prompt_tokens >= spec->min_prompt || !CanServeWhole(table, model)) {
    pair.prefill = PickPrefill(table, model, load, facts, prefills_tried, now, rng);
    if (pair.prefill.replica) {
      PickFacts second = facts;
      second.remote_prefill_from = spec->decodes_whole ? spec->min_uncached : 1;
      second.remote_prefill_seconds = pair.prefill.terms.wait + pair.prefill.terms.compute + kExtraRequest +
                                      static_cast<double>(facts.prompt_tokens) / kTransferRate;
      pair.answer = PickDecode(table, model, load, second, tried, now, rng);
      if (!pair.answer.remote_prefill) pair.prefill = {};
      if (pair.answer.remote_prefill && spec->decodes_whole && pair.prefill.terms.wait > kBusySeconds) {
        // Prompts queue at the prefill replicas: one replica may be faster for all of the request.
        Decision whole = Pick(table, model, load, facts, tried, now, rng);
        if (whole.replica && whole.terms.Sum() < pair.answer.terms.Sum()) {
          pair.prefill = {};
          pair.answer = std::move(whole);
        }
      }
      if (pair.answer.replica) return pair;
    }
  }
  pair.answer = Pick(table, model, load, facts, tried, now, rng);
  return pair;
}

}  // namespace router
