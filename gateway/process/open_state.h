// Opens the store of a state folder, for the process and for commands that run beside it.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/audit/all_usage.h"
#include "gateway/config/config.h"
#include "gateway/net/loop.h"
#include "gateway/store/postgres_store.h"
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

// The store that the configuration names: the file of its state_dir, or a PostgreSQL database, which is
// reached, and whose tables are made, before this returns. Several gateways may share that one; each sees its
// own positions, checkpoint and waiting events (store/gateway_view.h).
absl::StatusOr<std::unique_ptr<store::Store>> OpenState(net::Loop& loop, const Config& config,
                                                        bool keeps_room = false);

// As it is: with what belongs to each gateway, and nothing is taken over. `patience`: for one operation.
absl::StatusOr<std::unique_ptr<store::Store>> OpenBareState(net::Loop& loop, const Config& config,
                                                            std::optional<conf::Duration> patience = {});

// The gateway of a state folder, by which a shared store knows it; made once.
absl::StatusOr<std::string> GatewayId(const std::string& state_dir);

// Where a gateway finds the usage of the others of its store; nothing: it has its store to itself. `gateway` is left
// empty. The ledger must be there.
absl::StatusOr<std::optional<UsageOfOthers>> FindUsageOfOthers(const Config& config);

// How the database is reached. FailedPrecondition: the password is not set.
absl::StatusOr<store::PostgresStoreOptions> PostgresOptions(const config::State& state);

}  // namespace gateway
