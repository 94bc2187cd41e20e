// What the running configuration means for the next one: the sections that a reload cannot change, and the copy
// of the file that was applied last.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "gateway/config/config.h"

namespace gateway {

// FailedPrecondition names the sections that differ and are fixed while the process runs: listeners, files and
// connections made at start, and the contents of the files of planner and cluster.
absl::Status CheckUnchanged(const Config& running, const Config& wanted);

// The copy of the file that was applied last.
std::string AppliedConfigPath(const std::string& state_dir);

// Keeps a copy of the file that was applied last, so that operators know the running configuration when the
// file is no longer valid.
// Blocks.
void KeepLastKnownGood(const std::string& from, const std::string& state_dir);

}  // namespace gateway
