#include "gateway/control/scaling/rollout_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "conf/text.h"
#include "gateway/api/coded_status.h"
#include "gateway/log.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kTickOfRollouts = std::chrono::milliseconds(500);
constexpr conf::Duration kRatingsEvery = std::chrono::seconds(5);
constexpr std::string_view kControl = "control";

void AddTo(router::LogSums& to, const router::LogSums& more, double sign) {
  to.count = sign > 0 ? to.count + more.count : to.count - std::min(to.count, more.count);
  to.sum += sign * more.sum;
  to.sum_of_squares += sign * more.sum_of_squares;
}

void AddTo(router::VersionSample& to, const router::VersionSample& more, double sign) {
  const auto add = [sign](uint64_t& value, uint64_t by) {
    value = sign > 0 ? value + by : value - std::min(value, by);
  };
  add(to.tries, more.tries);
  add(to.failures, more.failures);
  AddTo(to.first_token, more.first_token, sign);
  AddTo(to.token_time, more.token_time, sign);
}

router::VersionSample Since(router::VersionSample now, const router::VersionSample& base) {
  AddTo(now, base, -1);
  return now;
}

absl::Status NotNow(std::string why) {
  return api::WithCode(absl::FailedPreconditionError(conf::Abseil(why)), api::Code::kConflict);
}

}  // namespace

const config::ModelPolicy* RolloutDriver::PolicyOf(const std::string& model) const {
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  return runtime->config().scaling ? runtime->config().scaling->Find(model) : nullptr;
}

void RolloutDriver::Tick() {
  const conf::TimePoint now = context_.now();
  if (env_.rollouts == nullptr || now < next_) return;
  next_ = now + kTickOfRollouts;
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  if (!runtime->config().scaling) return;
  for (const config::ModelPolicy& policy : runtime->config().scaling->models) {
    if (!policy.replica || changing_.contains(policy.model())) continue;
    if (policy.rollout) {
      Tick(policy, now);
    } else if (env_.rollouts->Find(policy.model()) != nullptr) {
      seen_.erase(policy.model());
      changing_.insert(policy.model());
      context_.spawn(Forget(policy.model()));
    }
  }
}

void RolloutDriver::Tick(const config::ModelPolicy& policy, conf::TimePoint now) {
  const std::string& model = policy.model();
  const std::string& version = policy.rollout->version;
  const Rollout* const rollout = env_.rollouts->Find(model);
  if (rollout == nullptr || rollout->version != version) {
    changing_.insert(model);
    context_.spawn(Change({.model = model,
                           .version = version,
                           .began = now,
                           .since = now,
                           .why = "the policy has a new version",
                           .by = std::string(kControl)},
                          "begin"));
    return;
  }
  Seen& seen = seen_[model];
  if (seen.version != version) {
    seen = Seen();
    seen.version = version;
  }
  Collect(policy, seen);
  if (rollout->state == RolloutState::kRunning) {
    Run(policy, *rollout, seen, now);
  } else {
    RetireOthers(policy, *rollout);
    seen.standing.clear();
  }
}

// The replicas of both versions, as the metrics name them.
void RolloutDriver::Collect(const config::ModelPolicy& policy, Seen& seen) const {
  replicas_.ForEach(policy.model(), [&](const Workload& replica) {
    const bool fresh = replica.model_version == policy.rollout->version;
    (fresh ? seen.fresh_names : seen.old_names).insert(fmt::format("{}@{}", replica.model, replica.id));
  });
  // Configured endpoints serve the version in force, too.
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  const config::Model* const model = runtime->config().FindModel(policy.model());
  if (model == nullptr) return;
  for (const config::Endpoint& endpoint : model->endpoints) {
    if (endpoint.track.empty()) seen.old_names.insert(fmt::format("{}@{}", model->name, endpoint.name));
  }
}

router::VersionSample RolloutDriver::SampleOfReplicas(const std::set<std::string>& names) const {
  TriesAt sum;
  for (const ShardMetrics* const shard : env_.shards()) {
    shard->ForEachReplica([&](const std::string& name, const ReplicaCells& cells) {
      if (names.contains(name)) AddTo(sum, TriesOf(cells));
    });
  }
  for (const auto& [model, replicas] : env_.tries_elsewhere()) {
    for (const auto& [name, tries] : replicas) {
      if (names.contains(name)) AddTo(sum, tries);
    }
  }
  return SampleOf(sum);
}

router::VersionSample RolloutDriver::FreshOf(const Seen& seen) const {
  router::VersionSample sample = Since(SampleOfReplicas(seen.fresh_names), seen.base);
  sample.ratings = RatingsOfNames(seen, seen.fresh_names);
  return sample;
}

router::VersionSample RolloutDriver::OldOf(const Seen& seen) const {
  router::VersionSample sample = Since(SampleOfReplicas(seen.old_names), seen.old_base);
  sample.ratings = RatingsOfNames(seen, seen.old_names);
  return sample;
}

