// The files of version 0.1: jobs.jsonl, with a line for each change of a job, and replicas.json, with the
// runs and their devices. Read once, into records of the store.
//
// Blocks on the disk.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "gateway/store/store.h"
#include "scheduler/model.h"

namespace gateway::control {

inline constexpr char kLegacyJobs[] = "jobs.jsonl";
inline constexpr char kLegacyReplicas[] = "replicas.json";

// The records for the files of a folder; none where the files are missing. A last line of jobs.jsonl that was
// cut off was never acknowledged, and is skipped. DataLoss: any other damage; the message names the file and
// the line.
absl::StatusOr<std::vector<store::Write>> ReadLegacyFiles(const std::string& folder,
                                                          const scheduler::Cluster& cluster);

}  // namespace gateway::control
