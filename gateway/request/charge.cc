#include "gateway/request/charge.h"

#include "gateway/net/clock.h"

namespace gateway {
namespace {

// Tokens of an answer that have no visible text: names of tools, marks of turns.
constexpr uint64_t kUnseenTokens = 64;
// A stream with about one event for each token has hidden no tokens.
constexpr double kTokensOfEvent = 1.25;

// Whether the engine reported far more tokens than the visible text can have. A text has no more tokens than
// bytes; some engines show a part of the reasoning.
bool HidesReasoning(const Exchange& x) {
  const RequestOutcome& outcome = x.outcome;
  if (outcome.counts.output >
      outcome.text_bytes + kUnseenTokens * static_cast<uint64_t>(x.body.facts.choices()))
    return true;
  const uint64_t by_text = x.TokensOfText(outcome.text_bytes, outcome.text_events);
  return outcome.reasoning > 0 && by_text + outcome.reasoning / 2 < outcome.counts.output;
}

// Updates the asked model's estimates with the engine's report. The visible text shows how many bytes a token
// has, unless the engine hid some reasoning.
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
  const bool all_shown = static_cast<double>(counts.output) <=
                         kTokensOfEvent * static_cast<double>(x.outcome.text_events) + kUnseenTokens / 8.0;
  estimate.LearnOutput(each, shown, all_shown);
  if (x.outcome.events > 0 || x.outcome.text_bytes > 0) estimate.LearnHidden(HidesReasoning(x));
  // An answer that was cut at its bound counts, too: it is at least that long.
  const bool ended = x.outcome.finish == api::Finish::kDone || x.outcome.finish == api::Finish::kLength;
  if (!x.body.facts.MaxOutputTokens() && ended) estimate.LearnUnbounded(each);
}

// Counts a stream that ended before the engine reported its output: by its text; or by the bound of the unseen
// output, if it has shown nothing yet or its model is known to hide reasoning.
void CountDroppedStream(Exchange& x) {
  x.CountText();
  const ledger::Counts by_text = x.outcome.counts;
  if (x.outcome.text_events > 0 && !x.served().estimate->Hides()) return;
  x.CountBound(net::Now());
  if (x.outcome.counts.output <= by_text.output) x.outcome.counts = by_text;
}

// Replaces missing reports: work that the engine did not report is counted by the text that was sent, or by the
// bound of the unseen output. It is never counted as nothing.
void CompleteCounts(Exchange& x) {
  ledger::Counts& counts = x.outcome.counts;
  if (counts.source == ledger::TokenSource::kUpstream) {
    x.CompleteReport();
    if (counts.source == ledger::TokenSource::kUpstream) Learn(x);
    return;
  }
  if (!Happened(x.at.sent)) return;
  const bool dropped = x.outcome.reason == ledger::EndReason::kClientGone ||
                       x.outcome.reason == ledger::EndReason::kTimedOut ||
                       x.outcome.reason == ledger::EndReason::kKeyRevoked;
  const bool uncounted = counts.source == ledger::TokenSource::kNone;
  if (dropped && x.body.facts.stream && (uncounted || x.outcome.events > 0)) return CountDroppedStream(x);
  if (!uncounted || (!dropped && !x.outcome.answering)) return;
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
  x.grant.place.Refund();
  if (x.identity.spec && IsFree(x.identity.spec->api)) {
    x.outcome.counts.input = x.outcome.counts.cached = x.outcome.counts.output = 0;
    x.outcome.counts.source = ledger::TokenSource::kNone;
  } else {
    CompleteCounts(x);
  }
  x.grant.reservation.Settle(x.Used());
}

}  // namespace gateway
