#include "gateway/shard/model_queue.h"

#include <algorithm>

#include "router/admission/dispatch_plan.h"
#include "router/admission/headroom_search.h"

namespace gateway {
namespace {

// Lines of batches wait behind all bands, in their own band; it has another name if a configured band has this one.
std::string BandOfBatches(const config::Queue& config) {
  constexpr const char* kBatch = "batch";
  const bool is_taken = std::ranges::find(config.bands, kBatch, &config::Band::name) != config.bands.end();
  return is_taken ? "batch lines" : kBatch;
}

router::AdmissionSpec SpecOf(const config::Queue& config) {
  router::AdmissionSpec spec{config.max_requests, config.max_bytes, {}};
  for (const config::Band& band : config.bands) spec.bands.push_back({band.name, band.reserved});
  spec.bands.push_back({.name = BandOfBatches(config), .spare = true});
  return spec;
}

std::vector<std::string> BandNames(const router::AdmissionSpec& spec) {
  std::vector<std::string> names;
  for (const router::BandSpec& band : spec.bands) names.push_back(band.name);
  return names;
}

std::optional<conf::Duration> Known(conf::Duration wait, double pace) {
  return pace > 0 ? std::optional(wait) : std::nullopt;
}

}  // namespace

ModelQueue::ModelQueue(std::string model, const std::function<void()>& on_waiting)
    : model_(std::move(model)), on_waiting_(on_waiting), queue_(SpecOf({})) {
  const std::lock_guard lock(mutex_);
  bands_ = BandNames(SpecOf({}));
}

void ModelQueue::Configure(const config::Queue& config) {
  const std::lock_guard lock(mutex_);
  router::AdmissionSpec spec = SpecOf(config);
  bands_ = BandNames(spec);
  queue_.Configure(std::move(spec));
}

// A band that a reload has removed counts as the least urgent configured one.
uint32_t ModelQueue::IndexOf(const QueueEntry& entry) const {
  const ptrdiff_t of_batches = std::ssize(bands_) - 1;
  if (entry.spare) return static_cast<uint32_t>(of_batches);
  const auto found = std::ranges::find(bands_, entry.band) - bands_.begin();
  return static_cast<uint32_t>(std::min(found, of_batches - 1));
}

router::Arrival ModelQueue::ArrivalOf(const QueueEntry& entry) const {
  return {.tenant = entry.tenant,
          .weight = entry.weight,
          .parent_weights = entry.parent_weights,
          .band = IndexOf(entry),
          .cost = entry.cost,
          .bytes = entry.bytes,
          .deadline = entry.deadline,
          .order_delay = entry.order_delay,
          .replicas_start = entry.replicas_start};
}

router::QueuePosition ModelQueue::Enter(const WaiterRef& waiter, const QueueEntry& entry,
                                        conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  const router::QueuePosition entered = queue_.Enter(ArrivalOf(entry), now);
  if (entered.refused != router::QueueRefusal::kNone) return entered;
  waiter->ticket = entered.ticket;
  waiters_.emplace(entered.ticket, waiter);
  if (queue_.urgent() == 1) on_waiting_();
  return entered;
}

// If the model is no longer configured, its waiters are woken, and their requests fail.
std::optional<router::Dispatch> ModelQueue::NextTurn(const ModelSupply& supply, conf::TimePoint now) {
  if (!supply.model) return queue_.Next(now);
  return router::NextDispatch(queue_, supply.routes, *supply.model, supply.load, called_, supply.may_start,
                              now, ties_, [&](router::WaitTicket ticket) {
                                const Waiter& waiter = *waiters_.at(ticket);
                                return router::WaitingRequest{
                                    supply.routes.Find(waiter.model).value_or(*supply.model),
                                    &waiter.facts.get()};
                              });
}

void ModelQueue::WakeNext(const ModelSupply& supply, conf::TimePoint now,
                          std::optional<router::ReplicaId> freed) {
  if (waiting() == 0) return;
  if (freed && supply.model) router::HintHeadroomAt(supply.routes, *supply.model, supply.load, *freed);
  const std::lock_guard lock(mutex_);
  while (queue_.waiting() > 0) {
    const std::optional<router::Dispatch> turn = NextTurn(supply, now);
    if (!turn) return;
    const WaiterRef waiter = waiters_.at(turn->ticket);
    if (turn->expired) {
      waiters_.erase(turn->ticket);
    } else {
      ++called_;
    }
    waiter->state.store(turn->expired ? TurnState::kExpired : TurnState::kCalled, std::memory_order_release);
    waiter->loop.Post([waiter] {
      if (waiter->sleep) waiter->sleep->Cancel();
    });
  }
}

std::vector<std::string> ModelQueue::WaitedFor() const {
  std::vector<std::string> models;
  const std::lock_guard lock(mutex_);
  for (const auto& [ticket, waiter] : waiters_) {
    if (std::ranges::find(models, waiter->model) == models.end()) models.push_back(waiter->model);
  }
  std::ranges::sort(models);
  return models;
}

void ModelQueue::PutBack(Waiter& waiter, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  waiter.state.store(TurnState::kWaiting, std::memory_order_relaxed);
  queue_.PutBack(waiter.ticket, now);
  --called_;
  if (queue_.urgent() == 1) on_waiting_();
}

void ModelQueue::Leave(Waiter& waiter, bool used, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (waiters_.erase(waiter.ticket) == 0) return;
  if (waiter.state.load(std::memory_order_relaxed) == TurnState::kCalled) {
    --called_;
    if (!used) queue_.PutBack(waiter.ticket, now);  // refunds the tenant's charge for the turn
  }
  queue_.Leave(waiter.ticket, now);
}

void ModelQueue::RecordService(const Service& service, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (service.whole) {
    service_.ObserveWhole(service.took, service.tokens, now);
  } else {
    service_.ObserveFirstByte(service.took, now);
  }
}

conf::Duration ModelQueue::LeastService(const Service& asked, conf::TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return asked.whole ? service_.LeastWhole(asked.tokens, now) : service_.LeastToFirstByte(now);
}

void ModelQueue::Settle(const QueueEntry& entry, double more) {
  const std::lock_guard lock(mutex_);
  queue_.Settle(ArrivalOf(entry), more);
}

ModelQueue::View ModelQueue::Describe(conf::TimePoint now, size_t most) const {
  const std::lock_guard lock(mutex_);
  View view;
  view.drain_per_second = queue_.DrainPerSecond(now);
  double cost = 0;
  for (const router::BandState& band : queue_.Bands(now)) {
    view.bands.push_back({std::string(band.name), band.waiting, band.bytes, band.oldest, band.spare});
    if (!band.spare) cost += band.cost;
  }
  if (view.drain_per_second > 0) {
    view.expected_wait = std::chrono::duration_cast<conf::Duration>(
        std::chrono::duration<double>(std::min(cost / view.drain_per_second, 86400.0)));
  }
  for (const router::QueuePosition& standing : queue_.Positions(most, now)) {
    const Waiter& waiter = *waiters_.at(standing.ticket);
    view.requests.push_back({waiter.request, waiter.tenant, waiter.band, standing.ahead, now - waiter.since,
                             Known(standing.expected_wait, view.drain_per_second)});
  }
  return view;
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
