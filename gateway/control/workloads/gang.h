// The rank of a run among the members of its workload, and the environment that tells the run about it.
//
// Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/control/workloads/workload.h"
#include "plugins/launchers/launcher.h"
#include "scheduler/model.h"

namespace gateway::control {

// The rendezvous of the members: a port on the leader's node, another one for each attempt.
uint16_t MeetingPort(std::string_view workload, uint32_t attempt);

plugins::launchers::Gang GangOf(const Workload& workload, uint32_t rank,
                                const plugins::launchers::Launcher& launcher,
                                const scheduler::Cluster& cluster);

// Adds the gang to a run and to its environment, as torchrun and compatible frameworks expect it.
void JoinGang(plugins::launchers::RunSpec& spec, plugins::launchers::Gang gang);

}  // namespace gateway::control
