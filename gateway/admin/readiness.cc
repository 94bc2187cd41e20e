#include "gateway/admin/readiness.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/shown.h"
#include "gateway/admin/clock_offset.h"
#include "gateway/control/control_plane.h"

namespace gateway::admin {
namespace {

using answers::Condition;

// A clock that is kept by NTP differs by less.
constexpr conf::Duration kClockTolerance = std::chrono::seconds(2);

void JudgeModels(const Runtime& runtime, conf::TimePoint now, std::vector<Condition>& out) {
  for (const router::Model& model : runtime.routes().models()) {
    if (runtime.model(model.id).policy != nullptr) continue;  // the control loop says how it stands
    const auto replicas = runtime.routes().replicas(model.id);
    const bool any = std::any_of(replicas.begin(), replicas.end(), [&](const router::Replica& replica) {
      const router::ReplicaState& state = runtime.load()[replica.id];
      return state.health.Usable() && state.breaker.phase(now) != router::Breaker::Phase::kOpen;
    });
    if (any) continue;
    if (replicas.empty() && model.spec.discovers) {
      out.push_back({"model:" + model.spec.name, "no endpoint of it is found yet; its requests wait"});
      continue;
    }
    out.push_back({"model:" + model.spec.name,
                   replicas.size() == 1 ? "its endpoint is not up"
                                        : fmt::format("none of its {} endpoints is up", replicas.size())});
  }
}

void JudgeCredentials(const Runtime& runtime, std::vector<Condition>& out) {
  for (const router::Replica& replica : runtime.routes().replicas()) {
    const int status = runtime.load()[replica.id].refused_credentials.load(std::memory_order_relaxed);
    if (status == 0) continue;
    out.push_back({"endpoint:" + replica.spec.identity,
                   fmt::format("it answers {}: it refuses the gateway's credentials; correct its api_key or "
                               "secret_headers",
                               status)});
  }
}

void JudgeDiscovery(const std::vector<discovery::SourceStatus>& sources, std::vector<Condition>& out) {
  for (const discovery::SourceStatus& source : sources) {
    if (source.trouble.empty()) continue;
    out.push_back({"discovery:" + source.source,
                   source.addresses == 0
                       ? source.trouble
                       : fmt::format("the last known addresses stay in use: {}", source.trouble)});
  }
}

// Requests with known keys are served without the store, so it is no reason to take none.
void JudgeStore(const std::optional<control::StoreStatus>& store, conf::TimePoint now,
                std::vector<Condition>& out) {
  if (!store || !store->away(now)) return;
  out.push_back(
      {"store", fmt::format("PostgreSQL has not answered for {}; requests, limits and known keys continue "
                            "to work, changes are refused, and nothing is started or stopped: {}",
                            conf::InWords(std::chrono::floor<std::chrono::seconds>(now - store->answered)),
                            store->why)});
}

void JudgeScaling(const control::Status& status, std::vector<Condition>& out) {
  if (!status.launcher.empty() && !status.trouble.empty())
    out.push_back({"launcher:" + status.launcher, status.trouble});
  if (status.telemetry != nullptr) {
    for (const control::TelemetryTrouble& trouble : status.telemetry->troubles)
      out.push_back({"devices:" + trouble.source, fmt::format("devices are not measured: {}", trouble.why)});
  }
  for (const plugins::launchers::DeviceFault& fault : status.faults)
    out.push_back({fmt::format("device:{}/{}", fault.node, fault.device), fault.why});
  if (!status.power_cap_trouble.empty()) out.push_back({"power:caps", status.power_cap_trouble});
  for (const control::ModelStatus& model : status.models) {
    if (!model.trouble.empty()) out.push_back({"model:" + model.model, model.trouble});
  }
}

void JudgeClock(std::vector<Condition>& out) {
  const conf::Duration offset = ClockOffset();
  const bool ahead = offset > conf::Duration::zero();
  const conf::Duration by = ahead ? offset : -offset;
  if (by < kClockTolerance) return;
  out.push_back(
      {"clock",
       fmt::format(
           "the time of this gateway is {} {} the machine's: after the start of the gateway, the machine's "
           "clock was set, or the machine was suspended; restart the gateway to take over the "
           "machine's time",
           conf::InWords(by), ahead ? "ahead of" : "behind")});
}

}  // namespace

answers::Readiness Judge(const Operations& operations, conf::TimePoint now) {
  answers::Readiness readiness;
  std::vector<Condition>& out = readiness.degraded;
  if (operations.shared->stopping) {
    out.push_back({"process",
                   operations.shared->draining ? "the gateway is stopping; running requests finish"
                                               : "the gateway will stop; until then it serves requests",
                   true});
  }
  if (!operations.shared->ledger->Healthy()) {
    const std::string why = operations.shared->ledger->GetStats().last_error;
    out.push_back({"ledger", why.empty() ? "it cannot write records" : why, true});
  }
  if (std::string trouble = operations.ledger_trouble(); !trouble.empty())
    out.push_back({"ledger", std::move(trouble)});
  if (std::string why = operations.shared->keys->trouble(); !why.empty())
    out.push_back({"keys", std::move(why)});
  if (operations.shared->disk_low) {
    out.push_back(
        {"disk", "less than ledger.min_free_bytes is free; new requests are refused, and nothing is started",
         true});
  }
  JudgeModels(*operations.runtime(), now, out);
  JudgeCredentials(*operations.runtime(), out);
  JudgeDiscovery(operations.discovery(), out);
  if (control::ControlPlane* const plane = operations.control_plane()) JudgeStore(plane->store(), now, out);
  const control::Status scaling = operations.scaling();
  JudgeScaling(scaling, out);
  if (!scaling.run_warning.empty()) readiness.warnings.push_back({"runs", scaling.run_warning});
  if (!scaling.device_warning.empty()) readiness.warnings.push_back({"devices", scaling.device_warning});
  JudgeClock(readiness.warnings);
  if (const ReloadState reloads = operations.reloads(); !reloads.last_ok) {
    out.push_back({"config", "the last configuration was refused, the older one stays: " + reloads.why});
  }
  const OutboundStatus outbound = operations.outbound();
  if (outbound.sharing && outbound.sharing->degraded()) {
    out.push_back(
        {"redis", fmt::format("limits are not shared ({}): {}", SharingStateName(outbound.sharing->state),
                              outbound.sharing->reason)});
  }
  for (const SinkStatus& sink : outbound.sinks) {
    if (sink.failing) out.push_back({"sink:" + sink.name, sink.last_error});
  }
  for (const Jwks::Status& issuer : operations.issuers()) {
    if (!issuer.usable) out.push_back({"jwks:" + issuer.issuer, issuer.last_error});
  }
  readiness.ready =
      std::none_of(out.begin(), out.end(), [](const Condition& condition) { return condition.fatal; });
  readiness.status = !readiness.ready ? "unavailable" : out.empty() ? "ok" : "degraded";
  readiness.scaling = operations.runtime()->config().scaling.has_value();
  readiness.config_sha256 = operations.runtime()->hash();
  readiness.version = TIDEGATE_VERSION;
  return readiness;
}

}  // namespace gateway::admin
