// Finds members of a request that name state stored by engines and providers. They give such state to any caller that
// knows its id, and the gateway cannot tell which tenant owns it.
//
// Thread: the shard's.
#pragma once

#include <optional>
#include <string_view>

#include "router/facts/body_facts.h"

namespace gateway {

// In Responses: the first member that names a conversation, an item, a prompt or a file by its id; nothing if none
// does. Ignores `previous_response_id`, whose owner is known. The last body that `scanner` scanned must be `body`.
std::optional<std::string_view> NamesStoredState(const router::FactsScanner& scanner, std::string_view body);

// In Responses: whether the answer is to be generated in the background, and stored until it is asked for.
bool RunsInBackground(const router::FactsScanner& scanner, std::string_view body);

// In Messages: whether the conversation is to be stored, or a stored one continued.
bool NamesThread(const router::FactsScanner& scanner, std::string_view body);

// In chat and Messages: the first member that names a file, a sound or a container by its id; likewise. Ignores what
// tools were called with.
std::optional<std::string_view> NamesStoredContent(const router::FactsScanner& scanner,
                                                   std::string_view body);

}  // namespace gateway
