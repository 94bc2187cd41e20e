// The keys of version 0.1: `keys.jsonl`, one event a line, numbered and checksummed, and `key_events.json`,
// the last event that its gateway had carried into the ledger.
#pragma once

#include <string>

#include "gateway/store/import.h"

namespace gateway {

store::Import KeysOfVersion01(const std::string& state_dir);

}  // namespace gateway
