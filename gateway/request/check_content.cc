// check_content: checks that the caller may ask this model for what the body says, and applies the parameters of
// tenant and model.
#include <absl/container/inlined_vector.h>
#include <fmt/format.h>

#include <algorithm>

#include "conf/find.h"
#include "gateway/request/parameter_policy.h"
#include "gateway/request/stages.h"
#include "gateway/request/stored_state.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

// Checked here because an engine would answer 400 or 500 only after the request has waited in the queue.
bool LacksMessages(const Exchange& x) {
  const router::Api api = x.identity.spec->api;
  const bool needs = api == router::Api::kChatCompletions || api == router::Api::kMessages ||
                     api == router::Api::kCountTokens;
  return needs && x.body.facts.part(router::PromptPart::kMessages).empty();
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

// Policies apply to JSON bodies; a form's few fields always pass.
std::optional<api::ApiError> ApplyPolicies(Exchange& x) {
  absl::InlinedVector<const config::Parameters*, 4> policies;
  for (const config::Parameters& policy : x.identity.principal->parameters) policies.push_back(&policy);
  policies.insert(policies.end(), x.model().parameters.begin(), x.model().parameters.end());
  const size_t own = policies.size();
  for (const router::Fallback& fallback : x.runtime->routes().model(x.model_id).fallbacks) {
    const auto& theirs = x.runtime->model(fallback.model).parameters;
    policies.insert(policies.end(), theirs.begin(), theirs.end());
  }
  if (policies.empty() || x.body.form) return std::nullopt;
  if (auto refused = CheckParameters(x.shard.scanner, x.body.text, policies)) return refused;
  auto forced =
      ForceParameters(x.shard.scanner, x.body.text, x.body.facts.insert_at, Policies(policies).first(own));
  if (!forced) return std::nullopt;
  x.body.forced_text = *std::move(forced);
  const size_t size = x.body.forced_text.size();
  x.body.forced_text.append(net::Buffer::kPadding, '\0');
  x.body.text = std::string_view(x.body.forced_text).substr(0, size);
  x.client.connection().DropBody();
  const auto error = x.shard.scanner.Scan(x.body.text, x.identity.spec->api, x.body.facts);
  return error ? std::optional(api::FromFacts(*error)) : std::nullopt;
}

// Whether the request continues a response of another tenant. Engines and providers give a stored response to
// any caller that knows its id.
bool ContinuesOthersResponse(const Exchange& x) {
  const std::string_view response = x.body.facts.previous_response.view();
  return !response.empty() && !x.shard.shared.response_owners.Owns(response, x.identity.tenant());
}

// The member that may name state of another tenant. A single tenant owns all state of the account.
std::optional<std::string_view> FindOthersState(const Exchange& x) {
  if (x.runtime->tenants().size() < 2) return std::nullopt;
  switch (x.identity.spec->api) {
    case router::Api::kResponses:
    case router::Api::kInputTokens:
      return NamesStoredState(x.shard.scanner, x.body.text);
    case router::Api::kChatCompletions:
    case router::Api::kMessages:
      // Almost no body has one of these words, and a search for them costs less than a walk through the messages.
      if (!conf::Contains(x.body.text, "file_id") && !conf::Contains(x.body.text, "\"audio\"") &&
          !conf::Contains(x.body.text, "\"container\"") && !conf::Contains(x.body.text, "\\u00"))
        return std::nullopt;
      return NamesStoredContent(x.shard.scanner, x.body.text);
    default:
      return std::nullopt;
  }
}

// Whether the request needs a conversation that is kept between requests, and none of the replicas is known to keep
// it for the tenant alone. Engines that do not know the member would answer the new messages without the earlier ones.
bool NeedsThread(const Exchange& x) {
  const router::Api api = x.identity.spec->api;
  if (api != router::Api::kMessages && api != router::Api::kCountTokens) return false;
  if (!conf::Contains(x.body.text, "\"thread\"") && !conf::Contains(x.body.text, "\\u00")) return false;
  if (!NamesThread(x.shard.scanner, x.body.text)) return false;
  if (x.runtime->tenants().size() > 1) return true;
  return std::ranges::any_of(x.runtime->routes().replicas(x.model_id), [&](const router::Replica& replica) {
    return x.runtime->replica(replica.id).config->engine != config::Engine::kAnthropic;
  });
}

}  // namespace

StageResult CheckContent(Exchange& x) {
  if (LacksMessages(x)) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(api::Code::kMissingParameter, "messages is missing: give an array of messages", "messages");
  }
  if (x.body.facts.has_transfer_members) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(
        api::Code::kUnsupportedParameter,
        "callers may not set kv_transfer_params or bootstrap_*: the gateway chooses where a prompt is "
        "computed; leave them out");
  }
  if (x.body.facts.names_adapter) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(api::Code::kUnsupportedParameter,
                  "callers may not set lora_path: give the adapter's name as `model` instead", "lora_path");
  }
  if (std::optional<api::ApiError> refused = ApplyPolicies(x)) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(*std::move(refused));
  }
  if (x.identity.spec->api == router::Api::kResponses && RunsInBackground(x.shard.scanner, x.body.text)) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(
        api::Code::kUnsupportedParameter,
        "background: an answer that is generated later can be neither metered nor fetched here; leave "
        "background out",
        "background");
  }
  if (NeedsThread(x)) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(api::Code::kThreadUnsupported,
                  "thread: conversations are not kept here; send the whole conversation without thread",
                  "thread");
  }
  if (ContinuesOthersResponse(x)) {
    x.shard.metrics.cells.permission_failures.Add();
    return x.Fail(api::Code::kPreviousResponseNotFound,
                  "previous_response_id: this gateway knows no such response of your tenant; send the whole "
                  "conversation instead",
                  "previous_response_id");
  }
  if (const auto named = FindOthersState(x)) {
    x.shard.metrics.cells.permission_failures.Add();
    return x.Fail(
        api::Code::kUnsupportedParameter,
        fmt::format(
            "{} names stored content by its id, and the gateway cannot tell which of its tenants owns "
            "it: send the content itself",
            *named),
        std::string(*named));
  }
  if (std::optional<api::ApiError> wrong = CheckPriority(x)) return x.Fail(*std::move(wrong));
  x.body.facts.stream = x.body.facts.stream && x.identity.spec->can_stream;
  x.body.prompt_tokens = x.model().estimate->Prompt(x.body.facts.prompt_bytes, x.body.facts.prompt_tokens,
                                                    x.body.facts.media_parts);
  return StageResult::kContinue;
}

}  // namespace gateway::stages
