// The process itself: alive, ready, its configuration.
#include "conf/text.h"
#include "gateway/admin/answers/process.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/readiness.h"

namespace gateway::admin {
namespace {

answers::AppliedConfig Applied(const Runtime& runtime) {
  return {.sha256 = runtime.hash(), .loaded_at = {runtime.loaded_at()}};
}

}  // namespace

Answer Livez(const Operations&, const Call&) {
  return Json(answers::Alive());
}

Answer Readyz(const Operations& operations, const Call& call) {
  const answers::Readiness readiness = Judge(operations, call.now);
  return Json(readiness, readiness.ready ? 200 : 503);
}

Answer MetricsText(const Operations& operations, const Call&) {
  return {.body = operations.metrics(), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

Answer ShowConfig(const Operations& operations, const Call& call) {
  const ReloadState reloads = operations.reloads();
  answers::Config out{.applied = Applied(*call.runtime),
                      .reloads = {.applied = reloads.applied,
                                  .refused = reloads.refused,
                                  .last_ok = reloads.last_ok,
                                  .why = reloads.why},
                      .config = {ToJson(call.runtime->configured()).dump()}};
  if (reloads.last_at != conf::TimePoint()) out.reloads.last_at = {reloads.last_at};
  return Json(out);
}

net::Task<Answer> ReloadConfig(const Operations& operations, const Call& call) {
  if (!operations.shared->ledger->Healthy()) {
    co_return Refuse(api::Code::kLedgerUnavailable,
                     "the ledger cannot record the change now; try again when it can", call.request_id);
  }
  const absl::Status applied = co_await operations.reload(call.caller.actor);
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
