#include "gateway/routing/traffic.h"

#include <algorithm>
#include <utility>

#include "gateway/exchange.h"
#include "gateway/routing/shadow.h"
#include "gateway/shard.h"
#include "router/canary.h"
#include "router/prefix/block_hash.h"

namespace gateway::routing {
namespace {

// One for all models: which of them it is for is part of where it is used.
uint64_t SessionKey(const Exchange& x) {
  const std::string_view session = SessionOf(x);
  if (session.empty()) return 0;
  const std::string_view tenant = x.principal ? std::string_view(x.principal->tenant) : std::string_view();
  return std::max<uint64_t>(router::prefix::SaltOf(session, tenant), 1);
}

bool SaysSo(const Exchange& x, const config::Canary& canary) {
  if (canary.header.empty()) return false;
  const std::string_view said = x.client.head().Find(canary.header);
  return !said.empty() && (canary.value.empty() || said == canary.value);
}

router::TrackId TrackOf(const Exchange& x, const router::Model& model, uint64_t key) {
  const std::vector<config::Canary>& canaries = x.model().config->routing.canaries;
  for (size_t i = 0; i < canaries.size(); ++i) {
    if (SaysSo(x, canaries[i])) return model.canaries[i].track;
  }
  return router::TrackFor(model.canaries, key);
}

uint64_t InModel(uint64_t session, const router::Model& model) {
  return session ^ router::prefix::SaltOf(model.spec.name, {});
}

}  // namespace

Traffic::Traffic() = default;
Traffic::~Traffic() = default;

void Traffic::Steer(Exchange& x, router::PickFacts& facts, conf::TimePoint now) {
  const router::Model& model = x.runtime->routes().model(x.model_id);
  const double sample = x.runtime->config().routing_log.sample;
  if (sample > 0 && x.shard.rng.Double() < sample) {
    log_ = std::make_unique<router::PickLog>();
    facts.log = log_.get();
  }
  if (const std::vector<config::Shadow>& shadows = x.model().config->routing.shadows; !shadows.empty())
    shadow_ = x.shard.shadows.Start(x, shadows, facts, now);
  const bool sticky = model.spec.sticky_for > conf::Duration::zero();
  if (model.canaries.empty() && !sticky) return;
  session_ = SessionKey(x);
  if (!model.canaries.empty()) {
    const uint64_t key = session_ != 0 ? InModel(session_, model) : x.shard.rng.Next();
    facts.track = TrackOf(x, model, key);
  }
  if (!sticky || session_ == 0) return;
  const auto replica = x.shard.shared.sessions.Find(InModel(session_, model), now, model.spec.sticky_for);
  if (replica) facts.of_session = x.runtime->load().FindIdentity(*replica);
}

void Traffic::Sent(const Exchange& x, conf::TimePoint now) const {
  if (session_ == 0) return;
  const router::Replica& replica = x.runtime->routes().replica(x.replica);
  const router::Model& model = x.runtime->routes().model(replica.model);
  if (model.id != x.model_id || model.spec.sticky_for <= conf::Duration::zero()) return;
  x.shard.shared.sessions.Remember(InModel(session_, model), x.runtime->load()[x.replica].identity_hash, now);
}

void Traffic::Answer(std::string_view piece) {
  if (shadow_) shadow_->Keep(piece);
}

void Traffic::Ended(const Exchange& x) {
  if (!shadow_ && (!log_ || log_->picks.empty())) return;
  const auto since = [&](conf::TimePoint t) {
    return t == conf::TimePoint() ? conf::Duration::zero() : t - x.at.dispatched;
  };
  const Outcome outcome{.status = x.status,
                        .finish = x.finish,
                        .input = x.counts.input,
                        .cached = x.counts.cached,
                        .output = x.counts.output,
                        .first_token = since(x.at.first_token),
                        .total = since(x.at.ended)};
  if (shadow_) std::exchange(shadow_, nullptr)->RequestEnded(x, outcome);
  if (!log_ || log_->picks.empty()) return;
  x.shard.shared.routing_log->Add(RoutedRequest{.runtime = x.runtime,
                                                .at = x.at.ended,
                                                .request = std::string(x.id),
                                                .model = x.model_id,
                                                .session = !SessionOf(x).empty(),
                                                .picks = std::move(log_->picks),
                                                .outcome = outcome,
                                                .reason = x.reason});
  log_.reset();
}

}  // namespace gateway::routing
