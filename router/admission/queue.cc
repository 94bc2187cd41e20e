#include "router/admission/queue.h"

#include "conf/words.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace router {
namespace {

constexpr conf::Duration kUnknownPace = std::chrono::seconds(1);  // the wait that a refusal names then

conf::Duration Seconds(double seconds) {
  constexpr double kMost = 24 * 3600;
  return std::chrono::duration_cast<conf::Duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kMost)));
}

// What is left of `bound` after the unused reserved parts of all other bands. `used`: what a band holds.
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

bool AdmissionQueue::Band::InUse() const {
  return std::ranges::any_of(flows, [](const auto& flow) { return flow.second->tickets > 0; });
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
    if (moved[i] != UINT32_MAX || !bands_[i].InUse()) continue;
    moved[i] = static_cast<uint32_t>(bands.size());
    bands.push_back(std::move(bands_[i]));
    bands.back().spec.reserved = 0;
  }
  for (auto& [ticket, waiter] : waiters_) waiter.band = moved[waiter.band];
  bands_ = std::move(bands);
  spec_ = std::move(spec);
}

// A tenant that returns starts at the service level of those that wait, or at its own if that is higher.
AdmissionQueue::Flow& AdmissionQueue::FlowOf(Band& band, std::string_view tenant, double weight) {
  if (band.flows.size() >= band.sweep_at) {
    absl::erase_if(band.flows, [&](const auto& flow) {
      return flow.second->tickets == 0 && flow.second->served <= band.floor;
    });
    band.sweep_at = std::max<size_t>(64, 2 * band.flows.size());
  }
  std::unique_ptr<Flow>& flow = band.flows[std::string(tenant)];
  if (flow == nullptr) flow = std::make_unique<Flow>(Flow{.tenant = std::string(tenant)});
  if (flow->waiters.empty()) {
    flow->weight = weight;
    flow->served = std::max(flow->served, band.floor);
  }
  return *flow;
}

QueueRefusal AdmissionQueue::RoomFor(const Band& band, const Flow& flow, uint64_t bytes) const {
  const double places =
      LeftByOthers(bands_, &band, spec_.max_requests, [](const Band& b) { return b.waiting; }) -
      waiting_.load(std::memory_order_relaxed);
  const double space = LeftByOthers(bands_, &band, static_cast<double>(spec_.max_bytes),
                                    [](const Band& b) { return b.bytes; }) -
                       static_cast<double>(bytes_);
  if (places < 1 || space < static_cast<double>(bytes)) return QueueRefusal::kQueueFull;
  const bool within = static_cast<double>(flow.waiters.size() + 1) <= 2 * places &&
                      static_cast<double>(flow.bytes + bytes) <= 2 * space;
  return within ? QueueRefusal::kNone : QueueRefusal::kTenantShare;
}

// A fluid model: more urgent bands go first, then all tenants of the band in parallel, by weight, until this
// request is served. A reserved share bounds the delay by other bands.
QueuePosition AdmissionQueue::Estimate(const Band& band, const Flow& flow, double cost, double own_ahead,
                                       conf::TimePoint now) const {
  double more_urgent = 0;
  double all = 0;
  for (const Band& other : bands_) {
    if (&other < &band) more_urgent += other.cost;
    all += other.cost;
  }
  const double weights = band.weight + (flow.waiters.empty() ? flow.weight : 0);
  const double others = std::min(band.cost - flow.cost, (own_ahead + cost) * (weights / flow.weight - 1));
  const double in_band = own_ahead + std::max(0.0, others);
  QueuePosition out;
  const double waiting = waiting_.load(std::memory_order_relaxed);
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
  Flow& flow = *waiter.flow;
  if (waiting_.load(std::memory_order_relaxed) == 0) drain_.Backlogged(true, now);
  if (band.waiting == 0) {
    // It has no claim to the share that it did not use while it had no work.
    double others = 0;
    for (const Band& b : bands_) others += &b == &band ? 0 : b.dispatched;
    const double share = std::min(band.spec.reserved, 0.99);
    band.dispatched = std::max(band.dispatched, others * share / (1 - share));
  }
  if (flow.waiters.empty()) {
    band.active.insert(&flow);
    band.weight += flow.weight;
  }
  flow.waiters.emplace(waiter.due, waiter.sequence, ticket);
  flow.cost += waiter.cost;
  flow.bytes += waiter.bytes;
  band.arrivals.insert({waiter.sequence, waiter.since});
  band.cost += waiter.cost;
  band.bytes += waiter.bytes;
  ++band.waiting;
  bytes_ += waiter.bytes;
  waiting_.fetch_add(1, std::memory_order_relaxed);
}

