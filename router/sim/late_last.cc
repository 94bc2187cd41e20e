#include "router/sim/late_last.h"

#include <algorithm>
#include <vector>

namespace router::sim {
namespace {

using conf::Duration;
using conf::TimePoint;

constexpr uint32_t kMostHeld = 10'000'000;  // requests; only the time limit should refuse
constexpr double kBesideStep = 0.02;        // seconds

// By Band.
const std::vector<BandSpec> kBands = {{.name = "in-time"}, {.name = "late", .reserved = 0.05}};

Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

LateLast::LateLast(Duration ttft, Duration hold)
    : ttft_(ttft),
      hold_(hold),
      queue_({.max_requests = kMostHeld, .max_bytes = UINT64_MAX, .bands = kBands}) {}

bool LateLast::Enter(const Waiting& who, Band band, TimePoint now) {
  const QueuePosition entered = queue_.Enter({.tenant = "t",
                                              .band = band,
                                              .cost = who.cost,
                                              .bytes = 1,
                                              .deadline = who.arrived + hold_,
                                              .replicas_start = starting_ || band == kLate},
                                             now);
  if (entered.refused != QueueRefusal::kNone) return false;
  held_[entered.ticket] = who;
  (band == kLate ? late_ : in_time_).push_back(entered.ticket);
  return true;
}

bool LateLast::Enter(const Waiting& who, TimePoint now) {
  if (!Enter(who, kInTime, now)) return false;
  work_ += who.work;
  return true;
}

const Waiting* LateLast::First(Order& order) {
  while (!order.empty() && !held_.contains(order.front())) order.pop_front();
  return order.empty() ? nullptr : &held_.at(order.front());
}

Waiting LateLast::Take(WaitTicket ticket) {
  const auto held = held_.find(ticket);
  const Waiting who = held->second;
  held_.erase(held);
  return who;
}

Waiting LateLast::Forget(WaitTicket ticket, TimePoint now) {
  queue_.Leave(ticket, now);
  return Take(ticket);
}

std::optional<LateLast::Called> LateLast::Next(TimePoint now) {
  const std::optional<Dispatch> turn = queue_.Next(now);
  if (!turn) return std::nullopt;
  const Waiting who = Take(turn->ticket);
  work_ -= who.work;
  return Called{turn->ticket, who, turn->expired};
}

// Follows the 90th percentile: rises nine times as fast as it falls.
void LateLast::LearnBesidePrefill(double seconds) {
  beside_prefill_ += kBesideStep * (seconds > beside_prefill_ ? 0.9 : -0.1);
  beside_prefill_ = std::clamp(beside_prefill_, 0.0, conf::ToSeconds(ttft_) / 2);
}

// A request that waits already is not refused by its expected wait; DropExpired drops it after `hold`.
void LateLast::MoveLate(TimePoint now) {
  while (const Waiting* first = First(in_time_)) {
    if (now - first->arrived + Seconds(first->prefill + beside_prefill_) <= ttft_) break;
    const Waiting who = Forget(in_time_.front(), now);
    if (!Enter(who, kLate, now)) work_ -= who.work;  // never: it has left a place
  }
}

// All have the same longest wait, so the first to arrive expires first.
void LateLast::DropExpired(TimePoint now, const std::function<void(const Waiting&)>& dropped) {
  while (const Waiting* first = First(late_)) {
    if (now - first->arrived <= hold_) return;
    const Waiting who = Forget(late_.front(), now);
    work_ -= who.work;
    dropped(who);
  }
}

Duration LateLast::oldest(TimePoint now) {
  const Waiting* in_time = First(in_time_);
  const Waiting* late = First(late_);
  const Waiting* first = late != nullptr ? late : in_time;
  return first == nullptr ? Duration() : now - first->arrived;
}

}  // namespace router::sim
