// Failure: why a request ends without the answer that it asked for: the error for the client, and the reason for
// the ledger.
#pragma once

#include "gateway/api/error.h"
#include "gateway/ledger/record.h"

namespace gateway {

struct Failure {
  api::ApiError error;
  ledger::EndReason reason = ledger::EndReason::kRefused;
};

}  // namespace gateway
