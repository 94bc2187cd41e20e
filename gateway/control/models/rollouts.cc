#include "gateway/control/models/rollouts.h"

#include <fmt/format.h>

#include <utility>

#include "gateway/audit/recorded_change.h"
#include "gateway/store/kinds.h"

namespace gateway::control {

Rollouts::Rollouts(net::Loop& loop, store::Store& store, Environment env)
    : env_(std::move(env)), stored_(loop, store, store::kRollout, ReadRollout, [this] { env_.changed(); }) {}

const Rollout* Rollouts::Find(std::string_view model) const {
  const auto* const entry = stored_.Find(model);
  return entry == nullptr ? nullptr : &entry->value;
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
  return CommitRecorded(stored_, env_.epoch(), std::move(event), env_.record,
                        [this, rollout = std::move(rollout)] {
                          const auto* const there = stored_.Find(rollout.model);
                          return std::optional(store::Write{.kind = store::kRollout,
                                                            .id = rollout.model,
                                                            .replaces = there == nullptr ? 0 : there->version,
                                                            .body = BodyOf(rollout)});
                        });
}

net::Task<absl::Status> Rollouts::Forget(std::string model) {
  const auto* const there = stored_.Find(model);
  if (there == nullptr) co_return absl::OkStatus();
  std::vector<store::Write> writes;
  writes.push_back({.kind = store::kRollout, .id = model, .replaces = there->version, .body = std::nullopt});
  co_return co_await stored_.Commit(std::move(writes), env_.epoch());
}

}  // namespace gateway::control
