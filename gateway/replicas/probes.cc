#include "gateway/replicas/probes.h"

#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/replicas/ask_replica.h"

namespace gateway {
namespace {

constexpr conf::Duration kProbeTick = std::chrono::milliseconds(100);

bool IsProbed(const config::Model& model, const config::Endpoint& endpoint) {
  return model.health.probe.value_or(config::HasHealthPath(endpoint.engine));
}

}  // namespace

void Probes::Start(std::shared_ptr<const Runtime> runtime) {
  runtime_ = std::move(runtime);
  SetAfter(conf::Duration::zero());
}

void Probes::Stop() {
  Clear();
  runtime_.reset();
  fetches_.Abort();
}

void Probes::OnAlarm() {
  if (!runtime_) return;
  const conf::TimePoint now = net::Now();
  for (const router::Replica& replica : runtime_->routes().replicas()) {
    const config::Model& model = *runtime_->model(replica.model).config;
    if (!IsProbed(model, *runtime_->replica(replica.id).config)) continue;
    if (runtime_->load()[replica.id].health.ClaimDue(now)) loop_.tasks.Spawn(Probe(runtime_, replica.id));
  }
  SetAfter(kProbeTick);
}

net::Task<void> Probes::Probe(std::shared_ptr<const Runtime> runtime, ReplicaId id) {
  const ReplicaRuntime& replica = runtime->replica(id);
  const config::Model& model = *runtime->model(runtime->routes().replica(id).model).config;
  const absl::StatusOr<net::http::FetchResponse> answer = co_await net::http::Fetch(
      loop_, AskReplica(replica, model.health.path, model.health.timeout), &fetches_);
  if (absl::IsCancelled(answer.status())) co_return;
  router::ProbeResult result = router::ProbeResult::kFailed;
  if (answer.ok()) {
    NoteCredentials(runtime->load()[id], answer->status);
    if (answer->status < 300) result = router::ProbeResult::kGood;
  } else if (absl::IsDeadlineExceeded(answer.status())) {
    result = router::ProbeResult::kMissed;
  }
  router::Health& health = runtime->load()[id].health;
  const router::HealthState before = health.state();
  health.OnProbe(result, net::Now());
  if (result != router::ProbeResult::kGood) runtime->load()[id].breaker.OnProbeFailed(net::Now());
  if (health.state() != before) {
    log::Info("replica health", {{"replica", runtime->routes().replica(id).spec.identity},
                                 {"was", router::HealthName(before)},
                                 {"is", router::HealthName(health.state())}});
  }
}

// Only what a probe has said is taken back by a probe: engines answer their health path to everybody.
void Probes::NoteCredentials(router::ReplicaState& state, int status) {
  const bool refused = status == 401 || status == 403;
  if (!refused) {
    if (refusing_.erase(state.identity) > 0) state.refused_credentials.store(0, std::memory_order_relaxed);
    return;
  }
  state.refused_credentials.store(status, std::memory_order_relaxed);
  if (!refusing_.insert(state.identity).second) return;
  log::Error(
      "a probe was refused the gateway's credentials: correct api_key or secret_headers of its endpoint",
      {{"replica", state.identity}, {"status", status}});
}

}  // namespace gateway
