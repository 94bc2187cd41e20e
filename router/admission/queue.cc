#include "router/admission/queue.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "conf/text.h"
#include "conf/words.h"

namespace router {
namespace {

constexpr conf::Duration kUnknownPace = std::chrono::seconds(1);  // the wait that a refusal names then

conf::Duration Seconds(double seconds) {
  constexpr double kMost = 24 * 3600;
  return std::chrono::duration_cast<conf::Duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kMost)));
}

// The rest of `bound` after the unused reserved parts of all other bands. `used` returns what a band holds.
template <class Bands, class Used>
double LeftByOthers(const Bands& bands, const void* own, double bound, Used used) {
  double left = bound;
  for (const auto& other : bands) {
    if (&other == own) continue;
    left -= std::max(0.0, std::floor(other.spec.reserved * bound) - static_cast<double>(used(other)));
  }
  return left;
}

}  // namespace

constexpr conf::Word<QueueRefusal> kQueueRefusalCodes[] = {
    {"none", QueueRefusal::kNone},
    {"queue_full", QueueRefusal::kQueueFull},
    {"queue_share_exceeded", QueueRefusal::kTenantShare},
    {"deadline_unreachable", QueueRefusal::kTooLate}};

std::string_view CodeName(QueueRefusal refusal) {
  return conf::WordOf(kQueueRefusalCodes, refusal);
}

AdmissionQueue::AdmissionQueue(AdmissionSpec spec) : spec_(std::move(spec)) {
  assert(!spec_.bands.empty());
  const std::lock_guard lock(mutex_);
  for (const BandSpec& band : spec_.bands) bands_.push_back({.spec = band});
}

void AdmissionQueue::Configure(AdmissionSpec spec) {
  assert(!spec.bands.empty());
  const std::lock_guard lock(mutex_);
  std::vector<Band> bands;
  std::vector<uint32_t> moved(bands_.size(), UINT32_MAX);
  for (const BandSpec& wanted : spec.bands) {
    const auto old = std::ranges::find(bands_, wanted.name, [](const Band& b) { return b.spec.name; });
    if (old != bands_.end())
      moved[static_cast<size_t>(old - bands_.begin())] = static_cast<uint32_t>(bands.size());
    bands.push_back(old != bands_.end() ? std::move(*old) : Band());
    bands.back().spec = wanted;
  }
  for (size_t i = 0; i < bands_.size(); ++i) {
    if (moved[i] != UINT32_MAX || bands_[i].root->tickets == 0) continue;
    moved[i] = static_cast<uint32_t>(bands.size());
    bands.push_back(std::move(bands_[i]));
    bands.back().spec.reserved = 0;
  }
  for (auto& [ticket, waiter] : waiters_) waiter.band = moved[waiter.band];
  bands_ = std::move(bands);
  spec_ = std::move(spec);
  urgent_ = 0;
  for (const Band& band : bands_) urgent_ += band.spec.spare ? 0 : band.root->waiting;
}

std::unique_ptr<AdmissionQueue::Share> AdmissionQueue::MakeShare(Share* parent, std::string_view tenant) {
  auto share = std::make_unique<Share>();
  share->parent = parent;
  share->tenant = tenant;
  share->own = std::make_unique<Share>();
  share->own->parent = share.get();
  share->own->tenant = tenant;
  return share;
}

// Drops idle tenants that are owed nothing and have no lead over others. Their parents go in a later sweep.
void AdmissionQueue::DropIdle(Band& band) {
  absl::erase_if(band.tenants, [](const auto& entry) {
    const Share& share = *entry.second;
    if (share.tickets > 0 || share.children > 0 || share.served > share.parent->floor) return false;
    --share.parent->children;
    return true;
  });
  band.sweep_at = std::max<size_t>(64, 2 * band.tenants.size());
}

AdmissionQueue::Share& AdmissionQueue::TenantOf(Band& band, std::string_view path) {
  if (const auto found = band.tenants.find(conf::Abseil(path)); found != band.tenants.end())
    return *found->second;
  const size_t slash = path.rfind('/');
  Share& parent = slash == std::string_view::npos ? *band.root : TenantOf(band, path.substr(0, slash));
  ++parent.children;
  return *(band.tenants[std::string(path)] = MakeShare(&parent, path));
}

