#include "gateway/exchange.h"

#include <algorithm>

#include "gateway/handover/hop.h"
#include "gateway/shard.h"
#include "gateway/upstream/upstream.h"

namespace gateway {
namespace {

constexpr size_t kHeadRoom = 1024;

// By the client or by us; of one choice.
std::optional<int64_t> OutputBound(const Exchange& x) {
  std::optional<int64_t> bound = x.facts.MaxOutputTokens();
  if (x.output_cap) bound = std::min(bound.value_or(*x.output_cap), *x.output_cap);
  return bound;
}

// Whose answers are there as soon as the prompt is computed.
bool OnlyComputes(router::Api api) {
  return api == router::Api::kEmbeddings || api == router::Api::kRerank || api == router::Api::kScore;
}

}  // namespace

Exchange::Exchange(Shard& shard_of, net::http::ServerConnection& connection)
    : shard(shard_of), client(connection), runtime(shard_of.runtime()) {
  id = shard.NewRequestId(id_text);
  answer_head.reserve(kHeadRoom);
}

Exchange::~Exchange() = default;

void Exchange::WatchClient() {
  client.WatchPeer([this] { OnClientGone(); });
}

void Exchange::OnClientGone() {
  client_gone = true;
  net::Abortable* const waited_for = waiting;
  if (hop) hop->Abort();
  // Last: whoever is woken by it may end the exchange. Where the hop is what is waited for, this is nothing.
  if (waited_for) waited_for->Abort();
}

int64_t Exchange::ExpectedOutput() const {
  if (spec->bound.empty()) return 0;
  return model().estimate->ExpectedOutput(OutputBound(*this)) * facts.n;
}

router::TokenEstimate::Completion Exchange::MeanOutput() const {
  if (spec->bound.empty()) return {};
  router::TokenEstimate::Completion one = model().estimate->MeanOutput(OutputBound(*this));
  one.mean *= static_cast<double>(facts.n);
  return one;
}

int64_t Exchange::MaxOutput() const {
  if (OnlyComputes(spec->api)) return 1;
  return spec->bound.empty() ? 0 : OutputBound(*this).value_or(0) * facts.n;
}

void Exchange::KeepAnswer(std::string_view piece) {
  traffic.Answer(piece);
  if (!principal || principal->store_content != config::StoreContent::kFull) return;
  answer_bytes += piece.size();
  answer_text.append(
      piece.substr(0, ledger::kMaxContent - std::min(answer_text.size(), ledger::kMaxContent)));
}

void Exchange::CountFromEvents() {
  counts.input = static_cast<uint64_t>(prompt_tokens_est);
  counts.output = static_cast<uint64_t>(model().estimate->OutputOfEvents(events));
  counts.source = events > 0 ? ledger::TokenSource::kCounted : ledger::TokenSource::kEstimated;
}

router::limits::Usage Exchange::Used() const {
  return {static_cast<int64_t>(counts.input), static_cast<int64_t>(counts.cached),
          static_cast<int64_t>(counts.output)};
}

void Exchange::TellProgress() {
  // By the price of the model that was asked for, also when a fallback serves.
  if (model_id != kNoModel) counts.cost_micro_usd = model().price.Cost(Used());
  ticket.Progress(counts);
}

}  // namespace gateway
