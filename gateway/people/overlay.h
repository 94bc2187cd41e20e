// What is in force of tenants: the configured ones, those made at run time below them, and the grants of this
// moment over all. Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/config/tenant.h"
#include "gateway/people/grant.h"
#include "gateway/people/project.h"
#include "router/limits/spec.h"

namespace gateway {

// The configured tenants, and after them the projects, parents before children. One whose parent does not exist is
// left out, and so is one at whose path the configuration has a tenant: the configuration wins.
std::vector<config::Tenant> WithProjects(std::vector<config::Tenant> configured,
                                         std::span<const Project> projects);

// Adds what the grants give at that moment. A grant only adds: models to a list, and amounts that are higher than
// those in force; of two grants the higher one counts. An amount that the tenant has no limit of stays unlimited.
void AddGrants(std::vector<config::Tenant>& tenants, std::span<const TenantGrant> grants,
               conf::TimePoint now);

// The tenant at that path; null when there is none.
const config::Tenant* TenantAt(const std::vector<config::Tenant>& tenants, std::string_view path);

// What the tenant itself has of that limit; nothing: it has no such limit.
std::optional<int64_t> LimitOf(const config::Tenant& tenant, const router::limits::LimitSpec& limit);

// The least that the tenant at that path, or one above it, allows of that limit; nothing: no limit. A budget counts
// that is for all models, and for a period as long or longer.
std::optional<int64_t> MostOf(const std::vector<config::Tenant>& tenants, std::string_view path,
                              const router::limits::LimitSpec& limit);

}  // namespace gateway
