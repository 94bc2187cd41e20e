#include "gateway/request/traffic_steering.h"

#include <algorithm>
#include <utility>

#include "router/prefix/block_hash.h"
#include "router/routes/canary.h"

namespace gateway::routing {
namespace {

// The key of a session, the same for all models; InModel() derives the key within one model.
uint64_t SessionKey(const OutgoingRequest& request) {
  const std::string_view session = request.Session();
  if (session.empty()) return 0;
  return std::max<uint64_t>(router::prefix::SaltOf(session, request.identity.tenant()), 1);
}

uint64_t InModel(uint64_t session, const router::Model& model) {
  return session ^ router::prefix::SaltOf(model.spec.name, {});
}

bool HeaderSelects(const net::http::Head& head, const config::Canary& canary) {
  if (canary.header.empty()) return false;
  const std::string_view value = head.Find(canary.header);
  return !value.empty() && (canary.value.empty() || value == canary.value);
}

router::TrackId TrackOf(const OutgoingRequest& request, const router::Model& model, uint64_t key) {
  const std::vector<config::Canary>& canaries = request.model().config->routing.canaries;
  for (size_t i = 0; i < canaries.size(); ++i) {
    if (HeaderSelects(request.client.head(), canaries[i])) return model.canaries[i].track;
  }
  return router::TrackFor(model.canaries, key);
}

}  // namespace

void TrafficSteering::Steer(const OutgoingRequest& request, router::PickFacts& facts, conf::TimePoint now) {
  const router::Model& model = request.route();
  const double sample = request.runtime->config().routing_log.sample;
  if (sample > 0 && request.shard.rng.Double() < sample) {
    log_ = std::make_unique<router::PickLog>();
    facts.log = log_.get();
  }
  if (const auto& shadows = request.model().config->routing.shadows; !shadows.empty())
    comparison_ = StartShadowCopy(request, shadows, facts, now);
  const bool sticky = model.spec.sticky_for > conf::Duration::zero();
  if (model.canaries.empty() && !sticky) return;
  session_ = SessionKey(request);
  if (!model.canaries.empty()) {
    const uint64_t key = session_ != 0 ? InModel(session_, model) : request.shard.rng.Next();
    facts.track = TrackOf(request, model, key);
  }
  if (!sticky || session_ == 0) return;
  const auto replica =
      request.shard.shared.sessions.Find(InModel(session_, model), now, model.spec.sticky_for);
  if (replica) facts.of_session = request.runtime->load().FindIdentity(*replica);
}

void TrafficSteering::Sent(const OutgoingRequest& request, ReplicaId replica, conf::TimePoint now) const {
  if (session_ == 0) return;
  const router::RouteTable& routes = request.runtime->routes();
  const router::Model& model = routes.model(routes.replica(replica).model);
  if (model.id != request.model_id || model.spec.sticky_for <= conf::Duration::zero()) return;
  request.shard.shared.sessions.Remember(InModel(session_, model),
                                         request.runtime->load()[replica].identity_hash, now);
}

void TrafficSteering::Ended(const OutgoingRequest& request, const Result& end) {
  if (comparison_) std::exchange(comparison_, nullptr)->RequestEnded(end.outcome, end.answer_whole);
  if (!log_ || log_->picks.empty()) return;
  request.shard.shared.routing_log->Add(RoutedRequest{.routes = RoutesOf(request.runtime),
                                                      .at = end.at,
                                                      .request = std::string(request.identity.id),
                                                      .model = request.model_id,
                                                      .session = !request.Session().empty(),
                                                      .picks = std::move(log_->picks),
                                                      .outcome = end.outcome,
                                                      .reason = end.reason});
  log_.reset();
}

}  // namespace gateway::routing
