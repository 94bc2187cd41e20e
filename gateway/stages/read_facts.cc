// read_facts: what the body asks for, read by scanning, and whether this caller may ask it.
#include <fmt/format.h>

#include <algorithm>

#include "gateway/shard.h"
#include "gateway/stages/stages.h"

namespace gateway::stages {
namespace {

void TakeForm(Exchange& x) {
  const router::MultipartScanner& form = *x.form;
  x.facts.model = router::BodyText(std::string(*form.field(router::FormField::kModel)));
  x.facts.model_range = form.range(router::FormField::kModel);
  x.facts.stream = form.stream();
}

// A caller may ask to wait in a less urgent band than its key's, not in a more urgent one.
std::optional<api::ApiError> CheckPriority(const Exchange& x) {
  const std::optional<config::Queue>& queue = x.model().queue;
  if (x.asked_priority.empty() || !queue) return std::nullopt;
  const size_t own = queue->BandOf(x.principal->priority);
  std::vector<std::string_view> allowed;
  for (size_t i = 0; i < queue->bands.size(); ++i) {
    if (queue->bands[i].name == x.asked_priority) {
      if (i >= own) return std::nullopt;
      return api::Make(
          api::Code::kPermissionDenied,
          fmt::format("header x-priority: this key's requests wait as \"{}\" for {}; \"{}\" is more "
                      "urgent",
                      queue->bands[own].name, x.model().config->name, x.asked_priority));
    }
    if (i >= own) allowed.push_back(queue->bands[i].name);
  }
  return api::Make(
      api::Code::kInvalidValue,
      fmt::format("header x-priority: {} has no priority \"{}\"; this key may use {}", x.model().config->name,
                  x.asked_priority.substr(0, 64), fmt::join(allowed, ", ")));
}

// The model's replicas, or a fallback's, take KV caches from each other: from whom is not the caller's to
// say.
bool HandsOver(const Exchange& x) {
  const router::RouteTable& routes = x.runtime->routes();
  const router::Model& model = routes.model(x.model_id);
  return model.spec.handover || std::ranges::any_of(model.fallbacks, [&](const router::Fallback& fallback) {
           return routes.model(fallback.model).spec.handover.has_value();
         });
}

}  // namespace

Verdict ReadFacts(Exchange& x) {
  if (x.form) {
    TakeForm(x);
  } else if (const auto error = x.shard.scanner.Scan(x.body, x.spec->api, x.facts)) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(api::FromFacts(*error));
  }
  const std::string_view asked = x.facts.model.view();
  const std::optional<ModelId> found = x.runtime->routes().Find(asked);
  // A model that exists but is not this key's is told as one that does not exist.
  if (!found || !x.principal->MayUse(*found)) {
    x.shard.metrics.cells.permission_failures.Add();
    x.reuse_client = x.body_whole;
    return x.Fail(api::ModelNotFound(asked, AllowedModels(x)));
  }
  x.model_id = *found;
  if (x.facts.says_handover && HandsOver(x)) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(
        api::Code::kUnsupportedParameter,
        "kv_transfer_params and bootstrap_* are not for callers of this model: the gateway says where "
        "a prompt is computed");
  }
  if (std::optional<api::ApiError> wrong = CheckPriority(x)) return x.Fail(*std::move(wrong));
  x.facts.stream = x.facts.stream && x.spec->can_stream;
  x.prompt_tokens_est =
      x.model().estimate->Prompt(x.facts.prompt_bytes, x.facts.prompt_tokens, x.facts.media_parts);
  return Verdict::kGoOn;
}

}  // namespace gateway::stages
