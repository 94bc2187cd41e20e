#include "gateway/queue/model_queue.h"

#include <algorithm>

#include "gateway/net/clock.h"
#include "gateway/runtime.h"
#include "router/admission/room.h"
#include "router/admission/turn_plan.h"

namespace gateway {
namespace {

router::AdmissionSpec SpecOf(const config::Queue& config) {
  router::AdmissionSpec spec{config.max_requests, config.max_bytes, {}};
  for (const config::Band& band : config.bands) spec.bands.push_back({band.name, band.reserved});
  return spec;
}

std::optional<conf::Duration> Known(conf::Duration wait, double pace) {
  return pace > 0 ? std::optional(wait) : std::nullopt;
}

}  // namespace

ModelQueue::ModelQueue(std::string model, const std::function<void()>& on_waiting)
    : model_(std::move(model)), on_waiting_(on_waiting), queue_(SpecOf({})) {
  const std::lock_guard lock(mutex_);
  for (const config::Band& band : config::Queue().bands) bands_.push_back(band.name);
}

void ModelQueue::Configure(const config::Queue& config) {
  const std::lock_guard lock(mutex_);
  queue_.Configure(SpecOf(config));
  bands_.clear();
  for (const config::Band& band : config.bands) bands_.push_back(band.name);
}

// A band that a reload has taken away meanwhile: the least urgent.
uint32_t ModelQueue::IndexOf(std::string_view band) const {
  const auto found = std::ranges::find(bands_, band) - bands_.begin();
  return static_cast<uint32_t>(std::min<ptrdiff_t>(found, std::ssize(bands_) - 1));
}

router::Entered ModelQueue::Enter(const WaiterRef& waiter, const QueueEntry& entry, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  const router::Entered entered = queue_.Enter({.tenant = entry.tenant,
                                                .weight = entry.weight,
                                                .band = IndexOf(entry.band),
                                                .cost = entry.cost,
                                                .bytes = entry.bytes,
                                                .deadline = entry.deadline,
                                                .yields = entry.yields},
                                               now);
  if (entered.refused != router::WaitRefusal::kNone) return entered;
  waiter->ticket = entered.ticket;
  waiters_.emplace(entered.ticket, waiter);
  if (queue_.waiting() == 1) on_waiting_();
  return entered;
}

// Who waits for a model that is gone is called to hear so.
std::optional<router::Turn> ModelQueue::NextTurn(const Runtime& runtime, conf::TimePoint now) {
  const std::optional<router::ModelId> model = runtime.routes().Find(model_);
  if (!model) return queue_.Next(now);
  return router::NextToGo(queue_, runtime.routes(), *model, runtime.load(), called_, runtime.MayStart(*model),
                          now, ties_, [&](router::WaitTicket ticket) {
                            const Waiter& waiter = *waiters_.at(ticket);
                            return router::Asking{runtime.routes().Find(waiter.model).value_or(*model),
                                                  &waiter.facts.get()};
                          });
}

void ModelQueue::Call(const Runtime& runtime, conf::TimePoint now, std::optional<router::ReplicaId> freed) {
  if (waiting() == 0) return;
  if (freed) {
    if (const std::optional<router::ModelId> model = runtime.routes().Find(model_))
      router::RoomMayBeAt(runtime.routes(), *model, runtime.load(), *freed);
  }
  const std::lock_guard lock(mutex_);
  while (queue_.waiting() > 0) {
    const std::optional<router::Turn> turn = NextTurn(runtime, now);
    if (!turn) return;
    const WaiterRef waiter = waiters_.at(turn->ticket);
    if (turn->expired) {
      waiters_.erase(turn->ticket);
    } else {
      ++called_;
    }
    waiter->state.store(turn->expired ? State::kExpired : State::kCalled, std::memory_order_release);
    waiter->loop.Post([waiter] {
      if (waiter->place) waiter->place->Wake();
    });
  }
}

void ModelQueue::PutBack(Waiter& waiter, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  waiter.state.store(State::kWaits, std::memory_order_relaxed);
  queue_.PutBack(waiter.ticket, now);
  --called_;
  if (queue_.waiting() == 1) on_waiting_();
}

void ModelQueue::Leave(Waiter& waiter, bool used, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (waiters_.erase(waiter.ticket) == 0) return;
  if (waiter.state.load(std::memory_order_relaxed) == State::kCalled) {
    --called_;
    if (!used) queue_.PutBack(waiter.ticket, now);  // so that its tenant gets back what it was charged
  }
  queue_.Leave(waiter.ticket, now);
}

void ModelQueue::Learn(const Service& service, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (service.whole) {
    service_.Whole(service.took, service.tokens, now);
  } else {
    service_.FirstByte(service.took, now);
  }
}

conf::Duration ModelQueue::LeastService(const Service& asked, conf::TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return asked.whole ? service_.LeastWhole(asked.tokens, now) : service_.LeastToFirstByte(now);
}

void ModelQueue::Settle(std::string_view tenant, double weight, std::string_view band, double more) {
  const std::lock_guard lock(mutex_);
  queue_.Settle(tenant, weight, IndexOf(band), more);
}

ModelQueue::View ModelQueue::Look(conf::TimePoint now, size_t most) const {
  const std::lock_guard lock(mutex_);
  View view;
  view.drain_per_second = queue_.DrainPerSecond(now);
  double cost = 0;
  for (const router::BandState& band : queue_.Bands(now)) {
    view.bands.push_back({std::string(band.name), band.waiting, band.bytes, band.oldest});
    cost += band.cost;
  }
  if (view.drain_per_second > 0) {
    view.expected_wait = std::chrono::duration_cast<conf::Duration>(
        std::chrono::duration<double>(std::min(cost / view.drain_per_second, 86400.0)));
  }
  for (const router::Entered& standing : queue_.Standings(most, now)) {
    const Waiter& waiter = *waiters_.at(standing.ticket);
    view.requests.push_back({waiter.request, waiter.tenant, waiter.band, standing.ahead, now - waiter.since,
                             Known(standing.expected_wait, view.drain_per_second)});
  }
  return view;
}

QueuePlace::QueuePlace(std::shared_ptr<ModelQueue> queue, net::Loop& loop, const QueueEntry& entry,
                       conf::TimePoint now)
    : sleep_(loop.watchdog),
      queue_(std::move(queue)),
      waiter_(new ModelQueue::Waiter{loop, this, std::string(entry.request), std::string(entry.tenant),
                                     std::string(entry.band), now, std::string(entry.model),
                                     router::KeptFacts(entry.facts)}),
      entry_{waiter_->request, waiter_->tenant, entry.weight,   waiter_->band,
             entry.cost,       entry.bytes,     entry.deadline, entry.yields} {}

router::Entered QueuePlace::Enter(conf::TimePoint now) {
  const router::Entered entered = queue_->Enter(waiter_, entry_, now);
  entered_ = entered.refused == router::WaitRefusal::kNone;
  return entered;
}

net::Task<QueuePlace::Outcome> QueuePlace::Wait() {
  while (!aborted_) {
    switch (waiter_->state.load(std::memory_order_acquire)) {
      case ModelQueue::State::kCalled:
        co_return Outcome::kTurn;
      case ModelQueue::State::kExpired:
        co_return Outcome::kExpired;
      case ModelQueue::State::kWaits:
        break;
    }
    if (net::Now() >= entry_.deadline) co_return Outcome::kExpired;
    co_await sleep_.Until(entry_.deadline);
  }
  co_return Outcome::kAborted;
}

void QueuePlace::Abort() {
  aborted_ = true;
  Wake();
}

void QueuePlace::Leave(conf::TimePoint now, bool used) {
  if (!std::exchange(entered_, false)) return;
  used_ = used;
  queue_->Leave(*waiter_, used, now);
}

QueuePlace::~QueuePlace() {
  waiter_->place = nullptr;
  if (entered_) Leave(net::Now(), false);
}

void QueuePlace::Settle(double cost) {
  if (std::exchange(used_, false))
    queue_->Settle(entry_.tenant, entry_.weight, entry_.band, cost - entry_.cost);
}

std::shared_ptr<ModelQueue> ModelQueues::Get(const std::string& model) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ModelQueue>& queue = by_model_[model];
  if (!queue) queue = std::make_shared<ModelQueue>(model, on_waiting);
  return queue;
}

std::vector<std::shared_ptr<ModelQueue>> ModelQueues::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ModelQueue>> all;
  all.reserve(by_model_.size());
  for (const auto& [model, queue] : by_model_) all.push_back(queue);
  return all;
}

}  // namespace gateway