// A weight counts from the next dispatch on: service that was received stays as it was counted.
void AdmissionQueue::SetWeights(Share& own, const Arrival& arrival) {
  const auto set = [](Share& share, double weight) {
    if (share.waiting > 0) share.parent->active_weight += weight - share.weight;
    share.weight = weight;
  };
  auto depth = static_cast<size_t>(std::ranges::count(arrival.tenant, '/'));
  double weight = arrival.weight;
  for (Share* share = own.parent; share->parent != nullptr; share = share->parent) {
    set(*share, weight);
    set(*share->own, weight);
    if (depth-- == 0) break;
    weight = depth < arrival.parent_weights.size() ? arrival.parent_weights[depth] : 1;
  }
}

// A tenant that returns starts at the service level of the waiting ones beside it, or at its own if that is higher.
AdmissionQueue::Share& AdmissionQueue::OwnOf(Band& band, std::string_view tenant) {
  if (band.tenants.size() >= band.sweep_at) DropIdle(band);
  Share& own = *TenantOf(band, tenant).own;
  for (Share* share = &own; share->parent != nullptr; share = share->parent) {
    if (share->waiting == 0) share->served = std::max(share->served, share->parent->floor);
  }
  return own;
}

QueueRefusal AdmissionQueue::RoomFor(const Band& band, const Share& own, uint64_t bytes) const {
  double places =
      LeftByOthers(bands_, &band, spec_.max_requests, [](const Band& b) { return b.root->waiting; });
  double space = LeftByOthers(bands_, &band, static_cast<double>(spec_.max_bytes),
                              [](const Band& b) { return b.root->bytes; });
  for (const Band& other : bands_) {
    if (other.spec.spare && !band.spec.spare) continue;
    places -= other.root->waiting;
    space -= static_cast<double>(other.root->bytes);
  }
  if (places < 1 || space < static_cast<double>(bytes)) return QueueRefusal::kQueueFull;
  // From the root down. A tenant that holds `used` of its share can get (2 · free - used) / 3 more until it holds twice
  // what is free then.
  const auto has_room = [&](auto& self, const Share& share) -> bool {
    if (share.parent == nullptr) return true;
    if (!self(self, *share.parent)) return false;
    if (share.IsOwn() && !share.parent->IsShared()) return true;
    const auto waiting = static_cast<double>(share.waiting);
    const auto held = static_cast<double>(share.bytes);
    if (waiting + 1 > 2 * places || held + static_cast<double>(bytes) > 2 * space) return false;
    if (!share.IsOwn() && share.IsShared()) {
      places = (2 * places - waiting) / 3;
      space = (2 * space - held) / 3;
    }
    return true;
  };
  return has_room(has_room, own) ? QueueRefusal::kNone : QueueRefusal::kTenantShare;
}

// A fluid model: more urgent bands go first, then at each level of the tree all parts in parallel, by weight, until this
// request is served. A reserved share bounds the delay by other bands.
QueuePosition AdmissionQueue::Estimate(const Band& band, const Share& own, double cost, double own_ahead,
                                       conf::TimePoint now) const {
  double more_urgent = 0;
  double all = 0;
  double waiting = 0;
  for (const Band& other : bands_) {
    if (other.spec.spare && !band.spec.spare) continue;
    if (&other < &band) more_urgent += other.root->cost;
    all += other.root->cost;
    waiting += other.root->waiting;
  }
  double served = own_ahead + cost;  // until then, of the share
  for (const Share* share = &own; share->parent != nullptr; share = share->parent) {
    const double weights = share->parent->active_weight + (share->waiting == 0 ? share->weight : 0);
    const double others = std::min(share->parent->cost - share->cost, served * (weights / share->weight - 1));
    served += std::max(0.0, others);
  }
  const double in_band = served - cost;
  QueuePosition out;
  if (all > 0) {
    const double ahead = (more_urgent + in_band) * waiting / all;
    out.ahead = static_cast<uint32_t>(std::min(std::round(ahead), waiting));
  }
  if (const double pace = drain_.PerSecond(now); pace > 0) {
    double wait = (more_urgent + in_band) / pace;
    if (band.spec.reserved > 0) wait = std::min(wait, (in_band + cost) / (band.spec.reserved * pace));
    out.expected_wait = Seconds(wait);
  }
  return out;
}

