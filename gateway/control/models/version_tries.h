// Results of requests at the replicas of models whose new version is rolled out. Every gateway reports its own, so that
// the leader judges a version by the requests of all.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gateway/control/lead/gateway_record.h"
#include "gateway/control/models/rollouts.h"
#include "gateway/metrics/shard_metrics.h"
#include "gateway/shard/runtime.h"
#include "router/health/rollout_judgement.h"

namespace gateway::control {

TriesAt TriesOf(const ReplicaCells& cells);
void AddTo(TriesAt& sum, const TriesAt& more);
// Without feedback.
router::VersionSample SampleOf(const TriesAt& at);

// The results of this gateway, at the replicas in its routes. A model whose rollout runs is included even without
// replicas.
TriesByModel TriesHere(std::span<const ShardMetrics* const> shards, const Runtime& runtime,
                       const Rollouts& rollouts);

// Adds up the reports of other gateways. They count since their start, so only increases are added: results from before
// the first report of a model belong to no rollout that is judged here.
//
// Pure. One thread.
class TriesElsewhere {
 public:
  // A gateway's new record. A model that no gateway reports any more is forgotten.
  void Update(const GatewayRecord& record);
  // The gateway's record was removed.
  void Forget(std::string_view gateway);

  const TriesByModel& all() const { return added_; }

 private:
  struct Gateway {
    std::string start;
    TriesByModel tries;
  };

  std::map<std::string, Gateway, std::less<>> gateways_;
  TriesByModel added_;
};

}  // namespace gateway::control
