// Whether a rule of the configuration approves a request by itself. Pure; any thread.
#pragma once

#include "conf/time.h"
#include "gateway/config/config.h"
#include "gateway/people/grant.h"

namespace gateway {

// The first rule that approves all that is asked for; null when none does.
const config::ApprovalRule* RuleFor(const Config& config, const GrantRequest& request, conf::TimePoint now);

}  // namespace gateway
