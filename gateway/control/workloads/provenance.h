// Provenance of a job: made at its submission, written beside it, and compared when the job is run again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/control/workloads/workload.h"

namespace gateway::control {

// The seed of a job whose file names none: made of its id, below 2^31.
uint64_t SeedOf(std::string_view id);

// `digest_of`: the digest of a data set by its name; empty: there is none. `configuration`: the hash of the
// gateway's configuration.
Provenance ProvenanceOf(const Submission& submission, std::string configuration,
                        const std::function<std::string(const std::string& data)>& digest_of);

std::string WriteProvenance(const Provenance& provenance);  // JSON
// Fields that an earlier version did not write are empty; the seed is then SeedOf(id).
Provenance ReadProvenance(std::string_view text, std::string_view id);

// The differences between a job and its new run, certain or possible, in sentences.
std::vector<std::string> Differences(const Submission& before, const Submission& now,
                                     const scheduler::Cluster& cluster,
                                     const std::vector<const Workload*>& earlier);

}  // namespace gateway::control
