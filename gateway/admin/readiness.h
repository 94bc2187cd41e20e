// Whether the process can take new work, and which parts are degraded. Control loop's thread; never waits.
#pragma once

#include "gateway/admin/answers/process.h"
#include "gateway/admin/operations.h"

namespace gateway::admin {

answers::Readiness Judge(const Operations& operations, conf::TimePoint now);

}  // namespace gateway::admin
