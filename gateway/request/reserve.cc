// reserve: reserves the request in all limits of the caller's path, or in none.
#include <fmt/format.h>

#include <algorithm>

#include "gateway/request/claim.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

namespace limits = router::limits;

// A sliding minute frees every charge within this time, to the second.
constexpr conf::Duration kWindow = std::chrono::minutes(1);

api::Code CodeOf(const limits::Refusal& refusal) {
  if (!refusal.dimension) return api::Code::kRateLimitExceeded;
  switch (limits::ShapeOf(*refusal.dimension)) {
    case limits::Shape::kWindow:
      return api::Code::kRateLimitExceeded;
    case limits::Shape::kGauge:
      return api::Code::kConcurrencyLimit;
    case limits::Shape::kPeriod:
      return api::Code::kInsufficientQuota;
  }
  return api::Code::kRateLimitExceeded;
}

}  // namespace

StageResult RefuseByLimit(Exchange& x, const limits::Refusal& refusal) {
  x.shard.metrics.cells.limit_refusals.Add();
  if (x.shard.shared.limits_failed_closed.load(std::memory_order_relaxed)) {
    return x.Fail(
        api::Code::kLimitsUnavailable,
        "Redis, which holds the gateways' shared limits, does not answer, and this gateway admits no "
        "request without it; try again later");
  }
  if (refusal.limit == limits::kUnpriced) {
    return x.Fail(
        api::Code::kModelUnpriced,
        fmt::format("{} has no price for {}, and a budget in money applies to {}: the operator must set the "
                    "model's price, or unpriced: allow",
                    x.model().config->name, x.identity.spec->name, refusal.scope));
  }
  api::ApiError error = api::Make(CodeOf(refusal), refusal.Message());
  error.should_retry = refusal.RetryHelps();
  const bool window = refusal.dimension && limits::ShapeOf(*refusal.dimension) == limits::Shape::kWindow;
  if (refusal.retry_after.count() > 0)
    error.retry_after = window ? std::min(refusal.retry_after, kWindow) : refusal.retry_after;
  error.limit = fmt::format("{}/{}", refusal.scope, refusal.limit);
  x.outcome.limit = error.limit;
  return x.Fail(std::move(error));
}

StageResult Reserve(Exchange& x) {
  const ModelRuntime& model = x.model();
  const limits::ReserveRequest ask = ClaimOf(x, model);
  limits::ReserveResult outcome = ReserveAll(x, model, ask);
  // Set for a refusal, too: the headers tell the client when to try again.
  x.grant.rates = limits::Rates(x.identity.principal->node, model.limits, x.at.started);
  if (const auto* refusal = std::get_if<limits::Refusal>(&outcome)) return RefuseByLimit(x, *refusal);
  auto& grant = std::get<limits::Grant>(outcome);
  x.grant.reservation = std::move(grant.reservation);
  SetOutputCap(x, model, grant.output_cap);
  return StageResult::kContinue;
}

}  // namespace gateway::stages
