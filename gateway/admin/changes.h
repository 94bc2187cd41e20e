// What calls that change stored objects share: nothing is changed that could not be recorded, and what the store
// says becomes an answer. Control loop's thread.
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <string>

#include "gateway/admin/route.h"

namespace gateway::admin {

// The refusal while the ledger cannot record a change.
std::optional<Answer> RefuseUnrecorded(const Operations& operations, const Call& call);

// Of the store, or of what was asked for.
Answer RefuseChange(const absl::Status& why, const Call& call);

// An action on an object in the path, as in `/admin/v1/grants/{id}:end`, that the caller may not see or not change.
Answer RefuseUnknown(std::string_view what, const Call& call);

}  // namespace gateway::admin
