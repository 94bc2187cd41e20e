// A tenant as the admin API shows it. Pure; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "gateway/admin/answers/inventory.h"
#include "gateway/admin/route.h"
#include "gateway/people/project.h"
#include "gateway/shard/runtime.h"

namespace gateway::admin {

// As the caller sees it. `project`: what it was made of; null: it is configured.
answers::Tenant RowOf(const Call& call, const Runtime& runtime, const TenantRuntime& tenant,
                      const Project* project);
// One that is not in force: its parent is gone, or the configuration has a tenant at its path.
answers::Tenant RowOf(const Call& call, const Project& project);

// By name.
std::vector<std::string_view> Families(config::ApiSet apis);

}  // namespace gateway::admin
