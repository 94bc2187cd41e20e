#include "router/health/outlier_status.h"

#include <algorithm>

#include "conf/words.h"
#include "router/relaxed.h"

namespace router {
namespace {

constexpr double kFirstShare = 0.1;
constexpr conf::Duration kBetweenSlowTrials = std::chrono::milliseconds(500);

}  // namespace

constexpr conf::Word<OutlierStatus::State> kOutlierStates[] = {{"good", OutlierStatus::State::kGood},
                                                               {"hung", OutlierStatus::State::kHung},
                                                               {"ejected", OutlierStatus::State::kEjected}};

std::string_view OutlierStatus::NameOf(State state) {
  return conf::WordOf(kOutlierStates, state);
}

bool OutlierStatus::ClaimTrial(conf::TimePoint now) {
  if (!suspected()) return false;
  int64_t at = trial_at_.load(kRelaxed);
  if (at > Nanos(now)) return false;
  const int64_t pause = pause_.load(kRelaxed);
  if (!trial_at_.compare_exchange_strong(at, Nanos(now) + pause, kRelaxed)) return false;
  pause_.store(std::min(2 * pause, max_pause_.load(kRelaxed)), kRelaxed);
  return true;
}

double OutlierStatus::Share(conf::TimePoint now) const {
  const int64_t length = slow_start_length_.load(kRelaxed);
  if (length == 0) return 1;
  const int64_t passed = std::max<int64_t>(0, Nanos(now) - slow_start_from_.load(kRelaxed));
  return std::min(
      1.0, kFirstShare + (1 - kFirstShare) * static_cast<double>(passed) / static_cast<double>(length));
}

void OutlierStatus::Suspect(State why, conf::Duration pause, conf::Duration max_pause, conf::TimePoint now) {
  since_.store(Nanos(now), kRelaxed);
  trial_at_.store(Nanos(now + pause), kRelaxed);
  // The trials of a slow replica follow each other quickly, because a single one says little.
  const conf::Duration next = why == State::kHung ? 2 * pause : kBetweenSlowTrials;
  pause_.store(std::min(next, max_pause).count(), kRelaxed);
  max_pause_.store((why == State::kHung ? max_pause : next).count(), kRelaxed);
  state_.store(why, kRelaxed);
}

void OutlierStatus::BeginSlowStart(conf::Duration length, conf::TimePoint now) {
  slow_start_from_.store(Nanos(now), kRelaxed);
  slow_start_length_.store(length.count(), kRelaxed);
}

}  // namespace router
