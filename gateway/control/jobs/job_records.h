// What the ledger's records of a job say in their detail, as JSON.
#pragma once

#include <string>

#include "conf/time.h"
#include "gateway/control/workloads/workload.h"
#include "scheduler/model.h"

namespace gateway::control {

// With the job file, so that the ledger alone shows what was submitted; a file that is too large is left out.
std::string DetailOfSubmission(const Submission& submission, size_t jobs);

// For a job that starts, saves or moves.
std::string DetailOfStep(const Workload& job, const scheduler::Cluster& cluster);

// For a job whose runs have ended, with the time for which it held its devices. `now` counts as the end where the
// launcher knows none.
std::string DetailOfEnd(const Workload& job, const scheduler::Cluster& cluster, conf::TimePoint now);

}  // namespace gateway::control
