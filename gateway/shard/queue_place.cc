#include "gateway/shard/queue_place.h"

#include <utility>

#include "gateway/net/clock.h"

namespace gateway {

QueuePlace::QueuePlace(std::shared_ptr<ModelQueue> queue, net::Loop& loop, const QueueEntry& entry,
                       conf::TimePoint now)
    : sleep_(loop.watchdog),
      queue_(std::move(queue)),
      waiter_(new ModelQueue::Waiter{loop,
                                     &sleep_,
                                     std::string(entry.request),
                                     std::string(entry.tenant),
                                     {entry.parent_weights.begin(), entry.parent_weights.end()},
                                     std::string(entry.band),
                                     entry.spare,
                                     now,
                                     std::string(entry.model),
                                     router::OwnedPickFacts(entry.facts)}),
      entry_(new QueueEntry{.request = waiter_->request,
                            .tenant = waiter_->tenant,
                            .weight = entry.weight,
                            .parent_weights = waiter_->parent_weights,
                            .band = waiter_->band,
                            .spare = entry.spare,
                            .cost = entry.cost,
                            .bytes = entry.bytes,
                            .deadline = entry.deadline,
                            .order_delay = entry.order_delay,
                            .replicas_start = entry.replicas_start}),
      weight_(entry.weight),
      cost_(entry.cost),
      deadline_(entry.deadline) {}

router::QueuePosition QueuePlace::Enter(conf::TimePoint now) {
  const router::QueuePosition entered = queue_->Enter(waiter_, *std::exchange(entry_, nullptr), now);
  entered_ = entered.refused == router::QueueRefusal::kNone;
  return entered;
}

net::Task<QueuePlace::Outcome> QueuePlace::Wait() {
  while (!aborted_) {
    switch (waiter_->state.load(std::memory_order_acquire)) {
      case ModelQueue::TurnState::kCalled:
        co_return Outcome::kTurn;
      case ModelQueue::TurnState::kExpired:
        co_return Outcome::kExpired;
      case ModelQueue::TurnState::kWaiting:
        break;
    }
    if (net::Now() >= deadline_) co_return Outcome::kExpired;
    co_await sleep_.Until(deadline_);
  }
  co_return Outcome::kAborted;
}

void QueuePlace::Abort() {
  aborted_ = true;
  sleep_.Cancel();
}

void QueuePlace::Leave(conf::TimePoint now, bool used) {
  if (!std::exchange(entered_, false)) return;
  used_ = used;
  queue_->Leave(*waiter_, used, now);
}

QueuePlace::~QueuePlace() {
  waiter_->sleep = nullptr;
  if (entered_) Leave(net::Now(), false);
}

void QueuePlace::Settle(double cost) {
  if (!std::exchange(used_, false)) return;
  queue_->Settle({.request = waiter_->request,
                  .tenant = waiter_->tenant,
                  .weight = weight_,
                  .parent_weights = waiter_->parent_weights,
                  .band = waiter_->band,
                  .spare = waiter_->spare,
                  .deadline = deadline_},
                 cost - cost_);
}

}  // namespace gateway
