// A snapshot as a file: what `tidegate policy replay` replays a decision from.
//
// One JSON object that begins with its format and version, one node or job a line. The round trip is exact:
// a snapshot that was read is dumped to the same bytes. Types, domains and kinds are named by their index, as
// in model.h; times are exact to the nanosecond.
#pragma once

#include <string>
#include <string_view>

#include "scheduler/io/loaded.h"
#include "scheduler/snapshot.h"

namespace scheduler::io {

inline constexpr std::string_view kSnapshotFormat = "tidegate-snapshot";
inline constexpr uint32_t kSnapshotFormatVersion = 1;

std::string WriteSnapshot(const Snapshot& snapshot);

// Refuses what cannot have been: another format or version, ids that point nowhere, a device held twice.
Loaded<Snapshot> ReadSnapshot(std::string_view text, const std::string& file);

}  // namespace scheduler::io
