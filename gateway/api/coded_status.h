// A status that knows its stable error code, for failures below the admin API whose kind alone does not tell
// it: a full queue differs from a ledger that cannot write.
//
// Pure.
#pragma once

#include <absl/status/status.h>

#include <optional>

#include "gateway/api/error.h"

namespace gateway::api {

// The same status with the code; an Ok status stays as it is.
absl::Status WithCode(absl::Status status, Code code);

// Nothing where no code was given.
std::optional<Code> CodeOf(const absl::Status& status);

}  // namespace gateway::api
