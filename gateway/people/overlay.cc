#include "gateway/people/overlay.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/people/key_limits.h"

namespace gateway {
namespace {

namespace limits = router::limits;

config::Period PeriodOf(limits::Period period) {
  switch (period) {
    case limits::Period::kDay:
      return config::Period::kDay;
    case limits::Period::kWeek:
      return config::Period::kWeek;
    case limits::Period::kMonth:
      return config::Period::kMonth;
  }
  return config::Period::kMonth;
}

template <class L>
auto RateOf(L& of, limits::Dimension dimension) -> decltype(&of.requests_per_minute) {
  switch (dimension) {
    case limits::Dimension::kRequests:
      return &of.requests_per_minute;
    case limits::Dimension::kTokens:
      return &of.tokens_per_minute;
    case limits::Dimension::kInputTokens:
      return &of.input_tokens_per_minute;
    case limits::Dimension::kOutputTokens:
      return &of.output_tokens_per_minute;
    default:
      return nullptr;
  }
}

// Over all models, of that period or (`longer`) of a longer one.
bool IsBudgetOf(const config::Budget& budget, const limits::LimitSpec& limit, bool longer) {
  if (!budget.model.empty() || !budget.device.empty()) return false;
  const config::Period period = PeriodOf(limit.period);
  if (longer ? budget.period < period : budget.period != period) return false;
  return limit.dimension == limits::Dimension::kBudget ? budget.micro_usd.has_value()
                                                       : budget.tokens.has_value();
}

int64_t AmountOf(const config::Budget& budget, const limits::LimitSpec& limit) {
  return limit.dimension == limits::Dimension::kBudget ? *budget.micro_usd
                                                       : static_cast<int64_t>(*budget.tokens);
}

bool IsBudget(const limits::LimitSpec& limit) {
  return limit.dimension == limits::Dimension::kBudget || limit.dimension == limits::Dimension::kTokenBudget;
}

std::optional<int64_t> AmountOf(const config::Tenant& tenant, const limits::LimitSpec& limit, bool longer) {
  std::optional<int64_t> least;
  const auto take = [&](int64_t amount) { least = least ? std::min(*least, amount) : amount; };
  if (IsBudget(limit)) {
    for (const config::Budget& budget : tenant.budgets) {
      if (IsBudgetOf(budget, limit, longer)) take(AmountOf(budget, limit));
    }
  } else if (limit.dimension == limits::Dimension::kConcurrency) {
    if (tenant.limits.concurrency) take(*tenant.limits.concurrency);
  } else if (const auto* const rate = RateOf(tenant.limits, limit.dimension); rate != nullptr && *rate) {
    take(static_cast<int64_t>(**rate));
  }
  return least;
}

void SetLimit(config::Tenant& tenant, const limits::LimitSpec& limit) {
  if (IsBudget(limit)) {
    config::Budget& budget = tenant.budgets.emplace_back();
    budget.period = PeriodOf(limit.period);
    if (limit.dimension == limits::Dimension::kBudget) {
      budget.micro_usd = limit.capacity;
    } else {
      budget.tokens = static_cast<uint64_t>(limit.capacity);
    }
  } else if (limit.dimension == limits::Dimension::kConcurrency) {
    tenant.limits.concurrency = static_cast<uint32_t>(std::min<int64_t>(limit.capacity, UINT32_MAX));
  } else if (auto* const rate = RateOf(tenant.limits, limit.dimension)) {
    *rate = static_cast<uint64_t>(limit.capacity);
  }
}

void RaiseLimit(config::Tenant& tenant, const limits::LimitSpec& limit) {
  const std::optional<int64_t> has = AmountOf(tenant, limit, false);
  if (!has || *has >= limit.capacity) return;
  if (!IsBudget(limit)) return SetLimit(tenant, limit);
  for (config::Budget& budget : tenant.budgets) {
    if (!IsBudgetOf(budget, limit, false)) continue;
    if (limit.dimension == limits::Dimension::kBudget) {
      budget.micro_usd = limit.capacity;
    } else {
      budget.tokens = static_cast<uint64_t>(limit.capacity);
    }
  }
}

config::Tenant TenantOf(const Project& project, const config::Tenant& parent) {
  config::Tenant tenant;
  tenant.name = project.name();
  tenant.parent = project.parent();
  tenant.at_run_time = true;
  tenant.disabled = project.disabled;
  tenant.models = project.models;
  tenant.weight = std::min(project.weight, parent.weight);
  tenant.priority = parent.priority;
  tenant.store_content = parent.store_content;
  if (project.limits.empty()) return tenant;
  // They were checked when they were set. A store that was edited by hand fails closed.
  const auto own = ParseKeyLimits(project.limits);
  if (!own.ok()) {
    tenant.disabled = true;
    return tenant;
  }
  for (const limits::LimitSpec& limit : *own) SetLimit(tenant, limit);
  return tenant;
}

using Places = absl::flat_hash_map<std::string, size_t>;

Places PlacesOf(const std::vector<config::Tenant>& tenants) {
  Places places;
  places.reserve(tenants.size());
  for (size_t i = 0; i < tenants.size(); ++i) places.emplace(PathOf(tenants, tenants[i]), i);
  return places;
}

}  // namespace

std::vector<config::Tenant> WithProjects(std::vector<config::Tenant> configured,
                                         std::span<const Project> projects) {
  std::vector<config::Tenant> tenants = std::move(configured);
  Places places = PlacesOf(tenants);
  std::vector<const Project*> in_order;
  in_order.reserve(projects.size());
  for (const Project& project : projects) in_order.push_back(&project);
  // A path is longer than that of its parent.
  std::ranges::sort(in_order, [](const Project* a, const Project* b) {
    return std::pair(a->path.size(), a->path) < std::pair(b->path.size(), b->path);
  });
  for (const Project* const project : in_order) {
    const auto parent = places.find(conf::Abseil(project->parent()));
    if (parent == places.end() || places.contains(project->path)) continue;
    config::Tenant tenant = TenantOf(*project, tenants[parent->second]);
    places.emplace(project->path, tenants.size());
    tenants.push_back(std::move(tenant));
  }
  return tenants;
}

void AddGrants(std::vector<config::Tenant>& tenants, std::span<const TenantGrant> grants,
               conf::TimePoint now) {
  if (grants.empty()) return;
  const Places places = PlacesOf(tenants);
  for (const TenantGrant& grant : grants) {
    const auto at = places.find(grant.tenant);
    if (at == places.end() || !grant.InForce(now)) continue;
    config::Tenant& tenant = tenants[at->second];
    if (tenant.models)
      tenant.models->insert(tenant.models->end(), grant.gives.models.begin(), grant.gives.models.end());
    if (grant.gives.weight) tenant.weight = std::max(tenant.weight, *grant.gives.weight);
    if (grant.gives.limits.empty()) continue;
    if (const auto raised = ParseKeyLimits(grant.gives.limits); raised.ok()) {
      for (const limits::LimitSpec& limit : *raised) RaiseLimit(tenant, limit);
    }
  }
}

const config::Tenant* TenantAt(const std::vector<config::Tenant>& tenants, std::string_view path) {
  for (const config::Tenant& tenant : tenants) {
    if (path.ends_with(tenant.name) && PathOf(tenants, tenant) == path) return &tenant;
  }
  return nullptr;
}

std::optional<int64_t> LimitOf(const config::Tenant& tenant, const limits::LimitSpec& limit) {
  return AmountOf(tenant, limit, false);
}

std::optional<int64_t> MostOf(const std::vector<config::Tenant>& tenants, std::string_view path,
                              const limits::LimitSpec& limit) {
  std::optional<int64_t> most;
  for (; !path.empty(); path = limits::ParentPath(path)) {
    const config::Tenant* const tenant = TenantAt(tenants, path);
    const std::optional<int64_t> amount =
        tenant == nullptr ? std::nullopt : AmountOf(*tenant, limit, IsBudget(limit));
    if (amount) most = most ? std::min(*most, *amount) : *amount;
  }
  return most;
}

}  // namespace gateway
