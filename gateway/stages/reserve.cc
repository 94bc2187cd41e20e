// reserve: all limits of the caller's path at once, or none.
#include <fmt/format.h>

#include "gateway/shard.h"
#include "gateway/stages/stages.h"

namespace gateway::stages {
namespace {

namespace limits = router::limits;

// Where a limit on tokens applies, a request that sets no bound gets one. This one, or what is left if that
// is less, where neither the model's max_output_tokens nor its context is configured.
constexpr int64_t kUnknownMaximum = 4096;

Verdict Refuse(Exchange& x, const limits::Refusal& refusal) {
  x.shard.metrics.cells.limit_refusals.Add();
  if (x.shard.shared.limits_failed_closed.load(std::memory_order_relaxed)) {
    return x.Fail(api::Code::kLimitsUnavailable,
                  "the store that gateways share their limits through is gone, and this gateway admits "
                  "nothing without it");
  }
  const bool budget = refusal.limit.find("budget_per_") != std::string_view::npos;
  const api::Code code = budget                           ? api::Code::kInsufficientQuota
                         : refusal.limit == "concurrency" ? api::Code::kConcurrencyLimit
                                                          : api::Code::kRateLimitExceeded;
  api::ApiError error = api::Make(code, refusal.Message());
  error.should_retry = refusal.RetryHelps();
  if (refusal.retry_after.count() > 0) error.retry_after = refusal.retry_after;
  error.limit = fmt::format("{}/{}", refusal.scope, refusal.limit);
  x.limit = error.limit;
  return x.Fail(std::move(error));
}

}  // namespace

Verdict Reserve(Exchange& x) {
  const ModelRuntime& model = x.model();
  limits::Ask ask;
  ask.input_tokens_est = x.prompt_tokens_est;
  ask.output_tokens_bound = x.facts.MaxOutputTokens();
  // Nothing that comes out is longer than the context; an engine refuses to be asked for more than that.
  ask.model_max_output = model.config->max_output_tokens.value_or(model.config->context.value_or(0));
  if (ask.model_max_output == 0) ask.output_tokens_default = kUnknownMaximum;
  ask.choices = x.facts.n;
  ask.price = model.price;
  ask.devices = model.devices;
  const bool generates = !x.spec->bound.empty();
  if (!generates) ask.output_tokens_bound = 0;

  limits::Outcome outcome = limits::Reserve(x.principal->node, model.limits, ask, x.at.started);
  // Told on refusals too: this is how a client learns when to come back.
  x.rates = limits::Rates(x.principal->node, model.limits, x.at.started);
  if (const auto* refusal = std::get_if<limits::Refusal>(&outcome)) return Refuse(x, *refusal);
  auto& grant = std::get<limits::Grant>(outcome);
  x.reservation = std::move(grant.reservation);
  if (!generates) return Verdict::kGoOn;
  x.output_cap = grant.output_cap;
  // What was reserved for is what the engine is held to.
  if (const auto maximum = model.config->max_output_tokens) {
    x.output_cap = std::min<int64_t>(x.output_cap.value_or(*maximum), *maximum);
  }
  return Verdict::kGoOn;
}

}  // namespace gateway::stages
