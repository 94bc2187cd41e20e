// Applies the policies of a request's tenant and model to the members of its body: refuses denied members, and
// writes forced ones into the body.
//
// Costs nothing if no policy applies. Thread: the shard's.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gateway/api/error.h"
#include "gateway/config/parameters.h"
#include "router/facts/body_facts.h"

namespace gateway {

using Policies = std::span<const config::Parameters* const>;

// The first refusal by a policy. The last body that `scanner` scanned must be `body`.
std::optional<api::ApiError> CheckParameters(const router::FactsScanner& scanner, std::string_view body,
                                             Policies policies);

// The body with what the policies force; the first policy that forces a member decides its value. Nothing if no
// policy forces anything.
std::optional<std::string> ForceParameters(const router::FactsScanner& scanner, std::string_view body,
                                           size_t insert_at, Policies policies);

// Whether an engine may fetch the URL in a prompt. Data URLs, and texts that are not URLs, are always allowed. A
// URL is refused if different parsers could read different hosts from it.
bool MayFetch(std::string_view url, const config::Parameters& policy);

}  // namespace gateway
