#include "gateway/process/applied_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/node.h"
#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/files.h"
#include "scheduler/io/policy_yaml.h"
#include "scheduler/io/snapshot_json.h"

namespace gateway {
namespace {

// What the planner's file says; moves can change, and do not come from it alone.
std::string PlannerText(const config::Scaling& scaling) {
  scheduler::io::PolicyFile planning = scaling.planning;
  planning.policy.moves = {};
  return scheduler::io::WritePolicy(planning);
}

std::string ClusterText(const config::Scaling& scaling) {
  scheduler::Snapshot snapshot;
  snapshot.cluster = scaling.nodes;
  return scheduler::io::WriteSnapshot(snapshot);
}

}  // namespace

absl::Status CheckUnchanged(const Config& running, const Config& wanted) {
  const nlohmann::json before = ToJson(running);
  const nlohmann::json after = ToJson(wanted);
  std::string changed;
  const auto note = [&](std::string_view pointer) {
    changed.append(changed.empty() ? "" : ", ").append(pointer);
  };
  for (const char* pointer :
       {"/server/listen", "/server/admin", "/server/console", "/server/threads", "/server/state_dir",
        "/ledger", "/state", "/redis", "/kubernetes", "/telemetry/log", "/telemetry/otlp",
        "/scaling/launcher", "/scaling/cluster", "/scaling/planner", "/scaling/ports", "/scaling/runs",
        "/scaling/slurm", "/scaling/kubernetes"}) {
    const nlohmann::json::json_pointer at(pointer);
    const bool had = before.contains(at);
    if (had != after.contains(at) || (had && before[at] != after[at])) note(pointer);
  }
  // The same name, and another content: only a start reads it.
  if (running.scaling && wanted.scaling) {
    const config::Scaling& is = *running.scaling;
    const config::Scaling& will = *wanted.scaling;
    if (is.planner == will.planner && PlannerText(is) != PlannerText(will))
      note(fmt::format("/scaling/planner (the content of {})", will.planner));
    if (!is.cluster.file.empty() && is.cluster.file == will.cluster.file &&
        ClusterText(is) != ClusterText(will))
      note(fmt::format("/scaling/cluster (the content of {})", will.cluster.file));
  }
  if (running.server.tls.has_value() != wanted.server.tls.has_value()) note("/server/tls");
  if (running.scaling.has_value() != wanted.scaling.has_value()) note("/scaling");
  if (running.server.admin_tls.has_value() != wanted.server.admin_tls.has_value()) note("/server/admin_tls");
  if (running.server.console_tls.has_value() != wanted.server.console_tls.has_value())
    note("/server/console_tls");
  if (changed.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("a reload cannot change {}: restart to apply it; nothing was applied", changed));
}

std::string AppliedConfigPath(const std::string& state_dir) {
  return state_dir + "/config.applied.yaml";
}

void KeepLastKnownGood(const std::string& from, const std::string& state_dir) {
  const std::string to = AppliedConfigPath(state_dir);
  absl::StatusOr<std::string> text = net::ReadFile(from, conf::ParseLimits().bytes);
  const absl::Status kept = text.ok() ? net::ReplaceFile(to, *text) : text.status();
  if (!kept.ok())
    log::Warn("last known good configuration not kept", {{"file", to}, {"why", conf::Std(kept.message())}});
}

}  // namespace gateway
