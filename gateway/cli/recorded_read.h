// The record that a command leaves when it reads the ledger's files: through the store, from which the
// gateway carries it into the ledger. Reading the files without a command leaves none.
#pragma once

#include <absl/status/status.h>

#include "gateway/config/config.h"
#include "gateway/ledger/record.h"

namespace gateway::cli {

// Stores the event. Ok where there is no store: no gateway has worked there. Blocks.
absl::Status RecordRead(const Config& config, ledger::Event event);

}  // namespace gateway::cli
