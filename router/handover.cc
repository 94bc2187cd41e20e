#include "router/handover.h"

#include <algorithm>

namespace router {
namespace {

// What a hop costs beside computing: one more request, and the way of the KV cache (some 160 KB a token of a
// large model over 200 Gb/s). So who holds a prompt is not passed over for nothing.
constexpr double kHopSeconds = 0.005;
constexpr double kTransferRate = 150'000;  // tokens a second
// From so long a wait for a prefill replica on, the other way is looked at too.
constexpr double kBusySeconds = 0.25;

bool AnyWhole(const RouteTable& table, ModelId model) {
  const Roles whole = RolesFor(Part::kWhole, table.model(model).spec.handover);
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
  first.whole = false;  // its answer is its first token
  first.of_session.reset();
  first.prefer_room = false;
  return Pick(table, model, load, first, tried, now, rng);
}

Decision PickDecode(const RouteTable& table, ModelId model, const LoadView& load, PickFacts facts,
                    std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng) {
  facts.part = Part::kDecode;
  if (facts.handover_from == 0) facts.handover_from = 1;
  return Pick(table, model, load, facts, tried, now, rng);
}

Pair PickPair(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
              std::span<const ReplicaId> tried, std::span<const ReplicaId> prefills_tried,
              conf::TimePoint now, scheduler::Rng& rng) {
  Pair pair;
  const std::optional<HandoverSpec>& spec = table.model(model).spec.handover;
  const bool may = spec && facts.may_hand_over && facts.prompt_tokens > 0;
  if (may && (facts.prompt_tokens >= spec->min_prompt || !AnyWhole(table, model))) {
    pair.prefill = PickPrefill(table, model, load, facts, prefills_tried, now, rng);
    if (pair.prefill.replica) {
      PickFacts second = facts;
      second.handover_from = spec->decodes_whole ? spec->min_uncached : 1;
      second.handover_seconds = pair.prefill.terms.wait + pair.prefill.terms.compute + kHopSeconds +
                                static_cast<double>(facts.prompt_tokens) / kTransferRate;
      pair.answer = PickDecode(table, model, load, second, tried, now, rng);
      if (!pair.answer.handed_over) pair.prefill = {};
      if (pair.answer.handed_over && spec->decodes_whole && pair.prefill.terms.wait > kBusySeconds) {
        // Where prompts wait for each other, it may be sooner done by whoever answers.
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
