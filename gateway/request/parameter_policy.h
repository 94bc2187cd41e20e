// The policies of a request's tenant and model on the members of its body: what is denied is refused, what is
// forced is written into the body.
//
// Costs nothing where no policy applies. Thread: the shard's.
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

// What a policy refuses. `scanner` has scanned `body` last.
std::optional<api::ApiError> CheckParameters(const router::FactsScanner& scanner, std::string_view body,
                                             Policies policies);

// The body with what the policies force; of two that force one member the first counts. Nothing where none
// forces anything.
std::optional<std::string> ForceParameters(const router::FactsScanner& scanner, std::string_view body,
                                           size_t insert_at, Policies policies);

// Whether the text of a URL in a prompt may be fetched by an engine. Data URLs and texts that are no URLs
// always may. Of others whose form readers could take for another host none may.
bool MayFetch(std::string_view url, const config::Parameters& policy);

}  // namespace gateway
