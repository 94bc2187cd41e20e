// The configured tenants, models, endpoints and limits, with their state.
#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "conf/reader.h"
#include "conf/words.h"
#include "gateway/admin/answers/inventory.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/admin/shown_orders.h"
#include "gateway/admin/tenant_row.h"

namespace gateway::admin {
namespace {

constexpr conf::Word<router::Breaker::Phase> kBreakerPhases[] = {
    {"closed", router::Breaker::Phase::kClosed},
    {"open", router::Breaker::Phase::kOpen},
    {"half_open", router::Breaker::Phase::kHalfOpen}};

std::string_view PhaseName(router::Breaker::Phase phase) {
  return conf::WordOf(kBreakerPhases, phase);
}

// Nothing where no adapter can be.
std::optional<answers::Adapters> AdaptersAt(const router::RouteTable& routes, const router::Replica& replica,
                                            const router::ReplicaState& state, conf::TimePoint now) {
  std::vector<std::pair<router::AdapterId, std::string_view>> known;
  for (const router::Model& model : routes.models()) {
    if (model.served_by == replica.model && model.adapter != router::AdapterId::kNone)
      known.emplace_back(model.adapter, model.spec.adapter);
  }
  const router::AdapterSlots::Contents view = state.adapters.ReadContents(now);
  if (known.empty() && view.slots == 0) return std::nullopt;
  answers::Adapters out;
  const auto names = [&](const std::vector<router::AdapterId>& ids) {
    std::vector<std::string> named;
    for (const router::AdapterId id : ids) {
      const auto found = std::ranges::find(known, id, &std::pair<router::AdapterId, std::string_view>::first);
      found == known.end() ? void(++out.others) : void(named.emplace_back(found->second));
    }
    return named;
  };
  out.loaded = names(view.loaded);
  out.loading = names(view.loading);
  out.lacking = names(view.missing);
  if (view.slots > 0) out.slots = view.slots;
  if (view.load > 0) out.load_ms = view.load * 1e3;
  return out;
}

answers::Price PriceOf(const config::Price& price) {
  const auto usd = [](const std::optional<int64_t>& micro_usd) {
    return micro_usd ? std::optional(conf::FormatMicroUsd(*micro_usd)) : std::nullopt;
  };
  return {usd(price.input), usd(price.cached_input), usd(price.cache_write), usd(price.output),
          usd(price.image), usd(price.audio_second), usd(price.characters)};
}

void AddDiscovered(const Runtime& runtime, const std::string& model, std::vector<std::string>& names) {
  const std::optional<ModelId> id = runtime.routes().Find(model);
  if (!id) return;
  for (const router::Replica& replica : runtime.routes().replicas(*id)) {
    const config::Endpoint& endpoint = *runtime.replica(replica.id).config;
    if (!endpoint.source.empty()) names.push_back(endpoint.name);
  }
}

}  // namespace

Answer ListTenants(const Operations& operations, const Call& call) {
  std::vector<answers::Tenant> all;
  absl::flat_hash_set<std::string> in_force;
  for (const TenantRuntime& tenant : call.runtime->tenants()) {
    in_force.insert(tenant.path);
    if (!call.May(Permission::kSeeTenants, tenant.path)) continue;
    const bool made = tenant.config->at_run_time && operations.projects != nullptr;
    all.push_back(
        RowOf(call, *call.runtime, tenant, made ? operations.projects->Find(tenant.path) : nullptr));
  }
  for (const Project& project :
       operations.projects == nullptr ? std::vector<Project>() : operations.projects->List()) {
    if (!in_force.contains(project.path) && call.May(Permission::kSeeTenants, project.path))
      all.push_back(RowOf(call, project));
  }
  std::ranges::sort(all, {}, &answers::Tenant::path);
  return ListPage(std::move(all), &answers::Tenant::path, call);
}

Answer ListModels(const Operations& operations, const Call& call) {
  std::vector<answers::Model> all;
  const VisibleModels visible(call);
  for (const config::Model& model : call.runtime->config().models) {
    if (!visible.Has(model.name)) continue;
    answers::Model& out = all.emplace_back();
    out.name = model.name;
    out.aliases = model.aliases;
    out.routing = router::PolicyName(model.routing.policy);
    out.price = PriceOf(model.price);
    if (model.batch_price) out.batch_price = PriceOf(*model.batch_price);
    out.context = model.context;
    out.max_output_tokens = model.max_output_tokens;
    for (const config::Endpoint& endpoint : model.endpoints) {
      if (!endpoint.discovery) out.endpoints.push_back(endpoint.name);
    }
    if (config::DiscoversEndpoints(model)) AddDiscovered(*call.runtime, model.name, out.endpoints);
    if (model.lora) out.lora = {model.lora->base, model.lora->adapter};
    for (const config::Fallback& fallback : model.fallbacks) out.fallbacks.push_back(fallback.model);
    out.paused = ShownPause(operations, model.name);
    out.held = ShownHold(operations, model.name, call.now);
    out.loads_adapters = model.adapters.has_value();
  }
  return ListPage(std::move(all), &answers::Model::name, call);
}

Answer ListEndpoints(const Operations& operations, const Call& call) {
  std::vector<answers::Endpoint> all;
  const std::string only = call.Query("model");
  const KvEventsStatus events = operations.kv_events();
  for (const router::Replica& replica : call.runtime->routes().replicas()) {
    const std::string& model = call.runtime->routes().model(replica.model).spec.name;
    if (!only.empty() && model != only) continue;
    const config::Endpoint& endpoint = *call.runtime->replica(replica.id).config;
    router::ReplicaState& state = call.runtime->load()[replica.id];
    answers::Endpoint& out = all.emplace_back();
    out.id = replica.spec.identity;
    out.model = model;
    out.name = endpoint.name;
    out.url = ToString(endpoint.url);
    out.source = answers::TextOrNull(endpoint.source);
    out.engine = config::Name(endpoint.engine);
    out.role = router::RoleName(endpoint.role);
    out.weight = endpoint.weight;
    out.endpoints = Families(endpoint.apis);
    out.health = router::HealthName(state.health.state());
    out.breaker = PhaseName(state.breaker.phase(call.now));
    out.resting = state.breaker.IsResting(call.now);
    out.standing = router::OutlierStatus::NameOf(state.outlier.state());
    out.unused_because = answers::TextOrNull(router::WhyNotUsed(state, replica.spec.weight, call.now));
    out.outstanding_requests = state.load.requests();
    out.outstanding_tokens = state.load.tokens();
    out.adapters = AdaptersAt(call.runtime->routes(), replica, state, call.now);
    const auto told =
        std::ranges::find(events.replicas, replica.spec.identity, &KvEventsStatus::Followed::identity);
    if (told != events.replicas.end()) out.kv_events = told->state;
  }
  return ListPage(std::move(all), &answers::Endpoint::id, call);
}

Answer ListLimits(const Operations& operations, const Call& call) {
  const std::string scope = PathOfTenant(call, call.Query("tenant"));
  std::vector<answers::Limit> all;
  for (const router::limits::LimitState& limit : operations.shared->limits.Snapshot(call.now)) {
    if (!IsWithin(limit.scope, scope) || !call.May(Permission::kSeeLimits, limit.scope)) continue;
    answers::Limit& out = all.emplace_back();
    out.id = limit.scope + "|" + std::string(limit.name) + "|" + limit.model +
             (limit.device.empty() ? "" : "|" + limit.device);
    out.scope = limit.scope;
    out.limit = limit.name;
    out.model = answers::TextOrNull(limit.model);
    out.device = answers::TextOrNull(limit.device);
    out.unit = limit.dimension == router::limits::Dimension::kBudget         ? "micro_usd"
               : limit.dimension == router::limits::Dimension::kDeviceBudget ? "device_milliseconds"
                                                                             : "count";
    out.capacity = limit.capacity;
    out.share = limit.effective;
    out.used = limit.used;
    out.reserved = limit.reserved;
    out.remaining = std::max<int64_t>(limit.effective - limit.used, 0);
    out.refused_requests = limit.refusals;
    out.overrun = limit.overrun;
    if (const auto rate = operations.budget_watch == nullptr
                              ? std::nullopt
                              : operations.budget_watch->RateOf(limit, call.now)) {
      out.per_hour = rate->per_hour;
      out.used_up = answers::TimeOrNull(rate->used_up);
    }
    if (limit.period) {
      out.period_start = {limit.period->start};
      out.period_end = {limit.period->end};
      out.thresholds = call.runtime->config().people.budget_thresholds;
    }
  }
  return ListPage(std::move(all), &answers::Limit::id, call);
}

}  // namespace gateway::admin
