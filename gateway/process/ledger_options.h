// How the configuration asks for the ledger: for the process, and for commands that write it in its stead.
#pragma once

#include <cstdint>

#include "gateway/config/config.h"
#include "gateway/ledger/content_keys.h"
#include "gateway/ledger/ledger.h"

namespace gateway {

// Threads that serve requests.
uint32_t ShardsOf(const Config& config);

ledger::Options LedgerOptions(const Config& config);
ledger::ContentKeys::Options ContentKeyOptions(const Config& config);

}  // namespace gateway
