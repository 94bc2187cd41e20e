// Opens the store of a state folder, for the process and for commands that run beside it.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "gateway/net/loop.h"
#include "gateway/store/store.h"

namespace gateway {

// The file or folder that shows that a gateway has kept a store in this state folder; empty: nothing does,
// and a store may begin here.
std::string TraceOfStore(const std::string& state_dir);

// The files of state_dir, relative to it, in which versions without a store kept keys, positions and workloads.
std::vector<std::string> FilesBeforeStore(const std::string& state_dir);

// Makes the folder and the store when they are missing, and takes over what an earlier version left there.
// Blocks; before anything is served, and before the ledger is made. DataLoss: the store is damaged, or it is
// gone and something else shows that there was one; nothing has been changed, and the message says what
// rebuilds it. `keeps_room`: the store can still be changed on a full disk, for a while.
absl::StatusOr<std::unique_ptr<store::Store>> OpenState(net::Loop& loop, const std::string& state_dir,
                                                        bool keeps_room = false);

}  // namespace gateway
