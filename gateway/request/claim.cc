#include "gateway/request/claim.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>

#include "gateway/request/parameter_policy.h"
#include "gateway/shard/shard.h"

namespace gateway {

using Move = router::limits::Reservation::Move;
namespace limits = router::limits;

limits::ReserveResult ReserveAll(Exchange& x, const ModelRuntime& model, const limits::ReserveRequest& ask) {
  if (x.grant.place) {
    std::optional<int64_t> cap;
    if (x.grant.place.MoveTo(model.limits, ask, Move::kIfAdmitted, x.at.started, cap))
      return limits::Grant{std::move(x.grant.place), cap};
    x.grant.place.Refund();  // the limit that refuses says why
  }
  return limits::Reserve(x.identity.principal->node, model.limits, ask, x.at.started);
}

limits::ReserveRequest ClaimOf(const Exchange& x, const ModelRuntime& model) {
  const config::Model& config = *model.config;
  limits::ReserveRequest ask;
  if (!IsFree(x.identity.spec->api)) ask.input_tokens_est = x.body.prompt_tokens;
  ask.output_tokens_bound = x.body.facts.MaxOutputTokens();
  if (ask.output_tokens_bound && config.max_output_tokens)  // the gateway lowers the bound to this
    ask.output_tokens_bound = std::min<int64_t>(*ask.output_tokens_bound, *config.max_output_tokens);
  // No answer is longer than the context: an engine refuses a request for more.
  ask.model_max_output = config.max_output_tokens.value_or(config.context.value_or(0));
  if (ask.model_max_output == 0) ask.output_tokens_default = model.estimate->LikelyMaximum();
  ask.output_tokens_usual = model.estimate->LongOutput();
  ask.choices = x.body.facts.choices();
  ask.price = x.PriceAt(model);
  ask.priced = config.unpriced == config::Unpriced::kAllow ||
               config::HasPriceFor(config::PriceOf(config, x.identity.is_of_batch()), x.identity.spec->api);
  ask.units = x.Units();
  ask.devices = model.devices;
  if (x.identity.spec->bound.empty()) ask.output_tokens_bound = 0;
  return ask;
}

void SetOutputCap(Exchange& x, const ModelRuntime& model, std::optional<int64_t> granted) {
  if (x.identity.spec->bound.empty()) return;
  // The engine must not exceed what was reserved.
  if (const auto maximum = model.config->max_output_tokens)
    granted = std::min<int64_t>(granted.value_or(*maximum), *maximum);
  x.grant.output_cap = granted;
}

namespace {

// Whether the body already has all that the model forces. Only then may a fallback get it: the body was read,
// counted and bounded for the asked model, and is sent unchanged.
bool HasWhatIsForced(const Exchange& x, const ModelRuntime& model) {
  if (x.body.form ||
      std::ranges::all_of(model.parameters, [](const auto* one) { return one->force.empty(); }))
    return true;
  absl::InlinedVector<const config::Parameters*, 4> policies;
  for (const config::Parameters& policy : x.identity.principal->parameters) policies.push_back(&policy);
  policies.insert(policies.end(), model.parameters.begin(), model.parameters.end());
  router::FactsScanner scanner;
  router::BodyFacts facts;
  if (scanner.Scan(x.body.text, x.identity.spec->api, facts)) return false;
  const auto forced = ForceParameters(scanner, x.body.text, facts.insert_at, policies);
  return !forced || *forced == x.body.text;
}

}  // namespace

bool FallbackClaims::Enter(router::ModelId fallback, conf::TimePoint now) {
  if (!x_.identity.principal->MayUse(fallback)) return false;
  const ModelRuntime& model = x_.runtime->model(fallback);
  if (model.WhyPaused() || !HasWhatIsForced(x_, model)) return false;
  std::optional<int64_t> cap;
  if (!x_.grant.reservation.MoveTo(model.limits, ClaimOf(x_, model), Move::kIfAdmitted, now, cap))
    return false;
  SetOutputCap(x_, model, cap);
  return true;
}

void FallbackClaims::Leave(conf::TimePoint now) {
  const ModelRuntime& model = x_.model();
  std::optional<int64_t> cap;
  x_.grant.reservation.MoveTo(model.limits, ClaimOf(x_, model), Move::kAlways, now, cap);
  SetOutputCap(x_, model, cap);
}

}  // namespace gateway
