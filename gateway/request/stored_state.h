// Members of a request of the Responses API that name state which engines and providers keep. They give it to
// any caller that knows its id, and the gateway cannot tell which tenant it belongs to.
//
// Thread: the shard's.
#pragma once

#include <optional>
#include <string_view>

#include "router/facts/body_facts.h"

namespace gateway {

// The first member that names a conversation, an item, a prompt or a file by its id; nothing where there is
// none. `previous_response_id` is not among them: its owner is known. `scanner` has scanned `body` last.
std::optional<std::string_view> NamesStoredState(const router::FactsScanner& scanner, std::string_view body);

}  // namespace gateway