// The names are model@replica.
router::Ratings RolloutDriver::RatingsOfNames(const Seen& seen, const std::set<std::string>& names) {
  router::Ratings sum;
  for (const std::string& name : names) {
    const auto at = seen.ratings.find(std::string_view(name).substr(name.find('@') + 1));
    if (at == seen.ratings.end()) continue;
    sum.count += at->second.count;
    sum.positive += at->second.positive;
  }
  return sum;
}

net::Task<void> RolloutDriver::AskForRatings(std::string model, std::string name, conf::TimePoint since) {
  ++asking_;
  RatingsByReplica ratings = co_await env_.ratings(model, std::move(name), since);
  --asking_;
  if (const auto at = seen_.find(model); at != seen_.end()) at->second.ratings = std::move(ratings);
}

uint32_t RolloutDriver::CountReady(const std::string& model, bool fresh, const std::string& version) const {
  uint32_t ready = 0;
  replicas_.ForEach(model, [&](const Workload& replica) {
    if (replica.state == State::kRunning && (replica.model_version == version) == fresh) ++ready;
  });
  return ready;
}

bool RolloutDriver::AnyAnswers(const std::string& model, const std::string& version,
                               conf::TimePoint now) const {
  bool any = false;
  replicas_.ForEach(model, [&](const Workload& replica) {
    any = any ||
          (replica.model_version == version && replica.state == State::kRunning && Answers(replica, now));
  });
  return any;
}

void RolloutDriver::Run(const config::ModelPolicy& policy, const Rollout& rollout, Seen& seen,
                        conf::TimePoint now) {
  const std::string& model = policy.model();
  const router::RolloutSteps& steps = policy.rollout->steps;
  const size_t step = std::min<size_t>(rollout.step, steps.percents.size() - 1);
  const double share = steps.percents[step] / 100;
  const double others = std::max<double>(1, env_.wanted(model));
  seen.wanted = std::clamp(static_cast<uint32_t>(std::ceil(share * others - 1e-9)), 1U,
                           std::max(1U, policy.scaling.max));
  if (seen.step_since != rollout.since) {
    if (seen.step_since == conf::TimePoint()) seen.old_base = SampleOfReplicas(seen.old_names);
    seen.step_since = rollout.since;
    seen.base = SampleOfReplicas(seen.fresh_names);
  }
  uint32_t there = 0;
  replicas_.ForEach(model, [&](const Workload& replica) {
    there += replica.model_version == seen.version && !replica.ends() ? 1 : 0;
  });
  if (there < seen.wanted && seen.failed < router::kMostFailedStarts) {
    replicas_.AddVersion(
        model, seen.version,
        fmt::format("version {} is to have {:g} % of the requests of {}", seen.version, 100 * share, model));
  }
  if (seen.usable == conf::TimePoint() || !rollout.open || AnyAnswers(model, seen.version, now))
    seen.usable = now;
  if (steps.bounds.feedback && env_.ratings && now - seen.ratings_asked >= kRatingsEvery) {
    seen.ratings_asked = now;
    context_.spawn(AskForRatings(model, steps.bounds.feedback->name, rollout.began));
  }
  const router::RolloutMove move = router::NextRolloutMove(steps,
                                                           {.step = step,
                                                            .open = rollout.open,
                                                            .since = rollout.since,
                                                            .ready = CountReady(model, true, seen.version),
                                                            .wanted = seen.wanted,
                                                            .failed = seen.failed,
                                                            .last_failure = seen.last_failure,
                                                            .unusable = now - seen.usable},
                                                           FreshOf(seen), OldOf(seen), now);
  seen.standing = move.why;
  using Kind = router::RolloutMove::Kind;
  if (move.kind == Kind::kStay) return;
  Rollout next = rollout;
  next.since = conf::FromUnixMicros(conf::ToUnixMicros(now));  // as the store has it
  next.why = move.why;
  next.by = kControl;
  if (move.kind == Kind::kOpen) {
    // Before its share is in force, so that no try of it is missed.
    seen.base = SampleOfReplicas(seen.fresh_names);
    seen.step_since = next.since;
    next.open = true;
    next.percent = steps.percents[step];
  } else if (move.kind == Kind::kNext) {
    next.step = static_cast<uint32_t>(step) + 1;
    next.open = false;
  } else {
    next.state = move.kind == Kind::kPromote ? RolloutState::kPromoted : RolloutState::kRolledBack;
    next.open = false;
    next.percent = move.kind == Kind::kPromote ? 100 : 0;
  }
  log::Info("rollout",
            {{"model", model}, {"version", seen.version}, {"move", NameOf(move.kind)}, {"why", move.why}});
  changing_.insert(model);
  context_.spawn(Change(std::move(next), std::string(NameOf(move.kind))));
}

