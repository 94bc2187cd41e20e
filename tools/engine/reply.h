// Answers that are not a model's: JSON bodies, errors, and no answer at all. The client's side of an
// exchange.
#pragma once

#include <string>

#include "gateway/net/http/server.h"
#include "tools/engine/api.h"
#include "tools/engine/stats.h"

namespace tidegate_engine {

using gateway::net::Task;
using gateway::net::http::Exchange;

// Answers 200 with JSON. False when the client has left.
Task<bool> Reply(Exchange& exchange, std::string body);
// Answers with an error in the API's form, and counts it where the API runs a model.
Task<bool> Fail(Exchange& exchange, Stats& stats, Api api, ApiError error);
// Answers nothing until the client leaves; the connection ends then.
Task<void> AwaitLeaving(Exchange& exchange, Stats& stats);

}  // namespace tidegate_engine
