#include "router/limits/share.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "router/limits/sliding_window.h"

namespace router::limits {
namespace {

// A gateway without demand keeps one part in so many of an equal share, for its next requests.
constexpr int64_t kIdlePart = 4;

// Longer than any budget period.
constexpr conf::Duration kWholePeriod = std::chrono::hours(24 * 32);

// The amount that a gateway could use. For a consumable limit: the amount in use, twice the amount admitted since the
// last claim, and the refused amount. For concurrency, which is not consumed: its peak, and the refused amount.
int64_t Want(const LimitRef& limit, const LimitRef::Demand& demand) {
  return ShapeOf(limit.spec().dimension) == Shape::kGauge
             ? demand.most_used + demand.refused
             : demand.used + 2 * demand.admitted + demand.refused;
}

conf::TimePoint ToMillis(conf::TimePoint t) {
  return std::chrono::floor<std::chrono::milliseconds>(t);
}

// Max-min fair: no gateway gets more than it wants while one that wants more has less. What is left is
// divided equally, so that a burst need not ask first; remainders go to the first names. One part more stays
// free where a gateway is missing.
int64_t FairTarget(const StoreState& state, const std::string& gateway, int64_t capacity,
                   conf::TimePoint now) {
  struct Member {
    int64_t want;
    const std::string* name;
  };
  std::vector<Member> members;
  bool one_is_missing = false;
  for (const auto& [name, lease] : state.leases) {
    if (now < lease.alive_until) {
      members.push_back({lease.want, &name});
    } else {
      capacity -= lease.held;
      one_is_missing = one_is_missing || lease.held > 0;
    }
  }
  capacity = std::max<int64_t>(capacity, 0);
  const auto count = static_cast<int64_t>(members.size());
  const int64_t least = capacity / (kIdlePart * count);
  for (Member& m : members) m.want = std::max(m.want, least);
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return std::tie(a.want, *a.name) < std::tie(b.want, *b.name);
  });

  int64_t left = capacity;
  int64_t waiting = count;
  int64_t target = 0;
  for (const Member& m : members) {
    const int64_t part = std::min(m.want, left / waiting);
    if (*m.name == gateway) target = part;
    left -= part;
    --waiting;
  }
  if (one_is_missing) return target + left / (count + 1);
  int64_t before = 0;  // live gateways whose names come first
  for (const Member& m : members) before += *m.name < gateway ? 1 : 0;
  return target + left / count + (before < left % count ? 1 : 0);
}

}  // namespace

ShareGrant GrantShare(StoreState& state, const Claim& claim, conf::TimePoint exact_now) {
  const conf::TimePoint now = ToMillis(exact_now);
  if (!state.opened || now > state.last + claim.ttl) state.opened = now;
  state.last = now;
  std::erase_if(state.leases, [&](const auto& entry) { return entry.second.kept_until <= now; });

  ShareGrant grant;
  int64_t held = claim.held;
  if (const auto it = state.leases.find(claim.gateway); it != state.leases.end()) {
    if (claim.seq <= it->second.seq) return grant;
    if (claim.first) held = std::max(held, it->second.held);
  }
  StoreState::Lease& lease = state.leases[claim.gateway];
  lease.seq = claim.seq;
  lease.held = held;
  lease.want = std::clamp<int64_t>(claim.want, 0, claim.capacity);
  lease.alive_until = now + std::max<conf::Duration>(claim.ttl, std::chrono::milliseconds(1));
  lease.kept_until = lease.alive_until + claim.linger;

  int64_t sum = 0;
  for (const auto& [name, other] : state.leases) {
    sum += other.held;
    grant.gateways += now < other.alive_until ? 1 : 0;
  }
  const int64_t room = claim.capacity - sum;
  grant.accepted = true;
  grant.recovering = now < *state.opened + claim.recovery;
  grant.target = grant.recovering ? held : FairTarget(state, claim.gateway, claim.capacity, now);
  if (room < 0) {
    // Others took the room while this gateway was away. The lease keeps what it still holds until that
    // shrinks.
    grant.share = std::max<int64_t>(held + room, 0);
  } else {
    lease.held += std::clamp<int64_t>(grant.target - held, 0, room);
    grant.share = lease.held;
  }
  grant.held = sum - held + lease.held;
  return grant;
}

ShareHolder::ShareHolder(std::string gateway, LimitRef limit, SharePolicy policy, uint64_t first_seq,
                         conf::TimePoint now)
    : gateway_(std::move(gateway)),
      limit_(std::move(limit)),
      policy_(policy),
      seq_(first_seq),
      share_(policy.asks_first ? 0 : policy.initial_share),
      target_(share_),
      valid_until_(now + policy.ttl) {
  limit_.SetShare(share_, now);
}

Claim ShareHolder::Next(conf::TimePoint now) {
  share_ = std::min(share_, target_);
  const LimitRef::Demand demand = limit_.TakeDemand(now);
  sent_at_ = now;
  Claim claim;
  claim.gateway = gateway_;
  claim.seq = ++seq_;
  claim.first = !answered_;
  claim.capacity = demand.capacity;
  claim.held = limit_.SetShare(share_, now);
  claim.want = std::min(demand.capacity, Want(limit_, demand));
  claim.ttl = policy_.ttl;
  claim.linger = Linger();
  claim.recovery = policy_.recovery;
  return claim;
}

bool ShareHolder::Apply(const ShareGrant& grant, uint64_t seq, conf::TimePoint now) {
  const bool expired = now >= sent_at_ + policy_.ttl;
  if (!grant.accepted || seq != seq_ || expired) return false;
  // Into an empty store every gateway brings what it holds.
  const bool brings = grant.recovering && policy_.asks_first && !answered_;
  share_ = brings ? std::max(grant.share, policy_.initial_share) : grant.share;
  target_ = brings ? share_ : grant.target;
  answered_ = true;
  limit_.SetShare(share_, now);
  valid_until_ = sent_at_ + policy_.ttl;
  return true;
}

void ShareHolder::OnNoAnswer(conf::TimePoint now) {
  if (answered_ || !policy_.asks_first || share_ > 0) return;
  if (Stale(now) && policy_.on_loss == OnLoss::kFailClosed) return;
  share_ = target_ = policy_.initial_share;
  limit_.SetShare(share_, now);
}

void ShareHolder::Tick(conf::TimePoint now) {
  if (!Stale(now) || policy_.on_loss != OnLoss::kFailClosed || share_ == 0) return;
  share_ = 0;
  limit_.SetShare(0, now);
}

std::string ShareHolder::StoreKey(conf::TimePoint now) const {
  const LimitSpec& spec = limit_.spec();
  if (ShapeOf(spec.dimension) != Shape::kPeriod) return limit_.Id();
  return fmt::format("{}|{}", limit_.Id(), conf::ToUnixMicros(BoundsOf(spec.period, now).start) / 1'000'000);
}

conf::Duration ShareHolder::Linger() const {
  switch (ShapeOf(limit_.spec().dimension)) {
    case Shape::kWindow:
      return std::chrono::seconds(SlidingWindow::kSeconds + 1);
    case Shape::kGauge:
      return policy_.stream_linger;
    case Shape::kPeriod:
      break;
  }
  return kWholePeriod;
}

}  // namespace router::limits
