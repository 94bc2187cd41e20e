// Devices that a probe found cut into instances. The gateway neither makes nor removes instances, so such a
// device is given only by its instances, never whole nor in shares.
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "gateway/config/scaling.h"
#include "scheduler/work.h"

namespace gateway::config {

// The kinds of devices without instances; empty where no kind has any.
std::vector<std::string> UncutKinds(const Scaling& scaling);
// Likewise, of a cluster that was found: what has a layout there is cut.
std::vector<std::string> UncutKinds(const scheduler::Cluster& found);

// The problem of a request for a kind that is cut; empty: none.
std::string AsksForCut(const scheduler::DeviceAsk& ask, const std::vector<std::string>& uncut);

// Restricts whole devices and shares of any kind to kinds that are not cut.
void AskForUncut(scheduler::Ask& ask, const std::vector<std::string>& uncut);

}  // namespace gateway::config
