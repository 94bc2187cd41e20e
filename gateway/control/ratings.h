// Ratings: what callers' feedback says of the answers of a model's replicas, for the judgement of a rollout.
//
// Blocks; any thread.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "conf/time.h"
#include "router/health/rollout_judgement.h"

namespace gateway::control {

using RatingsByReplica = std::map<std::string, router::Ratings, std::less<>>;

// The true and false feedback of that name on the answers of each replica of the model since then, by this gateway's ledger. Empty where the
// ledger's index cannot be read; the log says so.
RatingsByReplica RatingsOf(const std::string& ledger_dir, const std::string& model, const std::string& name,
                           conf::TimePoint since);

}  // namespace gateway::control
