// The process itself: alive, ready, its configuration.
#include "conf/text.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/readiness.h"

namespace gateway::admin {
namespace {

using nlohmann::ordered_json;

ordered_json Applied(const Runtime& runtime) {
  ordered_json out;
  out["sha256"] = runtime.hash();
  out["loaded_at"] = conf::FormatTime(runtime.loaded_at());
  return out;
}

}  // namespace

Answer Livez(const Operations&, const Call&) {
  return Json({{"status", "ok"}});
}

Answer Readyz(const Operations& operations, const Call& call) {
  const Readiness readiness = Judge(operations, call.now);
  return Json(ToJson(readiness, operations), readiness.ready ? 200 : 503);
}

Answer MetricsText(const Operations& operations, const Call&) {
  return {.body = operations.metrics(), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

Answer ShowConfig(const Operations& operations, const Call& call) {
  ordered_json out = Applied(*call.runtime);
  const ReloadState reloads = operations.reloads();
  out["reloads"] = {
      {"applied", reloads.applied},
      {"refused", reloads.refused},
      {"last_ok", reloads.last_ok},
      {"last_at", reloads.last_at == conf::TimePoint() ? ordered_json()
                                                       : ordered_json(conf::FormatTime(reloads.last_at))},
      {"why", reloads.why}};
  out["config"] = ToJson(call.runtime->config());
  return Json(out);
}

net::Task<Answer> ReloadConfig(const Operations& operations, const Call& call) {
  if (!operations.shared->ledger->Healthy()) {
    co_return Refuse(api::Code::kLedgerUnavailable,
                     "the ledger cannot record the change now; try again when it can", call.request_id);
  }
  const absl::Status applied = co_await operations.reload(call.actor);
  if (applied.ok()) co_return Json(Applied(*operations.runtime()));
  if (!absl::IsInvalidArgument(applied)) co_return Refuse(applied, call.request_id);
  std::vector<FieldProblem> problems;
  std::string_view rest = conf::Std(applied.message());
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    problems.push_back({"", std::string(line)});
  }
  if (problems.empty()) problems.push_back({"", "the configuration is not valid"});
  co_return Refuse(api::Code::kInvalidConfig, problems, call.request_id);
}

}  // namespace gateway::admin
