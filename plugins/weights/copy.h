// Copies of files of this machine, with their hashes. Blocks.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "plugins/weights/download.h"

namespace plugins::weights {

// Continues what an earlier copy left, and returns the SHA-256 of the whole, which is on the disk then.
// ResourceExhausted: the disk is full.
absl::StatusOr<std::string> CopyHashed(const std::string& from, const std::string& to,
                                       const DownloadHooks& hooks);

// The hash of a file.
absl::StatusOr<std::string> HashFile(const std::string& path);

}  // namespace plugins::weights
