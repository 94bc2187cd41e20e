#include "gateway/control/models/ratings.h"

#include <vector>

#include "conf/text.h"
#include "gateway/audit/feedback_usage.h"
#include "gateway/log.h"

namespace gateway::control {

RatingsByReplica RatingsOf(const std::string& ledger_dir, const std::optional<UsageOfOthers>& others,
                           const std::string& model, const std::string& name, conf::TimePoint since) {
  RatingsByReplica ratings;
  const absl::StatusOr<AllFeedback> feedback = QueryFeedback(ledger_dir,
                                                             {.by = {ledger::FeedbackBy::kReplica},
                                                              .since_us = conf::ToUnixMicros(since),
                                                              .tenant = {},
                                                              .model = model},
                                                             others);
  if (!feedback.ok()) {
    log::Warn("a rollout is judged without feedback for now",
              {{"model", model}, {"why", conf::Std(feedback.status().message())}});
    return ratings;
  }
  for (const ledger::FeedbackSum& sum : feedback->sums) {
    if (sum.name != name || sum.type != ledger::FeedbackType::kBoolean) continue;
    router::Ratings& of = ratings[sum.group.front()];
    of.count += static_cast<uint64_t>(sum.count);
    of.positive += static_cast<uint64_t>(sum.positive);
  }
  return ratings;
}

}  // namespace gateway::control
