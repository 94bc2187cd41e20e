// The id of a request: "req_" and 128 bits in hex. The first 48 bits are the time in milliseconds since 1970: the time
// shows where the request is in the ledger (request_places.h). The next 16 bits are the tag of the gateway that served
// the request, where several gateways share a store; elsewhere they are random. The last 64 bits are random, so that
// nobody can guess an id.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "conf/time.h"

namespace gateway::ledger {

inline constexpr size_t kRequestIdSize = 36;

// `high` gives 16 bits: a tag, or random ones; `low` gives 64 random bits.
void WriteRequestId(conf::TimePoint now, uint64_t high, uint64_t low, std::array<char, kRequestIdSize>& text);

// Milliseconds since 1970; none for a text of another form.
std::optional<int64_t> RequestMillis(std::string_view id);
// The 16 bits after the time; none for a text of another form. Of a request that a gateway of an earlier version, or
// one without a shared store, has served, they say nothing.
std::optional<uint16_t> RequestTag(std::string_view id);

// The tag of the gateway with that id (of its state folder). Two gateways may have the same one.
uint16_t TagOfGateway(std::string_view gateway_id);

}  // namespace gateway::ledger
