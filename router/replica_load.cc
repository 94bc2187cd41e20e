#include "router/replica_load.h"

#include <xxhash.h>

#include <algorithm>

#include "conf/text.h"

namespace router {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr uint32_t kFirstCapacity = 8192;  // blocks, until the engine has said; half a million tokens

}  // namespace

ReplicaState::ReplicaState(std::string name, prefix::Index* shared)
    : identity(std::move(name)),
      identity_hash(XXH3_64bits(identity.data(), identity.size())),
      index(shared),
      member(index != nullptr ? index->Join(kFirstCapacity) : std::nullopt) {}

ReplicaState::~ReplicaState() {
  if (member) index->Leave(*member);
}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  Release();
  state_ = std::exchange(other.state_, nullptr);
  work_ = std::exchange(other.work_, Work{});
  first_token_ = std::exchange(other.first_token_, std::nullopt);
  admission_ = std::exchange(other.admission_, Admission::kRefused);
  reported_ = std::exchange(other.reported_, std::nullopt);
  return *this;
}

void Charge::Reestimate(int64_t tokens) {
  if (!state_) return;
  state_->load.Add(0, tokens - work_.tokens);
  work_.tokens = tokens;
}

void Charge::FirstToken(conf::TimePoint now) {
  if (!state_ || first_token_ || work_.unseen) return;
  state_->engine.FirstToken(work_, now);
  first_token_ = now;
}

void Charge::LastToken(int64_t generated, conf::TimePoint now) {
  if (!state_ || !first_token_ || generated < 2) return;
  state_->engine.LearnPace(conf::ToSeconds(now - *first_token_) / static_cast<double>(generated - 1));
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
  state_->load.Add(-1, -work_.tokens);
  state_->engine.End(work_, first_token_.has_value());
  state_.reset();
  work_ = {};
  first_token_.reset();
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
    state = std::make_shared<ReplicaState>(std::string(identity), index_);
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
    if (const auto member = states_.back()->member) {
      const auto at = static_cast<size_t>(*member);
      if (by_member_.size() <= at) by_member_.resize(at + 1, kNobody);
      by_member_[at] = static_cast<uint32_t>(replica.id);
    }
  }
  cells_.reserve(table.models().size());
  for (const Model& model : table.models()) cells_.push_back(std::make_unique<ModelCell>(model));
}

std::optional<ReplicaId> LoadView::Find(prefix::MemberId member) const {
  const auto at = static_cast<size_t>(member);
  if (at >= by_member_.size() || by_member_[at] == kNobody) return std::nullopt;
  return static_cast<ReplicaId>(by_member_[at]);
}

}  // namespace router
