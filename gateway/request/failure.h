// Failure: why a request ends without the answer that it asked for: what the client is told, and what the
// ledger records.
#pragma once

#include "gateway/api/error.h"
#include "gateway/ledger/record.h"

namespace gateway {

struct Failure {
  api::ApiError error;
  ledger::EndReason reason = ledger::EndReason::kRefused;
};

}  // namespace gateway
