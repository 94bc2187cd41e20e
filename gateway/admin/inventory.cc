// The configured tenants, models, endpoints and limits, with their state.
#include <algorithm>

#include "conf/reader.h"
#include "conf/words.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"

namespace gateway::admin {
namespace {

using nlohmann::ordered_json;

ordered_json ModelNames(const Runtime& runtime, const std::vector<bool>& allowed) {
  ordered_json names = ordered_json::array();
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i]) names.push_back(runtime.routes().models()[i].spec.name);
  }
  return names;
}

ordered_json Families(config::ApiSet apis) {
  ordered_json names = ordered_json::array();
  for (unsigned i = 0; i < config::kApiFamilies; ++i) {
    if (const auto api = static_cast<config::Api>(i); apis.Has(api)) names.push_back(Name(api));
  }
  return names;
}

std::string_view Name(config::StoreContent content) {
  return content == config::StoreContent::kNone   ? "none"
         : content == config::StoreContent::kFull ? "full"
                                                  : "prompts";
}

constexpr conf::Word<router::Breaker::Phase> kBreakerPhases[] = {
    {"closed", router::Breaker::Phase::kClosed},
    {"open", router::Breaker::Phase::kOpen},
    {"half_open", router::Breaker::Phase::kHalfOpen}};

std::string_view Name(router::Breaker::Phase phase) {
  return conf::WordOf(kBreakerPhases, phase);
}

// The configured ones, by their names at the engine, and how many others are there.
ordered_json AdaptersAt(const router::RouteTable& routes, const router::Replica& replica,
                        const router::ReplicaState& state, conf::TimePoint now) {
  std::vector<std::pair<router::AdapterId, std::string_view>> known;
  for (const router::Model& model : routes.models()) {
    if (model.served_by == replica.model && model.adapter != router::AdapterId::kNone)
      known.emplace_back(model.adapter, model.spec.adapter);
  }
  const router::AdapterSlots::Contents view = state.adapters.ReadContents(now);
  if (known.empty() && view.slots == 0) return {};
  size_t others = 0;
  const auto names = [&](const std::vector<router::AdapterId>& ids) {
    ordered_json out = ordered_json::array();
    for (const router::AdapterId id : ids) {
      const auto found = std::ranges::find(known, id, &std::pair<router::AdapterId, std::string_view>::first);
      found == known.end() ? void(++others) : out.push_back(found->second);
    }
    return out;
  };
  ordered_json out = {{"loaded", names(view.loaded)}, {"loading", names(view.loading)}};
  out["lacking"] = names(view.missing);
  out["others"] = others;
  out["slots"] = view.slots > 0 ? ordered_json(view.slots) : ordered_json();
  out["load_ms"] = view.load > 0 ? ordered_json(view.load * 1e3) : ordered_json();
  return out;
}

}  // namespace

Answer ListTenants(const Operations&, const Call& call) {
  std::vector<ordered_json> all;
  for (const TenantRuntime& tenant : call.runtime->tenants()) {
    ordered_json& out = all.emplace_back();
    out["path"] = tenant.path;
    out["name"] = tenant.config->name;
    out["parent"] = tenant.config->parent.empty() ? ordered_json() : ordered_json(tenant.config->parent);
    out["models"] = ModelNames(*call.runtime, tenant.models);
    out["endpoints"] = Families(tenant.apis);
    out["priority"] = tenant.config->priority;
    out["weight"] = tenant.config->weight;
    out["store_content"] = Name(tenant.config->store_content);
  }
  std::sort(all.begin(), all.end(),
            [](const ordered_json& a, const ordered_json& b) { return a["path"] < b["path"]; });
  return ListPage(all, "path", call);
}

// In USD, as in the configuration; null where there is none.
ordered_json PriceOf(const config::Price& price) {
  const auto usd = [](const std::optional<int64_t>& micro_usd) {
    return micro_usd ? ordered_json(conf::FormatMicroUsd(*micro_usd)) : ordered_json();
  };
  return {{"input", usd(price.input)},
          {"cached_input", usd(price.cached_input)},
          {"cache_write", usd(price.cache_write)},
          {"output", usd(price.output)},
          {"image", usd(price.image)},
          {"audio_second", usd(price.audio_second)},
          {"characters", usd(price.characters)}};
}

