#include "gateway/request/charge.h"

namespace gateway {
namespace {

// What the engine reported teaches the model's estimates. What it did not report is taken from the events
// that passed, and marked so.
void CompleteCounts(Exchange& x) {
  const ledger::Counts& counts = x.outcome.counts;
  if (counts.source == ledger::TokenSource::kUpstream) {
    if (x.body.facts.prompt_bytes > 0 && x.model_id != kNoModel) {
      router::TokenEstimate& estimate = *x.model().estimate;
      estimate.LearnPrompt(x.body.facts.prompt_bytes, static_cast<int64_t>(counts.input));
      estimate.LearnCached(static_cast<int64_t>(counts.input), static_cast<int64_t>(counts.cached));
      if (counts.output > 0)
        estimate.LearnOutput(static_cast<int64_t>(counts.output) / x.body.facts.n, x.outcome.events);
    }
    return;
  }
  const bool worked = Happened(x.at.first_token) || x.outcome.reason == ledger::EndReason::kClientGone ||
                      x.outcome.reason == ledger::EndReason::kTimedOut;
  if (Happened(x.at.sent) && worked) x.CountFromEvents();
}

}  // namespace

void Charge(Exchange& x) {
  if (x.grant.charged) return;
  x.grant.charged = true;
  CompleteCounts(x);
  x.grant.reservation.Settle(x.Used());
}

}  // namespace gateway
