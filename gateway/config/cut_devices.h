// Devices that a probe found cut into instances. The gateway neither makes instances nor undoes them, so such
// a device is given in those that it has, and never whole nor in shares.
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "gateway/config/scaling.h"
#include "scheduler/work.h"

namespace gateway::config {

// The kinds whose devices are not cut; empty where none is cut at all.
std::vector<std::string> UncutKinds(const Scaling& scaling);

// What is wrong with an ask for devices of a kind that is cut; empty: nothing.
std::string AsksForCut(const scheduler::DeviceAsk& ask, const std::vector<std::string>& uncut);

// Whole devices and shares of any kind are those of a kind that is not cut.
void AskForUncut(scheduler::Ask& ask, const std::vector<std::string>& uncut);

}  // namespace gateway::config
