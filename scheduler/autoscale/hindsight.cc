#include "scheduler/autoscale/hindsight.h"

#include <algorithm>
#include <cmath>

#include "scheduler/autoscale/sane.h"

namespace scheduler::autoscale {
namespace {

using std::chrono::minutes;

constexpr std::array kHoldTimes = {minutes(2), minutes(4), minutes(8), minutes(16), minutes(32), minutes(64)};
constexpr std::array kMarginParts = {0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0};
constexpr size_t kUsualHold = 1;
constexpr size_t kUsualMargin = 2;
constexpr double kHandicap = 200;       // seconds of the mean load, for each step from the usual rule
constexpr double kRemembered = 86'400;  // seconds
constexpr double kFull = 0.85;          // of a replica's capacity: beyond it first tokens begin to be late
constexpr double kOnce = 0.8;           // part of a rule's worst episode that is no evidence
constexpr conf::Duration kApart = minutes(2);  // between two episodes
constexpr double kOfAllowed = 0.25;            // the rest is for what the replay does not see
constexpr double kMostOfAttainment = 0.9999;

double Distance(size_t a, size_t b) {
  return static_cast<double>(a > b ? a - b : b - a);
}

}  // namespace

Hindsight::Hindsight(const ScalingPolicy& policy)
    : up_at_(policy.demand.up_at),
      least_(policy.min),
      may_be_late_(1 - std::clamp(policy.attainment, 0.0, kMostOfAttainment)),
      times_(policy.demand.margin),
      best_hold_(kUsualHold),
      best_margin_(kUsualMargin) {
  static_assert(kHoldTimes.size() == kHolds && kMarginParts.size() == kMargins);
  for (size_t i = 0; i < kHolds; ++i)
    holds_[i].length = std::max<conf::Duration>(kHoldTimes[i], policy.demand.hold);
}

Hindsight::Memory Hindsight::memory() const {
  Memory out{
      .up_at = up_at_, .least = least_, .times = times_, .seconds = seconds_, .load_seconds = load_seconds_};
  for (const Hold& hold : holds_) {
    Memory::Hold& to = out.holds.emplace_back();
    to.seconds = conf::ToSeconds(hold.length);
    to.peak = hold.peak.value();
    for (const Rule& rule : hold.rules)
      to.rules.push_back({rule.replica_seconds, rule.late.sum, rule.late.worst});
  }
  return out;
}

bool Hindsight::Recall(const Memory& memory, conf::TimePoint at, conf::TimePoint now) {
  const bool same = memory.up_at == up_at_ && memory.least == least_ && memory.times == times_ &&
                    std::ranges::equal(memory.holds, holds_, [](const Memory::Hold& a, const Hold& b) {
                      return a.seconds == conf::ToSeconds(b.length) && a.rules.size() == kMargins;
                    });
  if (!same) return false;
  at = std::min(at, now);
  const double part = std::exp(-conf::ToSeconds(now - at) / kRemembered);
  seconds_ = Sane(memory.seconds) * part;
  load_seconds_ = Sane(memory.load_seconds) * part;
  for (size_t i = 0; i < kHolds; ++i) {
    const Memory::Hold& from = memory.holds[i];
    holds_[i].peak.Add(Sane(from.peak), holds_[i].length, at);
    for (size_t j = 0; j < kMargins; ++j) {
      Rule& rule = holds_[i].rules[j];
      rule.replica_seconds = Sane(from.rules[j].replica_seconds) * part;
      rule.late.sum = Sane(from.rules[j].late) * part;
      rule.late.worst = Sane(from.rules[j].worst) * part;
    }
  }
  Choose();
  return true;
}

double Hindsight::MarginOf(size_t margin) const {
  return times_ * kMarginParts[margin];
}

void Hindsight::Late::Add(double seconds, conf::TimePoint now) {
  if (seconds <= 0) return;
  if (now - at > kApart) episode = 0;
  at = now;
  sum += seconds;
  episode += seconds;
  worst = std::max(worst, episode);
}

void Hindsight::Add(double load, conf::Duration lead, conf::TimePoint now) {
  if (!began_) began_ = last_ = now;
  const double passed = conf::ToSeconds(now - last_);
  last_ = now;
  const double part = std::exp(-passed / kRemembered);
  load_seconds_ = load_seconds_ * part + load * passed;
  seconds_ = seconds_ * part + passed;
  const bool counts = now - *began_ > lead;  // before that no rule could have ordered in time
  for (Hold& hold : holds_) {
    hold.peak.Add(load, hold.length, now);
    hold.ordered.Add(hold.peak.value(), lead, now);
    for (size_t i = 0; i < kMargins; ++i) {
      Rule& rule = hold.rules[i];
      const double each = (1 + MarginOf(i)) / up_at_;
      const double kept = std::max(std::ceil(each * hold.peak.value()), least_);
      const double ready = std::max(std::ceil(each * hold.ordered.value()), least_);
      rule.replica_seconds = rule.replica_seconds * part + kept * passed;
      rule.late.sum *= part;
      rule.late.worst *= part;
      if (counts) rule.late.Add((load - kFull * ready) * passed, now);
    }
  }
  Choose();
}

double Hindsight::PriceOf(size_t hold, size_t margin) const {
  const Rule& rule = holds_[hold].rules[margin];
  const double late = rule.late.sum - kOnce * rule.late.worst - kOfAllowed * may_be_late_ * load_seconds_;
  const double steps = Distance(hold, kUsualHold) + Distance(margin, kUsualMargin);
  const double mean_load = seconds_ > 0 ? load_seconds_ / seconds_ : 0;
  return rule.replica_seconds + std::max(late, 0.0) / may_be_late_ + steps * kHandicap * mean_load;
}

void Hindsight::Choose() {
  double best = PriceOf(best_hold_, best_margin_);
  for (size_t hold = 0; hold < kHolds; ++hold) {
    for (size_t margin = 0; margin < kMargins; ++margin) {
      const double price = PriceOf(hold, margin);
      if (price >= best) continue;
      best = price;
      best_hold_ = hold;
      best_margin_ = margin;
    }
  }
}

}  // namespace scheduler::autoscale
