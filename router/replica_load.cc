#include "router/replica_load.h"

#include <algorithm>

#include "conf/text.h"

namespace router {

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  Release();
  state_ = std::exchange(other.state_, nullptr);
  tokens_ = std::exchange(other.tokens_, 0);
  admission_ = std::exchange(other.admission_, Admission::kRefused);
  reported_ = std::exchange(other.reported_, std::nullopt);
  return *this;
}

void Charge::Reestimate(int64_t tokens) {
  if (!state_) return;
  state_->load.Add(0, tokens - tokens_);
  tokens_ = tokens;
}

void Charge::Report(Outcome outcome, conf::TimePoint now) {
  if (!state_) return;
  if (!reported_) {
    state_->breaker.Report(outcome, admission_, now);
  } else if (reported_ == Outcome::kGood && outcome == Outcome::kBad) {
    state_->breaker.Report(outcome, Admission::kAdmitted, now);
  } else {
    return;
  }
  reported_ = outcome;
  if (outcome == Outcome::kGood) state_->health.OnTraffic();
}

void Charge::Rest(std::optional<conf::Duration> retry_after, conf::TimePoint now) {
  if (state_) state_->breaker.Rest(retry_after, now);
}

void Charge::Release() {
  if (!state_) return;
  if (!reported_) state_->breaker.Abandon(admission_);
  state_->load.Add(-1, -tokens_);
  state_.reset();
  tokens_ = 0;
  reported_.reset();
}

std::shared_ptr<ReplicaState> ReplicaStates::Get(std::string_view identity) {
  const absl::MutexLock lock(&mutex_);
  if (states_.size() >= sweep_at_) {
    absl::erase_if(states_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max<size_t>(64, 2 * states_.size());
  }
  std::weak_ptr<ReplicaState>& slot = states_[conf::Abseil(identity)];
  std::shared_ptr<ReplicaState> state = slot.lock();
  if (!state) {
    state = std::make_shared<ReplicaState>(std::string(identity));
    slot = state;
  }
  return state;
}

size_t ReplicaStates::size() const {
  const absl::MutexLock lock(&mutex_);
  return states_.size();
}

ModelCell::ModelCell(const Model& model) : budget(model.spec.retry.budget), credit(model.replica_count) {}

LoadView::LoadView(const RouteTable& table, ReplicaStates& states) {
  states_.reserve(table.replicas().size());
  for (const Replica& replica : table.replicas()) {
    const ModelSpec& spec = table.model(replica.model).spec;
    states_.push_back(states.Get(replica.spec.identity));
    states_.back()->breaker.Configure(spec.breaker);
    states_.back()->health.Configure(spec.health);
  }
  cells_.reserve(table.models().size());
  for (const Model& model : table.models()) cells_.push_back(std::make_unique<ModelCell>(model));
}

}  // namespace router
