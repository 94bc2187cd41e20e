// The state of the whole in one object, as its caller may see it: models and jobs of the caller's tenants, and of
// others only the sum of their devices. Control loop's thread.
#pragma once

#include "gateway/admin/answers/overview.h"
#include "gateway/admin/route.h"

namespace gateway::admin {

answers::Overview OverviewOf(const Operations& operations, const Call& call);

}  // namespace gateway::admin
