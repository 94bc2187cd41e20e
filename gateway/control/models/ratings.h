// Ratings: the feedback of callers on the answers of a model's replicas, for the judgement of a rollout.
//
// Blocks; any thread.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "conf/time.h"
#include "gateway/audit/all_usage.h"
#include "router/health/rollout_judgement.h"

namespace gateway::control {

using RatingsByReplica = std::map<std::string, router::Ratings, std::less<>>;

// The true and false feedback of that name on the answers of each replica of the model since then: from this gateway's
// ledger, and from the reports of others, which count whole hours. Empty where it cannot be read; then the log says
// so.
RatingsByReplica RatingsOf(const std::string& ledger_dir, const std::optional<UsageOfOthers>& others,
                           const std::string& model, const std::string& name, conf::TimePoint since);

}  // namespace gateway::control
