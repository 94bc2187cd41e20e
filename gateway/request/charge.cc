#include "gateway/request/charge.h"

#include "gateway/net/clock.h"

namespace gateway {
namespace {

// What the engine reported teaches the asked model's estimates. Text that was shown teaches how many tokens
// it is, unless some was thought and hidden.
void Learn(const Exchange& x) {
  const ledger::Counts& counts = x.outcome.counts;
  const bool fell_back = x.delivery.attempt && x.delivery.attempt->model() != x.model_id;
  if (x.body.facts.prompt_bytes == 0 || x.model_id == kNoModel || fell_back) return;
  router::TokenEstimate& estimate = *x.model().estimate;
  estimate.LearnPrompt(x.body.facts.prompt_bytes, static_cast<int64_t>(counts.input));
  estimate.LearnCached(static_cast<int64_t>(counts.input), static_cast<int64_t>(counts.cached));
  if (counts.output == 0) return;
  const int64_t choices = x.body.facts.choices();
  const int64_t each = static_cast<int64_t>(counts.output) / choices;
  const uint64_t shown = x.outcome.reasoning == 0 ? x.outcome.text_bytes / static_cast<uint64_t>(choices) : 0;
  estimate.LearnOutput(each, shown);
  // One that was cut is longer than what is usual, too: its bound was at least that.
  const bool ended = x.outcome.finish == api::Finish::kDone || x.outcome.finish == api::Finish::kLength;
  if (!x.body.facts.MaxOutputTokens() && ended) estimate.LearnUnbounded(each);
}

// What the engine did not report of work that it did is taken from what was sent, or from the bound of what
// it may have generated unseen: never nothing.
void CompleteCounts(Exchange& x) {
  ledger::Counts& counts = x.outcome.counts;
  if (counts.source == ledger::TokenSource::kUpstream) return Learn(x);
  if (counts.source != ledger::TokenSource::kNone || !Happened(x.at.sent)) return;
  const bool dropped = x.outcome.reason == ledger::EndReason::kClientGone ||
                       x.outcome.reason == ledger::EndReason::kTimedOut ||
                       x.outcome.reason == ledger::EndReason::kKeyRevoked;
  if (!dropped && !x.outcome.answering) return;
  if (x.body.facts.stream) {
    x.CountText();
  } else {
    x.CountBound(net::Now());
  }
}

}  // namespace

void Charge(Exchange& x) {
  if (x.grant.charged) return;
  x.grant.charged = true;
  if (x.identity.spec && IsFree(x.identity.spec->api)) {
    x.outcome.counts.input = x.outcome.counts.cached = x.outcome.counts.output = 0;
    x.outcome.counts.source = ledger::TokenSource::kNone;
  } else {
    CompleteCounts(x);
  }
  x.grant.reservation.Settle(x.Used());
}

}  // namespace gateway
