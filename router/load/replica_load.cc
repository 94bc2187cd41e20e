#include "router/load/replica_load.h"

#include <xxhash.h>

#include <algorithm>

#include "conf/text.h"
#include "router/prefix/block_hash.h"

namespace router {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr int64_t kTokensPerBlock = prefix::kBlockBytes / 4;
constexpr uint32_t kFirstBlocks = 8192;  // until the engine reports its cache; half a million tokens

}  // namespace

ReplicaState::ReplicaState(std::string name, prefix::Index* shared)
    : identity(std::move(name)),
      identity_hash(XXH3_64bits(identity.data(), identity.size())),
      index(shared),
      member(index != nullptr ? index->Join(kFirstBlocks) : std::nullopt) {}

ReplicaState::~ReplicaState() {
  if (member) index->Leave(*member);
}

std::string_view WhyNotUsed(const ReplicaState& state, double weight, conf::TimePoint now) {
  if (weight <= 0) return "drained";
  if (!state.health.Usable()) return "down";
  if (state.breaker.phase(now) != Breaker::Phase::kClosed) return "broken";
  if (state.breaker.IsResting(now)) return "resting";
  if (state.outlier.suspected()) return OutlierStatus::NameOf(state.outlier.state());
  return state.outlier.InSlowStart(now) ? "slow_start" : std::string_view();
}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  Release();
  if (!other.state_) return *this;
  state_ = std::exchange(other.state_, nullptr);
  request_ = std::exchange(other.request_, InFlightRequest{});
  first_token_ = std::exchange(other.first_token_, std::nullopt);
  admission_ = std::exchange(other.admission_, Admission::kRefused);
  reported_ = std::exchange(other.reported_, std::nullopt);
  adapter_ = std::exchange(other.adapter_, AdapterId::kNone);
  held_ = std::exchange(other.held_, {});
  written_ = std::exchange(other.written_, 0);
  return *this;
}

void Charge::UseAdapter(AdapterId id, std::optional<double> expected) {
  if (!state_) return;
  adapter_ = id;
  request_.loads = state_->adapters.Begin(id, expected, request_.began);
}

void Charge::LeaveAdapter() {
  if (adapter_ != AdapterId::kNone) state_->adapters.End(std::exchange(adapter_, AdapterId::kNone));
}

void Charge::PrefillArrived(conf::TimePoint now) {
  if (state_) state_->engine.PrefillArrived(request_, now);
}

void Charge::ChangeWork(const Work& work, conf::TimePoint now) {
  if (!state_) return;
  state_->load.Add(0, work.tokens - request_.work.tokens);
  state_->engine.End(request_);
  request_ = {.work = work};
  state_->engine.Begin(request_, now);
}

void Charge::FirstToken(conf::TimePoint now) {
  if (!state_ || first_token_ || request_.work.unseen) return;
  PrefillArrived(now);
  state_->engine.FirstToken(request_, now);
  if (adapter_ != AdapterId::kNone) state_->adapters.Loaded(adapter_, true, now);
  first_token_ = now;
}

void Charge::Hold(std::vector<uint64_t> blocks, conf::TimePoint now) {
  if (!state_ || !state_->member || !held_.empty()) return;
  held_ = std::move(blocks);
  state_->index->Hold(held_, *state_->member, now);
}

void Charge::Answered(conf::TimePoint now) {
  if (!state_) return;
  PrefillArrived(now);
  state_->engine.Answered(request_, now);
  if (adapter_ != AdapterId::kNone) state_->adapters.Loaded(adapter_, false, now);
}

void Charge::LastToken(int64_t generated, conf::TimePoint now) {
  written_ = generated;
  if (!state_ || generated < 2) return;
  std::optional<conf::TimePoint> first = first_token_;
  if (request_.work.unseen && request_.computed && now > request_.computed_by) first = request_.computed_by;
  if (!first) return;
  state_->engine.LearnPace(request_, conf::ToSeconds(now - *first) / static_cast<double>(generated - 1));
}

void Charge::Report(Outcome outcome, conf::TimePoint now, CallerId caller) {
  if (!state_) return;
  if (!reported_) {
    state_->breaker.Report(outcome, admission_, now, caller);
  } else if (reported_ == Outcome::kGood && outcome == Outcome::kBad) {
    state_->breaker.Report(outcome, Admission::kAdmitted, now, caller);
  } else {
    return;
  }
  reported_ = outcome;
  if (outcome == Outcome::kBad && state_->breaker.Suspected(now)) state_->health.ProbeSoon(now);
  if (outcome == Outcome::kGood) state_->health.OnTraffic();
}

void Charge::Rest(std::optional<conf::Duration> retry_after, conf::TimePoint now, CallerId caller) {
  if (state_) state_->breaker.Rest(retry_after, now, caller);
}

void Charge::Release() {
  if (!state_) return;
  if (!reported_) state_->breaker.Abandon(admission_);
  state_->load.Add(-1, -request_.work.tokens);
  state_->engine.End(request_);
  LeaveAdapter();
  if (!held_.empty()) {
    const auto blocks = static_cast<uint32_t>(std::clamp<int64_t>(written_ / kTokensPerBlock, 0, 1 << 20));
    state_->index->Release(std::exchange(held_, {}), *state_->member, blocks);
  }
  state_.reset();
  request_ = {};
  first_token_.reset();
  written_ = 0;
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
    by_identity_.emplace(states_.back()->identity_hash, replica.id);
    states_.back()->breaker.Configure(spec.breaker);
    states_.back()->health.Configure(spec.health);
    if (const auto member = states_.back()->member) {
      const auto at = static_cast<size_t>(*member);
      if (by_member_.size() <= at) by_member_.resize(at + 1, kNobody);
      by_member_[at] = static_cast<uint32_t>(replica.id);
    }
  }
  cells_.reserve(table.models().size());
  placements_.resize(table.models().size());
  for (const Model& model : table.models()) cells_.push_back(std::make_shared<ModelCell>(model));
  for (const Model& model : table.models()) {
    const auto at = static_cast<size_t>(model.id);
    if (model.adapter == AdapterId::kNone) continue;
    cells_[at] = cells_[static_cast<size_t>(model.served_by)];
    placements_[at] = std::make_unique<AdapterPlacements>();
  }
}

std::optional<ReplicaId> LoadView::Find(prefix::MemberId member) const {
  const auto at = static_cast<size_t>(member);
  if (at >= by_member_.size() || by_member_[at] == kNobody) return std::nullopt;
  return static_cast<ReplicaId>(by_member_[at]);
}

std::optional<ReplicaId> LoadView::FindIdentity(uint64_t hash) const {
  const auto found = by_identity_.find(hash);
  return found == by_identity_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace router
