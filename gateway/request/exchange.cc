#include "gateway/request/exchange.h"

#include <algorithm>

#include "gateway/shard/shard.h"

namespace gateway {
namespace {

constexpr size_t kHeadRoom = 1024;

// Of one choice, by the client or by the gateway.
std::optional<int64_t> OutputBound(const Exchange& x) {
  std::optional<int64_t> bound = x.body.facts.MaxOutputTokens();
  if (x.grant.output_cap) bound = std::min(bound.value_or(*x.grant.output_cap), *x.grant.output_cap);
  return bound;
}

// APIs whose answers are complete as soon as the prompt is computed.
bool GeneratesNothing(router::Api api) {
  return api == router::Api::kEmbeddings || api == router::Api::kRerank || api == router::Api::kScore;
}

}  // namespace

Exchange::Exchange(Shard& shard_of, net::http::ServerConnection& connection)
    : shard(shard_of), runtime(shard_of.runtime()), client(connection) {
  identity.id = shard.NewRequestId(identity.id_text);
  answer_head.reserve(kHeadRoom);
}

int64_t Exchange::ExpectedOutput() const {
  if (identity.spec->bound.empty()) return 0;
  return model().estimate->ExpectedOutput(OutputBound(*this)) * body.facts.n;
}

router::TokenEstimate::Completion Exchange::MeanOutput() const {
  if (identity.spec->bound.empty()) return {};
  router::TokenEstimate::Completion one = model().estimate->MeanOutput(OutputBound(*this));
  one.mean *= static_cast<double>(body.facts.n);
  return one;
}

int64_t Exchange::MaxOutput() const {
  if (GeneratesNothing(identity.spec->api)) return 1;
  return identity.spec->bound.empty() ? 0 : OutputBound(*this).value_or(0) * body.facts.n;
}

void Exchange::CountFromEvents() {
  outcome.counts.input = static_cast<uint64_t>(body.prompt_tokens);
  outcome.counts.output = static_cast<uint64_t>(model().estimate->OutputOfEvents(outcome.events));
  outcome.counts.source =
      outcome.events > 0 ? ledger::TokenSource::kCounted : ledger::TokenSource::kEstimated;
}

router::limits::Usage Exchange::Used() const {
  return {static_cast<int64_t>(outcome.counts.input), static_cast<int64_t>(outcome.counts.cached),
          static_cast<int64_t>(outcome.counts.output)};
}

void Exchange::RecordProgress() {
  // By the price of the asked model, also when a fallback serves.
  if (model_id != kNoModel) outcome.counts.cost_micro_usd = model().price.Cost(Used());
  grant.ticket.Progress(outcome.counts);
}

void Exchange::KeepAnswer(std::string_view piece) {
  delivery.steering.KeepAnswer(piece);
  if (!identity.principal || identity.principal->store_content != config::StoreContent::kFull) return;
  outcome.answer_bytes += piece.size();
  std::string& text = outcome.answer_text;
  text.append(piece.substr(0, ledger::kMaxContent - std::min(text.size(), ledger::kMaxContent)));
}

}  // namespace gateway