Answer ListModels(const Operations&, const Call& call) {
  std::vector<ordered_json> all;
  for (const config::Model& model : call.runtime->config().models) {
    ordered_json& out = all.emplace_back();
    out["name"] = model.name;
    out["aliases"] = model.aliases;
    out["routing"] = router::PolicyName(model.routing.policy);
    out["price"] = PriceOf(model.price);
    out["context"] = model.context ? ordered_json(*model.context) : ordered_json();
    out["max_output_tokens"] =
        model.max_output_tokens ? ordered_json(*model.max_output_tokens) : ordered_json();
    out["endpoints"] = ordered_json::array();
    for (const config::Endpoint& endpoint : model.endpoints) out["endpoints"].push_back(endpoint.name);
    out["lora"] = ordered_json();
    if (model.lora) out["lora"] = {{"base", model.lora->base}, {"adapter", model.lora->adapter}};
    out["fallbacks"] = ordered_json::array();
    for (const config::Fallback& fallback : model.fallbacks) out["fallbacks"].push_back(fallback.model);
  }
  return ListPage(all, "name", call);
}

Answer ListEndpoints(const Operations& operations, const Call& call) {
  std::vector<ordered_json> all;
  const std::string only = call.Query("model");
  const KvEventsStatus events = operations.kv_events();
  for (const router::Replica& replica : call.runtime->routes().replicas()) {
    const std::string& model = call.runtime->routes().model(replica.model).spec.name;
    if (!only.empty() && model != only) continue;
    const config::Endpoint& endpoint = *call.runtime->replica(replica.id).config;
    router::ReplicaState& state = call.runtime->load()[replica.id];
    ordered_json& out = all.emplace_back();
    out["id"] = replica.spec.identity;
    out["model"] = model;
    out["name"] = endpoint.name;
    out["url"] = ToString(endpoint.url);
    out["engine"] = config::Name(endpoint.engine);
    out["role"] = router::RoleName(endpoint.role);
    out["weight"] = endpoint.weight;
    out["endpoints"] = Families(endpoint.apis);
    out["health"] = router::HealthName(state.health.state());
    out["breaker"] = Name(state.breaker.phase(call.now));
    out["resting"] = state.breaker.IsResting(call.now);
    out["standing"] = router::OutlierStatus::NameOf(state.outlier.state());
    const std::string_view reason = router::WhyNotUsed(state, replica.spec.weight, call.now);
    out["unused_because"] = reason.empty() ? ordered_json() : ordered_json(reason);
    out["outstanding_requests"] = state.load.requests();
    out["outstanding_tokens"] = state.load.tokens();
    const auto told =
        std::ranges::find(events.replicas, replica.spec.identity, &KvEventsStatus::Replica::identity);
    out["adapters"] = AdaptersAt(call.runtime->routes(), replica, state, call.now);
    out["kv_events"] = told == events.replicas.end() ? ordered_json() : ordered_json(told->state);
  }
  return ListPage(all, "id", call);
}

Answer ListLimits(const Operations& operations, const Call& call) {
  std::string scope = call.Query("tenant");
  if (const TenantRuntime* tenant = call.runtime->FindTenant(scope)) scope = tenant->path;
  std::vector<ordered_json> all;
  for (const router::limits::LimitState& limit : operations.shared->limits.Snapshot(call.now)) {
    if (!scope.empty() && limit.scope != scope && !limit.scope.starts_with(scope + "/")) continue;
    ordered_json& out = all.emplace_back();
    out["id"] = limit.scope + "|" + std::string(limit.name) + "|" + limit.model +
                (limit.device.empty() ? "" : "|" + limit.device);
    out["scope"] = limit.scope;
    out["limit"] = limit.name;
    out["model"] = limit.model.empty() ? ordered_json() : ordered_json(limit.model);
    out["device"] = limit.device.empty() ? ordered_json() : ordered_json(limit.device);
    out["unit"] = limit.dimension == router::limits::Dimension::kBudget         ? "micro_usd"
                  : limit.dimension == router::limits::Dimension::kDeviceBudget ? "device_milliseconds"
                                                                                : "count";
    out["capacity"] = limit.capacity;
    out["share"] = limit.effective;
    out["used"] = limit.used;
    out["reserved"] = limit.reserved;
    out["remaining"] = std::max<int64_t>(limit.effective - limit.used, 0);
    out["refused_requests"] = limit.refusals;
    out["overrun"] = limit.overrun;
    out["period_start"] = limit.period ? ordered_json(conf::FormatTime(limit.period->start)) : ordered_json();
    out["period_end"] = limit.period ? ordered_json(conf::FormatTime(limit.period->end)) : ordered_json();
  }
  return ListPage(all, "id", call);
}

}  // namespace gateway::admin
