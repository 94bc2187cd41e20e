#include "gateway/control/rollouts.h"

#include <fmt/format.h>

#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/store/kinds.h"

namespace gateway::control {

Rollouts::Rollouts(net::Loop& loop, store::Store& store, Environment env)
    : store_(store),
      env_(std::move(env)),
      follower_(loop, store, store::kRollout,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}) {}

net::Task<absl::Status> Rollouts::Start() {
  co_return co_await follower_.Start();
}

void Rollouts::Replace(const std::vector<store::Object>& all) {
  stored_.clear();
  for (const store::Object& object : all) Take(object.id, object.version, object.body);
  env_.changed();
}

void Rollouts::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      Take(change.id, change.number, *change.body);
    } else {
      stored_.erase(change.id);
    }
  }
  env_.changed();
}

void Rollouts::Take(const std::string& model, uint64_t version, const std::string& body) {
  absl::StatusOr<Rollout> rollout = ReadRollout(model, body);
  if (!rollout.ok()) {
    log::Error("a stored rollout cannot be read", {{"why", conf::Std(rollout.status().message())}});
    stored_.erase(model);
    return;
  }
  stored_[model] = {*std::move(rollout), version};
}

const Rollout* Rollouts::Find(std::string_view model) const {
  const auto at = stored_.find(model);
  return at == stored_.end() ? nullptr : &at->second.rollout;
}

std::vector<config::ShareOfVersion> Rollouts::Shares(const Config& configured) const {
  std::vector<config::ShareOfVersion> shares;
  if (!configured.scaling) return shares;
  for (const config::ModelPolicy& policy : configured.scaling->models) {
    const Rollout* const rollout = policy.rollout ? Find(policy.model()) : nullptr;
    if (rollout == nullptr || rollout->version != policy.rollout->version ||
        rollout->state != RolloutState::kRunning)
      continue;
    shares.push_back({policy.model(), rollout->version, rollout->percent});
  }
  return shares;
}

net::Task<absl::Status> Rollouts::Set(Rollout rollout, std::string_view action) {
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = fmt::format("rollout.{}", action);
  event.actor = rollout.by;
  event.subject = rollout.model;
  event.detail = DetailOf(rollout);
  if (absl::Status recorded = co_await env_.record(std::move(event)); !recorded.ok()) co_return recorded;
  const auto there = stored_.find(rollout.model);
  co_return co_await Commit({.kind = store::kRollout,
                             .id = rollout.model,
                             .replaces = there == stored_.end() ? 0 : there->second.version,
                             .body = BodyOf(rollout)});
}

net::Task<absl::Status> Rollouts::Forget(std::string model) {
  const auto there = stored_.find(model);
  if (there == stored_.end()) co_return absl::OkStatus();
  co_return co_await Commit(
      {.kind = store::kRollout, .id = model, .replaces = there->second.version, .body = std::nullopt});
}

net::Task<absl::Status> Rollouts::Commit(store::Write write) {
  std::vector<store::Write> writes;
  writes.push_back(std::move(write));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes), env_.epoch());
  if (absl::IsAborted(committed.status()))
    co_return absl::UnavailableError("another change of this rollout came first; try again");
  if (absl::IsPermissionDenied(committed.status()))
    co_return absl::UnavailableError("another gateway leads now; try again");
  if (!committed.ok()) co_return committed.status();
  co_return co_await follower_.CatchUp();
}

}  // namespace gateway::control
