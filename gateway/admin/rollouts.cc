// Rollouts of new versions of models: list, promote, abort, restart.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gateway/admin/answers/rollouts.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/control/scaling/rollout_driver.h"

namespace gateway::admin {
namespace {

using control::RolloutDriver;
using control::RolloutStatus;

// Seconds.
std::optional<double> GeometricMean(const router::LogSums& sums) {
  if (sums.count == 0) return std::nullopt;
  return std::exp(sums.sum / static_cast<double>(sums.count));
}

answers::VersionFigures FiguresOf(uint32_t ready, const router::VersionSample& sample) {
  answers::VersionFigures figures{.ready = ready, .tries = sample.tries, .failures = sample.failures};
  constexpr double kMillis = 1e3;
  if (const auto ttft = GeometricMean(sample.first_token)) figures.ttft_ms = *ttft * kMillis;
  if (const auto pause = GeometricMean(sample.token_time); pause && *pause > 0)
    figures.tokens_per_second = 1 / *pause;
  if (sample.ratings.count > 0) {
    figures.rated = sample.ratings.count;
    figures.rated_true = sample.ratings.positive;
  }
  return figures;
}

answers::Rollout RolloutRow(const RolloutStatus& status) {
  answers::Rollout row;
  row.model = status.rollout.model;
  row.version = status.rollout.version;
  row.from = answers::TextOrNull(status.from);
  row.state = Name(status.rollout.state);
  row.step = status.rollout.step;
  row.steps = status.steps;
  row.percent = status.rollout.percent;
  row.began = {status.rollout.began};
  row.since = {status.rollout.since};
  row.reason = status.rollout.why;
  row.by = status.rollout.by;
  row.waits_for = answers::TextOrNull(status.standing);
  row.wanted_replicas = status.wanted;
  row.fresh = FiguresOf(status.ready, status.fresh);
  row.old = FiguresOf(status.old_ready, status.old);
  return row;
}

Answer NoRollouts(const Call& call) {
  return Refuse(api::Code::kConflict, "nothing is rolled out here: the configuration has no section scaling",
                call.request_id);
}

net::Task<Answer> Answered(const Operations& operations, const Call& call, absl::Status done) {
  if (!done.ok()) co_return Refuse(done, call.request_id);
  RolloutDriver* const rollouts = operations.rollouts();
  if (rollouts == nullptr) co_return NoRollouts(call);
  for (const RolloutStatus& status : rollouts->Rows()) {
    if (status.rollout.model == call.item) co_return Json(RolloutRow(status));
  }
  co_return Refuse(api::Code::kNotFound, fmt::format("{} no longer has a rollout", call.item),
                   call.request_id);
}

}  // namespace

Answer ListRollouts(const Operations& operations, const Call& call) {
  std::vector<answers::Rollout> all;
  if (RolloutDriver* const rollouts = operations.rollouts(); rollouts != nullptr) {
    for (const RolloutStatus& status : rollouts->Rows()) all.push_back(RolloutRow(status));
  }
  std::ranges::sort(all, {}, &answers::Rollout::model);
  return ListPage(std::move(all), &answers::Rollout::model, call);
}

net::Task<Answer> PromoteRollout(const Operations& operations, const Call& call) {
  RolloutDriver* const rollouts = operations.rollouts();
  if (rollouts == nullptr) co_return NoRollouts(call);
  co_return co_await Answered(operations, call, co_await rollouts->Promote(call.item, call.caller.actor));
}

net::Task<Answer> AbortRollout(const Operations& operations, const Call& call) {
  RolloutDriver* const rollouts = operations.rollouts();
  if (rollouts == nullptr) co_return NoRollouts(call);
  co_return co_await Answered(operations, call,
                              co_await rollouts->Abort(call.item, call.caller.actor, call.Text("reason")));
}

net::Task<Answer> RestartRollout(const Operations& operations, const Call& call) {
  RolloutDriver* const rollouts = operations.rollouts();
  if (rollouts == nullptr) co_return NoRollouts(call);
  co_return co_await Answered(operations, call, co_await rollouts->Restart(call.item, call.caller.actor));
}

}  // namespace gateway::admin
