// read_facts: scans the body for what it asks for, and checks that the caller may ask for it.
#include <fmt/format.h>

#include <algorithm>

#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

void TakeForm(Exchange& x) {
  const router::MultipartScanner& form = *x.body.form;
  x.body.facts.model = router::BodyText(std::string(*form.field(router::FormField::kModel)));
  x.body.facts.model_range = form.range(router::FormField::kModel);
  x.body.facts.stream = form.stream();
}

// A caller may ask for a less urgent band than its key's, not for a more urgent one.
std::optional<api::ApiError> CheckPriority(const Exchange& x) {
  const std::optional<config::Queue>& queue = x.model().queue;
  if (x.identity.asked_priority.empty() || !queue) return std::nullopt;
  const size_t own = queue->BandOf(x.identity.principal->priority);
  std::vector<std::string_view> allowed;
  for (size_t i = 0; i < queue->bands.size(); ++i) {
    if (queue->bands[i].name == x.identity.asked_priority) {
      if (i >= own) return std::nullopt;
      return api::Make(
          api::Code::kPermissionDenied,
          fmt::format("header x-priority: this key's requests wait as \"{}\" for {}; \"{}\" is more "
                      "urgent",
                      queue->bands[own].name, x.model().config->name, x.identity.asked_priority));
    }
    if (i >= own) allowed.push_back(queue->bands[i].name);
  }
  return api::Make(
      api::Code::kInvalidValue,
      fmt::format("header x-priority: {} has no priority \"{}\"; this key may use {}", x.model().config->name,
                  x.identity.asked_priority.substr(0, 64), fmt::join(allowed, ", ")));
}

// Whether the model's replicas, or a fallback's, fetch KV caches from each other: the caller may not say from
// which.
bool HandsOver(const Exchange& x) {
  const router::RouteTable& routes = x.runtime->routes();
  const router::Model& model = routes.model(x.model_id);
  return model.spec.prefill_transfer ||
         std::ranges::any_of(model.fallbacks, [&](const router::Fallback& fallback) {
           return routes.model(fallback.model).spec.prefill_transfer.has_value();
         });
}

}  // namespace

StageResult ReadFacts(Exchange& x) {
  if (x.body.form) {
    TakeForm(x);
  } else if (const auto error = x.shard.scanner.Scan(x.body.text, x.identity.spec->api, x.body.facts)) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(api::FromFacts(*error));
  }
  const std::string_view asked = x.body.facts.model.view();
  const std::optional<ModelId> found = x.runtime->routes().Find(asked);
  // A model that the key may not use is reported like one that does not exist.
  if (!found || !x.identity.principal->MayUse(*found)) {
    x.shard.metrics.cells.permission_failures.Add();
    x.client.SetReusable(x.body.whole);
    return x.Fail(api::ModelNotFound(asked, AllowedModels(x)));
  }
  x.model_id = *found;
  if (x.body.facts.has_transfer_members && HandsOver(x)) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(
        api::Code::kUnsupportedParameter,
        "kv_transfer_params and bootstrap_* must not be given for this model: the gateway decides where "
        "a prompt is computed");
  }
  if (std::optional<api::ApiError> wrong = CheckPriority(x)) return x.Fail(*std::move(wrong));
  x.body.facts.stream = x.body.facts.stream && x.identity.spec->can_stream;
  x.body.prompt_tokens = x.model().estimate->Prompt(x.body.facts.prompt_bytes, x.body.facts.prompt_tokens,
                                                    x.body.facts.media_parts);
  return StageResult::kContinue;
}

}  // namespace gateway::stages
