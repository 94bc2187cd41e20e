#include "router/health/health.h"

#include "conf/words.h"

namespace router {

constexpr conf::Word<HealthState> kHealthWords[] = {
    {"unknown", HealthState::kUnknown}, {"up", HealthState::kUp}, {"down", HealthState::kDown}};

std::string_view HealthName(HealthState state) {
  return conf::WordOf(kHealthWords, state);
}

void Health::Configure(const HealthConfig& config) {
  const absl::MutexLock lock(&mutex_);
  config_ = config;
}

bool Health::ClaimDue(conf::TimePoint now) {
  const absl::MutexLock lock(&mutex_);
  if (probing_ || now < next_) return false;
  probing_ = true;
  return true;
}

conf::TimePoint Health::next_probe() const {
  const absl::MutexLock lock(&mutex_);
  return next_;
}

void Health::ProbeSoon(conf::TimePoint now) {
  const absl::MutexLock lock(&mutex_);
  if (now < next_) next_ = now;
}

void Health::OnProbe(ProbeResult result, conf::TimePoint now) {
  const absl::MutexLock lock(&mutex_);
  probing_ = false;
  const HealthState before = state();
  HealthState after = before;
  const bool traffic = traffic_.exchange(false, std::memory_order_relaxed);
  if (result == ProbeResult::kGood) {
    bad_ = 0;
    if (++good_ >= config_.rise || before == HealthState::kUnknown) after = HealthState::kUp;
  } else if (result == ProbeResult::kMissed && traffic) {
    bad_ = 0;
  } else {
    good_ = 0;
    const bool refused_at_first = before == HealthState::kUnknown && result == ProbeResult::kFailed;
    if (++bad_ >= config_.fall || refused_at_first) after = HealthState::kDown;
  }
  next_ = now + (after == HealthState::kUp ? config_.interval : config_.fast_interval);
  state_.store(after, std::memory_order_release);
}

}  // namespace router
