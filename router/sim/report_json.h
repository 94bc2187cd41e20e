// A report as JSON: times in seconds, ratios from 0 to 1.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "router/sim/report.h"

namespace router::sim {

nlohmann::ordered_json AsJson(const Report& report);

}  // namespace router::sim