void AdmissionQueue::Remove(WaitTicket ticket, Waiter& waiter, conf::TimePoint now) {
  Band& band = bands_[waiter.band];
  Flow& flow = *waiter.flow;
  flow.waiters.erase({waiter.due, waiter.sequence, ticket});
  flow.cost -= waiter.cost;
  flow.bytes -= waiter.bytes;
  if (flow.waiters.empty()) {
    flow.cost = 0;  // drops rounding errors
    band.active.erase(&flow);
    if (band.active.empty()) band.floor = std::max(band.floor, flow.served);  // no tenant is owed service
    band.weight = band.active.empty() ? 0 : band.weight - flow.weight;
  }
  band.arrivals.erase({waiter.sequence, waiter.since});
  band.cost = --band.waiting == 0 ? 0 : band.cost - waiter.cost;
  band.bytes -= waiter.bytes;
  bytes_ -= waiter.bytes;
  if (waiting_.fetch_sub(1, std::memory_order_relaxed) == 1) drain_.Backlogged(false, now);
}

void AdmissionQueue::Charge(Band& band, Flow& flow, double cost) {
  const bool active = band.active.erase(&flow) > 0;
  flow.served += cost / flow.weight;
  if (active) band.active.insert(&flow);
}

QueuePosition AdmissionQueue::Enter(const Arrival& arrival, conf::TimePoint now) {
  assert(arrival.weight > 0 && arrival.cost > 0);
  const std::lock_guard lock(mutex_);
  Band& band = bands_[arrival.band];
  Flow& flow = FlowOf(band, arrival.tenant, arrival.weight);
  const conf::TimePoint due =
      arrival.deadline ? *arrival.deadline + arrival.order_delay : conf::TimePoint::max();
  const bool first = arrival.deadline && (flow.waiters.empty() || due < std::get<0>(*flow.waiters.begin()));
  QueuePosition out = Estimate(band, flow, arrival.cost, first ? 0 : flow.cost, now);
  out.refused = RoomFor(band, flow, arrival.bytes);
  if (out.refused != QueueRefusal::kNone) {
    double all = 0;
    for (const Band& b : bands_) all += b.cost;
    const double pace = drain_.PerSecond(now);
    out.expected_wait = pace > 0 ? Seconds(all / 2 / pace) : kUnknownPace;
    return out;
  }
  if (arrival.deadline && now + out.expected_wait > *arrival.deadline) {
    out.refused = QueueRefusal::kTooLate;
    out.expected_wait -= std::max(*arrival.deadline - now, conf::Duration::zero());
    return out;
  }
  out.ticket = ++last_ticket_;
  Waiter& waiter = waiters_[out.ticket];
  waiter = {.flow = &flow,
            .band = arrival.band,
            .cost = arrival.cost,
            .bytes = arrival.bytes,
            .sequence = ++last_sequence_,
            .since = now,
            .deadline = arrival.deadline.value_or(conf::TimePoint::max()),
            .due = due};
  ++flow.tickets;
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
    if (band.waiting == 0) continue;
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
  const double passed = conf::ToSeconds(std::max(now - dispatched_at_, conf::Duration::zero()));
  const double kept = std::exp2(-passed / conf::ToSeconds(DrainRate::kHalfLife));
  for (Band& b : bands_) b.dispatched *= kept;
  dispatched_at_ = now;
  band.dispatched = std::max(0.0, band.dispatched + cost);
}