void AdmissionQueue::Join(WaitTicket ticket, Waiter& waiter, conf::TimePoint now) {
  Band& band = bands_[waiter.band];
  if (!band.spec.spare && urgent_.fetch_add(1, std::memory_order_relaxed) == 0) drain_.Backlogged(true, now);
  if (band.root->waiting == 0) {
    // It has no claim to the share that it did not use while it had no work.
    double others = 0;
    for (const Band& b : bands_) others += &b == &band ? 0 : b.dispatched;
    const double share = std::min(band.spec.reserved, 0.99);
    band.dispatched = std::max(band.dispatched, others * share / (1 - share));
  }
  waiter.own->waiters.emplace(waiter.due, waiter.sequence, ticket);
  for (Share* share = waiter.own; share != nullptr; share = share->parent) {
    if (share->waiting++ == 0 && share->parent != nullptr) {
      share->parent->active.insert(share);
      share->parent->active_weight += share->weight;
    }
    share->cost += waiter.cost;
    share->bytes += waiter.bytes;
  }
  band.arrivals.insert({waiter.sequence, waiter.since});
  waiting_.fetch_add(1, std::memory_order_relaxed);
}

void AdmissionQueue::Remove(WaitTicket ticket, Waiter& waiter, conf::TimePoint now) {
  waiter.own->waiters.erase({waiter.due, waiter.sequence, ticket});
  for (Share* share = waiter.own; share != nullptr; share = share->parent) {
    share->bytes -= waiter.bytes;
    if (--share->waiting > 0) {
      share->cost -= waiter.cost;
      continue;
    }
    share->cost = 0;  // drops rounding errors, as below
    if (share->parent == nullptr) break;
    Share& parent = *share->parent;
    parent.active.erase(share);
    if (parent.active.empty())
      parent.floor = std::max(parent.floor, share->served);  // no part is owed service
    parent.active_weight = parent.active.empty() ? 0 : parent.active_weight - share->weight;
  }
  Band& band = bands_[waiter.band];
  band.arrivals.erase({waiter.sequence, waiter.since});
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  if (!band.spec.spare && urgent_.fetch_sub(1, std::memory_order_relaxed) == 1) drain_.Backlogged(false, now);
}

void AdmissionQueue::Charge(Share& own, double cost) {
  for (Share* share = &own; share->parent != nullptr; share = share->parent) {
    const bool active = share->waiting > 0;
    if (active) share->parent->active.erase(share);
    share->served += cost / share->weight;
    if (active) share->parent->active.insert(share);
  }
}

QueuePosition AdmissionQueue::Enter(const Arrival& arrival, conf::TimePoint now) {
  assert(arrival.weight > 0 && arrival.cost > 0);
  const std::lock_guard lock(mutex_);
  Band& band = bands_[arrival.band];
  Share& own = OwnOf(band, arrival.tenant);
  SetWeights(own, arrival);
  const conf::TimePoint due =
      arrival.deadline ? *arrival.deadline + arrival.order_delay : conf::TimePoint::max();
  if (arrival.replicas_start) drain_.ReplicasStart();
  const bool first = arrival.deadline && (own.waiters.empty() || due < std::get<0>(*own.waiters.begin()));
  QueuePosition out = Estimate(band, own, arrival.cost, first ? 0 : own.cost, now);
  out.refused = RoomFor(band, own, arrival.bytes);
  if (out.refused != QueueRefusal::kNone) {
    double all = 0;
    for (const Band& b : bands_) all += b.spec.spare && !band.spec.spare ? 0 : b.root->cost;
    const double pace = drain_.PerSecond(now);
    out.expected_wait = pace > 0 ? Seconds(all / 2 / pace) : kUnknownPace;
    return out;
  }
  // The pace is that of the others: of spare requests it says nothing.
  if (arrival.deadline && !arrival.replicas_start && !band.spec.spare &&
      now + out.expected_wait > *arrival.deadline) {
    out.refused = QueueRefusal::kTooLate;
    out.expected_wait -= std::max(*arrival.deadline - now, conf::Duration::zero());
    return out;
  }
  out.ticket = ++last_ticket_;
  Waiter& waiter = waiters_[out.ticket];
  waiter = {.own = &own,
            .band = arrival.band,
            .cost = arrival.cost,
            .bytes = arrival.bytes,
            .sequence = ++last_sequence_,
            .since = now,
            .deadline = arrival.deadline.value_or(conf::TimePoint::max()),
            .due = due};
  for (Share* share = &own; share != nullptr; share = share->parent) ++share->tickets;
  Join(out.ticket, waiter, now);
  return out;
}

