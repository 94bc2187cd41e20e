// A trace's file as calls.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "router/sim/traffic.h"

namespace bench {

using router::sim::Call;
using router::sim::TrafficFormat;
using router::sim::TrafficWindow;

// The calls that begin in the window. InvalidArgument names the first line that cannot be read.
absl::StatusOr<std::vector<Call>> ReadTrafficFile(const std::string& path, TrafficFormat format,
                                                  const TrafficWindow& window);

}  // namespace bench
