// Erasing what a tenant has stored: its keys are destroyed, and the ledger gets a record of it. For the admin
// API and the command. Blocks; any thread but a loop's.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string>

#include "conf/time.h"
#include "gateway/ledger/content_keys.h"
#include "gateway/ledger/ledger.h"

namespace gateway {

struct ErasureRequest {
  std::string tenant;  // path; the tenants below it, too
  std::string actor;
  std::string reason;
};

// {"tenant", "at", "erased": [{"tenant", "key"}]}. NotFound: no such tenant has a key. After Unavailable the
// keys are destroyed, and the ledger does not have it; the file of keys does.
absl::StatusOr<nlohmann::ordered_json> EraseContent(ledger::ContentKeys& keys, ledger::Ledger& ledger,
                                                    const ErasureRequest& request, conf::TimePoint now);

}  // namespace gateway
