// What version 0.1 kept in files of its own: jobs.jsonl, with a line for what each job had become, and
// replicas.json, with the runs and what each was given. Read once, into records of the store.
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

// The records that the files of a folder stand for; none where there are no files. A last line of jobs.jsonl
// that was cut off was never acknowledged, and is passed over. DataLoss: other damage; the message names the
// file and the line.
absl::StatusOr<std::vector<store::Write>> ReadLegacyFiles(const std::string& folder,
                                                          const scheduler::Cluster& cluster);

}  // namespace gateway::control
