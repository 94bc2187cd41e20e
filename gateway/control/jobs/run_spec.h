// What a launcher is asked to run for a job: one run for each member, with the gang's place in its
// environment, as torchrun and the frameworks after it expect it.
//
// Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "conf/sources.h"
#include "gateway/control/jobs/job.h"
#include "plugins/launchers/launcher.h"
#include "scheduler/model.h"

namespace gateway::control {

// Where members meet: rank 0's node, and a port of it that no other job that runs was told.
struct Meeting {
  std::string address;
  uint16_t port = 0;
};

// A port for the attempt of a job: another one at its next attempt.
uint16_t MeetingPort(std::string_view job, uint32_t attempt);

// Secrets are looked up anew at each start; an error names the one that is missing.
absl::StatusOr<plugins::launchers::RunSpec> SpecOf(const Job& job, uint32_t rank, const Meeting& meeting,
                                                   const scheduler::Cluster& cluster,
                                                   const conf::Sources& sources);

}  // namespace gateway::control