// After the end: those of the version that lost.
void RolloutDriver::RetireOthers(const config::ModelPolicy& policy, const Rollout& rollout) {
  std::vector<std::string> ids;
  replicas_.ForEach(policy.model(), [&](const Workload& replica) {
    if (RoleOf(policy, &rollout, replica.model_version) == VersionRole::kLeaves && !replica.ends())
      ids.push_back(replica.id);
  });
  const std::string why =
      rollout.state == RolloutState::kPromoted
          ? fmt::format("version {} has taken over", rollout.version)
          : fmt::format("version {} is {}: {}", rollout.version,
                        rollout.state == RolloutState::kAborted ? "aborted" : "rolled back", rollout.why);
  for (const std::string& id : ids) replicas_.Retire(*workloads_.Find(id), why);
}

void RolloutDriver::OnFailure(const std::string& model, std::string why) {
  Seen& seen = seen_[model];
  ++seen.failed;
  seen.last_failure = std::move(why);
}

net::Task<void> RolloutDriver::Change(Rollout rollout, std::string action) {
  const std::string model = rollout.model;
  const absl::Status changed = co_await env_.rollouts->Set(std::move(rollout), action);
  if (!changed.ok()) {
    log::Warn("a rollout stays where it is; it is tried again",
              {{"model", model}, {"why", conf::Std(changed.message())}});
  }
  changing_.erase(model);
}

net::Task<void> RolloutDriver::Forget(std::string model) {
  const absl::Status forgotten = co_await env_.rollouts->Forget(model);
  if (!forgotten.ok())
    log::Warn("the record of a past rollout stays for now",
              {{"model", model}, {"why", conf::Std(forgotten.message())}});
  changing_.erase(model);
}

net::Task<absl::Status> RolloutDriver::Order(std::string model, std::string by, RolloutState state,
                                             std::string why) {
  const config::ModelPolicy* const policy = PolicyOf(model);
  const Rollout* const there = policy == nullptr || !policy->rollout || env_.rollouts == nullptr
                                   ? nullptr
                                   : env_.rollouts->Find(model);
  if (there == nullptr || there->version != policy->rollout->version)
    co_return NotNow(fmt::format("{} has no rollout; give its policy a section rollout", model));
  if (changing_.contains(model)) co_return NotNow("the rollout is changing right now; try again");
  const bool runs = there->state == RolloutState::kRunning;
  if (state != RolloutState::kRunning && !runs) {
    co_return NotNow(fmt::format("the rollout of {} to {} is {}, and does not run", model, there->version,
                                 Name(there->state)));
  }
  if (state == RolloutState::kRunning && (runs || there->state == RolloutState::kPromoted)) {
    co_return NotNow(
        fmt::format("the rollout of {} to {} is {}; only one that was rolled back or aborted can begin "
                    "again",
                    model, there->version, Name(there->state)));
  }
  Rollout next = *there;
  next.state = state;
  next.since = context_.now();
  next.open = false;
  next.percent = state == RolloutState::kPromoted ? 100 : 0;
  next.why = std::move(why);
  next.by = std::move(by);
  std::string_view action = state == RolloutState::kPromoted ? "promote" : "abort";
  if (state == RolloutState::kRunning) {
    next.step = 0;
    next.began = next.since;
    seen_.erase(model);
    action = "begin";
  }
  changing_.insert(model);
  absl::Status changed = co_await env_.rollouts->Set(std::move(next), action);
  changing_.erase(model);
  context_.wake();
  co_return changed;
}

net::Task<absl::Status> RolloutDriver::Promote(std::string model, std::string by) {
  return Order(std::move(model), std::move(by), RolloutState::kPromoted, "an operator has promoted it");
}

net::Task<absl::Status> RolloutDriver::Abort(std::string model, std::string by, std::string why) {
  return Order(std::move(model), std::move(by), RolloutState::kAborted,
               why.empty() ? "an operator has aborted it" : std::move(why));
}

net::Task<absl::Status> RolloutDriver::Restart(std::string model, std::string by) {
  return Order(std::move(model), std::move(by), RolloutState::kRunning, "an operator has begun it again");
}

std::vector<RolloutStatus> RolloutDriver::Rows() const {
  std::vector<RolloutStatus> rows;
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  if (!runtime->config().scaling || env_.rollouts == nullptr) return rows;
  for (const config::ModelPolicy& policy : runtime->config().scaling->models) {
    const Rollout* const rollout = policy.rollout ? env_.rollouts->Find(policy.model()) : nullptr;
    if (rollout == nullptr || rollout->version != policy.rollout->version) continue;
    RolloutStatus& row = rows.emplace_back();
    row.rollout = *rollout;
    row.from = policy.version;
    row.steps = policy.rollout->steps.percents;
    row.ready = CountReady(policy.model(), true, rollout->version);
    row.old_ready = CountReady(policy.model(), false, rollout->version);
    const auto seen = seen_.find(policy.model());
    if (seen == seen_.end()) continue;
    row.wanted = seen->second.wanted;
    row.fresh = FreshOf(seen->second);
    row.old = OldOf(seen->second);
    row.standing = seen->second.standing;
  }
  return rows;
}

}  // namespace gateway::control
