// reserve: reserves the request in all limits of the caller's path, or in none.
#include <fmt/format.h>

#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

namespace limits = router::limits;

// Where a limit on tokens applies, a request without a bound on its output gets one: the rest of the limit,
// or at most this, where neither the model's max_output_tokens nor its context is configured.
constexpr int64_t kUnknownMaximum = 4096;

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

StageResult RefuseByLimit(Exchange& x, const limits::Refusal& refusal) {
  x.shard.metrics.cells.limit_refusals.Add();
  if (x.shard.shared.limits_failed_closed.load(std::memory_order_relaxed)) {
    return x.Fail(api::Code::kLimitsUnavailable,
                  "Redis, through which the gateways share limits, does not answer, and this gateway admits "
                  "nothing without it");
  }
  api::ApiError error = api::Make(CodeOf(refusal), refusal.Message());
  error.should_retry = refusal.RetryHelps();
  if (refusal.retry_after.count() > 0) error.retry_after = refusal.retry_after;
  error.limit = fmt::format("{}/{}", refusal.scope, refusal.limit);
  x.outcome.limit = error.limit;
  return x.Fail(std::move(error));
}

}  // namespace

StageResult Reserve(Exchange& x) {
  const ModelRuntime& model = x.model();
  limits::ReserveRequest ask;
  ask.input_tokens_est = x.body.prompt_tokens;
  ask.output_tokens_bound = x.body.facts.MaxOutputTokens();
  // No answer is longer than the context: an engine refuses a request for more.
  ask.model_max_output = model.config->max_output_tokens.value_or(model.config->context.value_or(0));
  if (ask.model_max_output == 0) ask.output_tokens_default = kUnknownMaximum;
  ask.choices = x.body.facts.n;
  ask.price = model.price;
  ask.devices = model.devices;
  const bool generates = !x.identity.spec->bound.empty();
  if (!generates) ask.output_tokens_bound = 0;

  limits::ReserveResult outcome =
      limits::Reserve(x.identity.principal->node, model.limits, ask, x.at.started);
  // Set for refusals too: the client learns from them when to come back.
  x.grant.rates = limits::Rates(x.identity.principal->node, model.limits, x.at.started);
  if (const auto* refusal = std::get_if<limits::Refusal>(&outcome)) return RefuseByLimit(x, *refusal);
  auto& grant = std::get<limits::Grant>(outcome);
  x.grant.reservation = std::move(grant.reservation);
  if (!generates) return StageResult::kContinue;
  x.grant.output_cap = grant.output_cap;
  // The engine must not exceed what was reserved.
  if (const auto maximum = model.config->max_output_tokens) {
    x.grant.output_cap = std::min<int64_t>(x.grant.output_cap.value_or(*maximum), *maximum);
  }
  return StageResult::kContinue;
}

}  // namespace gateway::stages
