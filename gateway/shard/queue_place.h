// QueuePlace: one request's place in a model's queue, and then its turn.
//
// Owner: the exchange, on its shard. Leaves the queue when it is destroyed.
#pragma once

#include <memory>

#include "gateway/net/loop.h"
#include "gateway/net/task.h"
#include "gateway/net/transport.h"
#include "gateway/shard/model_queue.h"

namespace gateway {

class QueuePlace final : public net::Abortable {
 public:
  enum class Outcome : uint8_t { kTurn, kExpired, kAborted };

  QueuePlace(std::shared_ptr<ModelQueue> queue, net::Loop& loop, const QueueEntry& entry,
             conf::TimePoint now);
  ~QueuePlace();

  // Called once, before any other call: the request is refused, or waits from now on.
  router::QueuePosition Enter(conf::TimePoint now);
  // Ends with the request's turn, its deadline, or Abort().
  net::Task<Outcome> Wait();
  // The turn cannot be used now: the request waits again in its old position. The caller wakes the next waiter.
  void PutBack(conf::TimePoint now) { queue_->PutBack(*waiter_, now); }
  // The request has been charged to a replica. The caller wakes the next waiter.
  void UseTurn(conf::TimePoint now) { Leave(now, true); }
  // Replaces the estimated cost of a used turn by its actual cost.
  void Settle(double cost);

  ModelQueue& queue() { return *queue_; }
  void Abort() override;

 private:
  void Leave(conf::TimePoint now, bool used);

  net::Sleep sleep_;
  const std::shared_ptr<ModelQueue> queue_;
  const ModelQueue::WaiterRef waiter_;
  std::unique_ptr<const QueueEntry> entry_;  // freed by Enter(), because ten thousand requests may wait
  const double weight_;
  const double cost_;
  const conf::TimePoint deadline_;
  bool entered_ = false;
  bool used_ = false;
  bool aborted_ = false;
};

}  // namespace gateway
