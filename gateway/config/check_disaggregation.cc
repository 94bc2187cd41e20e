#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "gateway/config/check.h"

namespace gateway::config {
namespace {

using router::Role;

bool HandsOver(Engine engine) {
  return engine == Engine::kVllm || engine == Engine::kSglang;
}

bool Any(const Model& model, Role role) {
  return std::ranges::any_of(model.endpoints, [&](const Endpoint& e) { return e.role == role; });
}

void CheckEndpoint(conf::Document& document, size_t m, size_t e, const Model& model) {
  const Endpoint& endpoint = model.endpoints[e];
  const auto refuse = [&](std::string_view member, std::string_view value, std::string why) {
    document.AddAt(fmt::format("/models/{}/endpoints/{}/{}", m, e, member), value, std::move(why));
  };
  const std::string_view engine = Name(endpoint.engine);
  if (endpoint.role != Role::kBoth && !HandsOver(endpoint.engine)) {
    refuse("role", RoleName(endpoint.role),
           fmt::format("{} cannot hand prompts over; vllm and sglang can", engine));
    return;
  }
  const auto other = std::ranges::find_if(model.endpoints, [&](const Endpoint& one) {
    return one.role != Role::kBoth && HandsOver(one.engine) && one.engine != endpoint.engine;
  });
  if (other != model.endpoints.end()) {
    refuse("engine", engine,
           fmt::format("must be {}, as of the other endpoints: prompts are handed over between engines of "
                       "one kind",
                       Name(other->engine)));
  }
  if (!endpoint.track.empty())
    refuse("track", endpoint.track, "cannot be used in a pool with roles; make the track a model of its own");
}

void CheckPool(conf::Document& document, size_t m, const Model& model) {
  const std::string pointer = fmt::format("/models/{}/endpoints", m);
  const bool prefill = Any(model, Role::kPrefill);
  const bool only_decode = std::ranges::all_of(
      model.endpoints, [](const Endpoint& e) { return e.engine == Engine::kSglang || !HandsOver(e.engine); });
  if (prefill && !Any(model, Role::kDecode) && (only_decode || !Any(model, Role::kBoth))) {
    document.AddAt(pointer, "",
                   "some endpoints have the role prefill and none has the role decode; give at least one the "
                   "role decode");
  } else if (!prefill) {
    document.AddAt(pointer, "",
                   "some endpoints have the role decode and none has the role prefill; give at least one the "
                   "role prefill");
  }
}

}  // namespace

void CheckDisaggregation(conf::Document& document, const Config& config) {
  for (size_t m = 0; m < config.models.size(); ++m) {
    const Model& model = config.models[m];
    for (size_t e = 0; e < model.endpoints.size(); ++e) {
      const Endpoint& endpoint = model.endpoints[e];
      if (endpoint.bootstrap_port &&
          (endpoint.engine != Engine::kSglang || endpoint.role != Role::kPrefill)) {
        document.AddAt(fmt::format("/models/{}/endpoints/{}/bootstrap_port", m, e),
                       std::to_string(*endpoint.bootstrap_port),
                       "is of sglang endpoints with role: prefill only");
      }
    }
    if (!Any(model, Role::kPrefill) && !Any(model, Role::kDecode)) {
      if (model.disaggregation) {
        document.AddAt(fmt::format("/models/{}/disaggregation", m), "",
                       "has no effect: no endpoint of this model has a role");
      }
      continue;
    }
    for (size_t e = 0; e < model.endpoints.size(); ++e) CheckEndpoint(document, m, e, model);
    CheckPool(document, m, model);
  }
}

}  // namespace gateway::config