Dispatch AdmissionQueue::Take(Band& band, WaitTicket ticket, conf::TimePoint now) {
  Waiter& waiter = waiters_.at(ticket);
  Flow& flow = *waiter.flow;
  const Dispatch dispatch{.ticket = ticket, .expired = waiter.deadline < now, .waited = now - waiter.since};
  if (!dispatch.expired) {
    drain_.Dispatched(waiter.cost, now);
    CountDispatched(band, waiter.cost, now);
    band.floor = std::max(band.floor, flow.served);
    Charge(band, flow, waiter.cost);
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
  return Take(*band, std::get<2>(*(*band->active.begin())->waiters.begin()), now);
}

std::optional<Dispatch> AdmissionQueue::Next(conf::TimePoint now, uint32_t considered, const Fits& fits) {
  const std::lock_guard lock(mutex_);
  Band* const first = NextBand();
  if (first == nullptr) return std::nullopt;
  std::vector<Band*> order{first};
  for (Band& band : bands_) {
    if (&band != first && band.waiting > 0) order.push_back(&band);
  }
  for (Band* const band : order) {
    for (Flow* const flow : band->active) {
      for (const auto& [due, sequence, ticket] : flow->waiters) {
        const Waiter& waiter = waiters_.at(ticket);
        if (waiter.deadline < now || fits(ticket)) return Take(*band, ticket, now);
        if (--considered == 0) return std::nullopt;
      }
    }
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
  drain_.Dispatched(-waiter.cost, now);
  CountDispatched(band, -waiter.cost, now);
  Charge(band, *waiter.flow, -waiter.cost);
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
  --at->second.flow->tickets;
  waiters_.erase(at);
}

void AdmissionQueue::Settle(std::string_view tenant, double weight, uint32_t band, double more) {
  const std::lock_guard lock(mutex_);
  Charge(bands_[band], FlowOf(bands_[band], tenant, weight), more);
}

std::optional<QueuePosition> AdmissionQueue::PositionOf(WaitTicket ticket, conf::TimePoint now) const {
  const std::lock_guard lock(mutex_);
  const auto at = waiters_.find(ticket);
  if (at == waiters_.end() || at->second.dispatched) return std::nullopt;
  const Waiter& waiter = at->second;
  double ahead = 0;
  for (const auto& [deadline, sequence, other] : waiter.flow->waiters) {
    if (other == ticket) break;
    ahead += waiters_.at(other).cost;
  }
  QueuePosition out = Estimate(bands_[waiter.band], *waiter.flow, waiter.cost, ahead, now);
  out.ticket = ticket;
  return out;
}

std::vector<QueuePosition> AdmissionQueue::Positions(size_t most, conf::TimePoint now) const {
  struct Line {
    const Band& band;
    const Flow& flow;
    ByDeadline::const_iterator next;
    double ahead = 0;
  };
  const std::lock_guard lock(mutex_);
  std::vector<Line> lines;
  for (const Band& band : bands_) {
    for (const Flow* flow : band.active) {
      if (lines.size() < most) lines.push_back({band, *flow, flow->waiters.begin()});
    }
  }
  std::vector<QueuePosition> out;
  for (bool more = true; more;) {
    more = false;
    for (Line& line : lines) {
      if (out.size() == most || line.next == line.flow.waiters.end()) continue;
      more = true;
      const WaitTicket ticket = std::get<2>(*line.next++);
      const double cost = waiters_.at(ticket).cost;
      out.push_back(Estimate(line.band, line.flow, cost, line.ahead, now));
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
    if (band.waiting == 0 && static_cast<size_t>(&band - bands_.data()) >= spec_.bands.size()) continue;
    out.push_back({.name = band.spec.name, .waiting = band.waiting, .bytes = band.bytes, .cost = band.cost});
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
  for (const Band& band : bands_) count += band.flows.size();
  return count;
}

}  // namespace router
