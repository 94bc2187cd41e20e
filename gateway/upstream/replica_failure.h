// A try at a replica that has failed: counted by how, and logged.
#pragma once

#include <string_view>

#include "router/attempt.h"

namespace gateway {

struct Exchange;

// `what` failed, for the log. Events that are no failure of a replica's change nothing but its count of tries
// that the client ended.
void NoteFailure(Exchange& x, router::ReplicaId replica, std::string_view what, const router::Event& event);

}  // namespace gateway
