// Whether two actors of the ledger are one human, who signed in at a provider and came with a token of the same
// issuer. Pure; any thread.
#pragma once

#include <string_view>

#include "gateway/config/config.h"

namespace gateway {

// `person:PROVIDER:SUBJECT` and `jwt:ISSUER:SUBJECT`, as `Person::id` and callers with tokens have them.
bool IsSamePerson(const Config& config, std::string_view actor, std::string_view other);

}  // namespace gateway
