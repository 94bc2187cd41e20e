#include "gateway/control/models/version_tries.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace gateway::control {
namespace {

constexpr double kMillionth = 1e-6;
const double kMicrosInLog = std::log(1e6);  // the cells count logarithms of microseconds

TimesAt TimesOf(const LogCells& cells) {
  return {
      .count = cells.count.value(), .sum = cells.sum.value(), .sum_of_squares = cells.sum_of_squares.value()};
}

void AddTimes(TimesAt& sum, const TimesAt& more) {
  sum.count += more.count;
  sum.sum += more.sum;
  sum.sum_of_squares += more.sum_of_squares;
}

// In logarithms of seconds.
router::LogSums SumsOf(const TimesAt& at) {
  const auto n = static_cast<double>(at.count);
  const double sum = static_cast<double>(at.sum) * kMillionth;
  const double squares = static_cast<double>(at.sum_of_squares) * kMillionth;
  return {.count = at.count,
          .sum = sum - n * kMicrosInLog,
          .sum_of_squares = squares - 2 * kMicrosInLog * sum + n * kMicrosInLog * kMicrosInLog};
}

TimesAt IncreaseOf(const TimesAt& now, const TimesAt& before) {
  if (now.count < before.count) return {};
  return {.count = now.count - before.count,
          .sum = now.sum - before.sum,
          .sum_of_squares = now.sum_of_squares - before.sum_of_squares};
}

// The increase of all counters; zeros where a counter has fallen.
TriesAt IncreaseOf(const TriesAt& now, const TriesAt& before) {
  if (now.tries < before.tries || now.failures < before.failures) return {};
  return {.tries = now.tries - before.tries,
          .failures = now.failures - before.failures,
          .first_token = IncreaseOf(now.first_token, before.first_token),
          .token_time = IncreaseOf(now.token_time, before.token_time)};
}

}  // namespace

TriesAt TriesOf(const ReplicaCells& cells) {
  return {.tries = cells.attempts.value(),
          .failures = cells.connect_failures.value() + cells.broken.value() + cells.errors.value() +
                      cells.timeouts.value() + cells.hung.value(),
          .first_token = TimesOf(cells.first_token),
          .token_time = TimesOf(cells.token_time)};
}

void AddTo(TriesAt& sum, const TriesAt& more) {
  sum.tries += more.tries;
  sum.failures += more.failures;
  AddTimes(sum.first_token, more.first_token);
  AddTimes(sum.token_time, more.token_time);
}

router::VersionSample SampleOf(const TriesAt& at) {
  return {.tries = at.tries,
          .failures = at.failures,
          .first_token = SumsOf(at.first_token),
          .token_time = SumsOf(at.token_time)};
}

TriesByModel TriesHere(std::span<const ShardMetrics* const> shards, const Runtime& runtime,
                       const Rollouts& rollouts) {
  TriesByModel here;
  std::map<std::string_view, TriesByReplica*> model_of;  // by replica
  for (const config::ShareOfVersion& share : rollouts.Shares(runtime.configured())) {
    TriesByReplica& of_model = here[share.model];
    const std::optional<ModelId> id = runtime.routes().Find(share.model);
    if (!id) continue;
    for (const router::Replica& replica : runtime.routes().replicas(*id)) {
      of_model.try_emplace(replica.spec.identity);
      model_of[replica.spec.identity] = &of_model;
    }
  }
  if (model_of.empty()) return here;
  for (const ShardMetrics* const shard : shards) {
    shard->ForEachReplica([&](const std::string& name, const ReplicaCells& cells) {
      if (const auto at = model_of.find(name); at != model_of.end())
        AddTo(at->second->find(name)->second, TriesOf(cells));
    });
  }
  return here;
}

void TriesElsewhere::Update(const GatewayRecord& record) {
  const auto [known, is_new] = gateways_.try_emplace(record.name);
  Gateway& gateway = known->second;
  const bool restarted = !is_new && gateway.start != record.start;
  if (restarted) gateway.tries.clear();
  for (const auto& [model, replicas] : record.tries) {
    TriesByReplica& sum = added_[model];
    const auto before = gateway.tries.find(model);
    if (before == gateway.tries.end() && !restarted) continue;
    for (const auto& [replica, at] : replicas) {
      TriesAt from;
      if (before != gateway.tries.end()) {
        if (const auto of_replica = before->second.find(replica); of_replica != before->second.end())
          from = of_replica->second;
      }
      AddTo(sum[replica], IncreaseOf(at, from));
    }
  }
  gateway.start = record.start;
  gateway.tries = record.tries;
  std::erase_if(added_, [this](const auto& of) {
    return std::ranges::none_of(gateways_,
                                [&](const auto& told) { return told.second.tries.contains(of.first); });
  });
}

void TriesElsewhere::Forget(std::string_view gateway) {
  if (const auto known = gateways_.find(gateway); known != gateways_.end()) gateways_.erase(known);
}

}  // namespace gateway::control