// The band that is furthest behind its reserved share, else the most urgent one.
AdmissionQueue::Band* AdmissionQueue::NextBand() {
  double all = 0;
  for (const Band& band : bands_) all += band.dispatched;
  Band* next = nullptr;
  double least = 1;
  for (Band& band : bands_) {
    if (band.root->waiting == 0) continue;
    if (next == nullptr) next = &band;
    const double owed = band.spec.reserved * all;
    if (owed > 0 && band.dispatched / owed < least) {
      least = band.dispatched / owed;
      next = &band;
    }
  }
  return next;
}

void AdmissionQueue::CountDispatched(Band& band, double cost, conf::TimePoint now) {
  if (band.spec.spare) return;
  drain_.Dispatched(cost, now);
  const double passed = conf::ToSeconds(std::max(now - dispatched_at_, conf::Duration::zero()));
  const double kept = std::exp2(-passed / conf::ToSeconds(DrainRate::kHalfLife));
  for (Band& b : bands_) b.dispatched *= kept;
  dispatched_at_ = now;
  band.dispatched = std::max(0.0, band.dispatched + cost);
}

Dispatch AdmissionQueue::Take(Band& band, WaitTicket ticket, conf::TimePoint now) {
  Waiter& waiter = waiters_.at(ticket);
  const Dispatch dispatch{.ticket = ticket, .expired = waiter.deadline < now, .waited = now - waiter.since};
  if (!dispatch.expired) {
    CountDispatched(band, waiter.cost, now);
    for (Share* share = waiter.own; share->parent != nullptr; share = share->parent)
      share->parent->floor = std::max(share->parent->floor, share->served);
    Charge(*waiter.own, waiter.cost);
  }
  Remove(ticket, waiter, now);
  waiter.dispatched = !dispatch.expired;
  if (dispatch.expired) Forget(ticket);
  return dispatch;
}

std::optional<Dispatch> AdmissionQueue::Next(conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  Band* const band = NextBand();
  if (band == nullptr) return std::nullopt;
  const Share* share = band->root.get();
  while (!share->IsOwn()) share = *share->active.begin();
  return Take(*band, std::get<2>(*share->waiters.begin()), now);
}

// `considered` falls with each request that was asked; none is asked once it is 0.
std::optional<WaitTicket> AdmissionQueue::FirstThatFits(const Share& share, conf::TimePoint now,
                                                        uint32_t& considered, const Fits& fits) const {
  for (const auto& [due, sequence, ticket] : share.waiters) {
    if (considered == 0) return std::nullopt;
    if (waiters_.at(ticket).deadline < now || fits(ticket)) return ticket;
    --considered;
  }
  for (const Share* const part : share.active) {
    if (considered == 0) return std::nullopt;
    if (const auto found = FirstThatFits(*part, now, considered, fits)) return found;
  }
  return std::nullopt;
}

std::optional<Dispatch> AdmissionQueue::Next(conf::TimePoint now, uint32_t considered, const Fits& fits) {
  const std::lock_guard lock(mutex_);
  Band* const first = NextBand();
  if (first == nullptr) return std::nullopt;
  std::vector<Band*> order{first};
  for (Band& band : bands_) {
    if (&band != first && band.root->waiting > 0) order.push_back(&band);
  }
  for (Band* const band : order) {
    if (const auto ticket = FirstThatFits(*band->root, now, considered, fits))
      return Take(*band, *ticket, now);
  }
  return std::nullopt;
}

void AdmissionQueue::PutBack(WaitTicket ticket, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto at = waiters_.find(ticket);
  if (at == waiters_.end() || !at->second.dispatched) return;
  Waiter& waiter = at->second;
  Band& band = bands_[waiter.band];
  waiter.dispatched = false;
  CountDispatched(band, -waiter.cost, now);
  Charge(*waiter.own, -waiter.cost);
  Join(ticket, waiter, now);
}

void AdmissionQueue::Leave(WaitTicket ticket, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto at = waiters_.find(ticket);
  if (at == waiters_.end()) return;
  if (!at->second.dispatched) Remove(ticket, at->second, now);
  Forget(ticket);
}

void AdmissionQueue::Forget(WaitTicket ticket) {
  const auto at = waiters_.find(ticket);
  for (Share* share = at->second.own; share != nullptr; share = share->parent) --share->tickets;
  waiters_.erase(at);
}

// The weights that the request came with may be old: they count only where nothing else is known.
void AdmissionQueue::Settle(const Arrival& arrival, double more) {
  const std::lock_guard lock(mutex_);
  Band& band = bands_[arrival.band];
  const bool known = band.tenants.contains(conf::Abseil(arrival.tenant));
  Share& own = OwnOf(band, arrival.tenant);
  if (!known) SetWeights(own, arrival);
  Charge(own, more);
}

std::optional<QueuePosition> AdmissionQueue::PositionOf(WaitTicket ticket, conf::TimePoint now) const {
  const std::lock_guard lock(mutex_);
  const auto at = waiters_.find(ticket);
  if (at == waiters_.end() || at->second.dispatched) return std::nullopt;
  const Waiter& waiter = at->second;
  double ahead = 0;
  for (const auto& [deadline, sequence, other] : waiter.own->waiters) {
    if (other == ticket) break;
    ahead += waiters_.at(other).cost;
  }
  QueuePosition out = Estimate(bands_[waiter.band], *waiter.own, waiter.cost, ahead, now);
  out.ticket = ticket;
  return out;
}

std::vector<QueuePosition> AdmissionQueue::Positions(size_t most, conf::TimePoint now) const {
  struct Line {
    const Band& band;
    const Share& own;
    ByDeadline::const_iterator next;
    double ahead = 0;
  };
  const std::lock_guard lock(mutex_);
  std::vector<Line> lines;
  for (const Band& band : bands_) {
    // Level by level, so that the children of one tenant do not hide other tenants.
    std::vector<const Share*> shares{band.root.get()};
    for (size_t i = 0; i < shares.size() && lines.size() < most; ++i) {
      const Share& share = *shares[i];
      shares.insert(shares.end(), share.active.begin(), share.active.end());
      if (share.IsOwn()) lines.push_back({band, share, share.waiters.begin()});
    }
  }
  std::vector<QueuePosition> out;
  for (bool more = true; more;) {
    more = false;
    for (Line& line : lines) {
      if (out.size() == most || line.next == line.own.waiters.end()) continue;
      more = true;
      const WaitTicket ticket = std::get<2>(*line.next++);
      const double cost = waiters_.at(ticket).cost;
      out.push_back(Estimate(line.band, line.own, cost, line.ahead, now));
      out.back().ticket = ticket;
      line.ahead += cost;
    }
  }
  std::ranges::sort(out, {}, [](const QueuePosition& e) { return std::pair(e.ahead, e.ticket); });
  return out;
}

std::vector<BandState> AdmissionQueue::Bands(conf::TimePoint now) const {
  const std::lock_guard lock(mutex_);
  std::vector<BandState> out;
  for (const Band& band : bands_) {
    const Share& all = *band.root;
    const bool is_configured = static_cast<size_t>(&band - bands_.data()) < spec_.bands.size();
    if (all.waiting == 0 && (!is_configured || band.spec.spare)) continue;
    out.push_back({.name = band.spec.name,
                   .waiting = all.waiting,
                   .bytes = all.bytes,
                   .cost = all.cost,
                   .spare = band.spec.spare});
    if (!band.arrivals.empty()) out.back().oldest = now - band.arrivals.begin()->second;
  }
  return out;
}

double AdmissionQueue::DrainPerSecond(conf::TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return drain_.PerSecond(now);
}

size_t AdmissionQueue::tenants() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const Band& band : bands_) count += band.tenants.size();
  return count;
}

}  // namespace router
