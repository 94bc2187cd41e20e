// ModelQueue: the requests of this process that wait for a model. It wakes them when their turn comes.
//
// router::NextDispatch decides which request goes next and whether a replica has room for it. The queue carries that
// decision between threads: a request waits on its shard, and WakeNext() on any thread wakes it there. It wakes at
// most one waiter per replica with room, and a wake-up ends when its request is charged to a replica. So free room
// does not wake every waiter. WakeNext() is called whenever a replica may have room (a first token, an end, a used
// turn), and by QueueTicks every few milliseconds, so that a lost signal delays a request only briefly.
//
// One queue per model name that was ever configured: the queue and its waiters outlive a reload.
// Thread-safe: one short lock, which a request that does not wait never takes.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/config/queue.h"
#include "gateway/net/loop.h"
#include "gateway/net/transport.h"
#include "router/admission/queue.h"
#include "router/admission/service_pace.h"
#include "router/pick.h"
#include "router/routes/route_table.h"

namespace gateway {

// The facts that a request gives to its queue. The caller owns texts and weights.
struct QueueEntry {
  std::string_view request{};  // its id
  std::string_view tenant{};
  double weight = 1;
  std::span<const double> parent_weights{};  // as in router::Arrival
  std::string_view band{};
  bool spare = false;  // a line of a batch: waits behind all bands
  double cost = 1;     // as in router::Arrival
  uint64_t bytes = 0;  // held while the request waits
  conf::TimePoint deadline{};
  conf::Duration order_delay{};  // as in router::Arrival
  bool replicas_start = false;   // likewise
  std::string_view model{};      // the asked model: the queue's, or an adapter on it
  router::PickFacts facts{};     // for the choice of a replica
};

// The replicas that serve a queue's model now. Refers into one Runtime.
struct ModelSupply {
  const router::RouteTable& routes;
  const router::LoadView& load;
  std::optional<router::ModelId> model;  // none: the model is no longer configured
  bool may_start = false;                // a replica may be started for a request that finds none
};

class ModelQueue {
 public:
  enum class TurnState : uint8_t { kWaiting, kCalled, kExpired };

  // One waiting request. Created on its shard; the queue and pending wake-ups share it.
  struct Waiter {
    net::Loop& loop;
    net::Sleep* sleep;  // ends when the waiter is woken; null after the request has left. Thread: the shard's
    const std::string request;
    const std::string tenant;
    const std::vector<double> parent_weights;
    const std::string band;
    const bool spare;
    const conf::TimePoint since;
    const std::string model;
    const router::OwnedPickFacts facts;
    router::WaitTicket ticket = 0;
    std::atomic<TurnState> state{TurnState::kWaiting};
  };
  using WaiterRef = std::shared_ptr<Waiter>;

  // `on_waiting` is called on any thread when a request enters the empty queue.
  ModelQueue(std::string model, const std::function<void()>& on_waiting);

  const std::string& model() const { return model_; }

  void Configure(const config::Queue& config);

  uint32_t waiting() const { return queue_.waiting(); }
  // The number of waiting requests without lines of batches.
  uint32_t urgent() const { return queue_.urgent(); }

  // The models for which requests wait: this queue's model, or adapters on it.
  std::vector<std::string> WaitedFor() const;

  // Wakes the next waiters while replicas have room. Wakes all of them if no replica can be used and none may be
  // started: they fail at once. `freed`: the replica that may have room now. `supply` must come from the latest
  // runtime.
  void WakeNext(const ModelSupply& supply, conf::TimePoint now, std::optional<router::ReplicaId> freed = {});

  // Used by QueuePlace, on the waiter's shard.
  router::QueuePosition Enter(const WaiterRef& waiter, const QueueEntry& entry, conf::TimePoint now);
  // The woken waiter cannot use its turn now: it waits again in its old position.
  void PutBack(Waiter& waiter, conf::TimePoint now);
  // The request no longer waits. `used`: it was charged to a replica.
  void Leave(Waiter& waiter, bool used, conf::TimePoint now);

  // How long an answer took. From these measurements the queue estimates the least time that a request needs after its
  // turn.
  struct Service {
    bool whole = false;     // the answer is not streamed
    int64_t tokens = 0;     // of the answer; in a question for an estimate: its bound, or 0
    conf::Duration took{};  // until its first byte, or the last byte of a whole answer
  };
  void RecordService(const Service& service, conf::TimePoint now);
  conf::Duration LeastService(const Service& asked, conf::TimePoint now) const;

  // Changes the tenant's charge for the turn by `more`, which may be negative.
  void Settle(const QueueEntry& entry, double more);

  // --- For operators ---

  struct Band {
    std::string name;
    uint32_t waiting = 0;
    uint64_t bytes = 0;
    conf::Duration oldest{};
    bool spare = false;  // the band of lines of batches
  };
  struct Standing {
    std::string request;
    std::string tenant;
    std::string band;
    uint32_t ahead = 0;  // about this many requests go first
    conf::Duration waited{};
    std::optional<conf::Duration> expected_wait{};  // none if the pace is unknown
  };
  struct View {
    std::vector<Band> bands;
    double drain_per_second = 0;                    // in units of cost; 0: unknown
    std::optional<conf::Duration> expected_wait{};  // for a request that enters now, behind all others
    std::vector<Standing> requests;                 // in the order of their turns
  };
  // Describes the queue with at most `most` of its waiting requests.
  View Describe(conf::TimePoint now, size_t most) const;

 private:
  uint32_t IndexOf(const QueueEntry& entry) const;
  router::Arrival ArrivalOf(const QueueEntry& entry) const;
  std::optional<router::Dispatch> NextTurn(const ModelSupply& supply, conf::TimePoint now);

  const std::string model_;
  const std::function<void()>& on_waiting_;
  router::AdmissionQueue queue_;
  mutable std::mutex mutex_;
  router::ServicePace service_;
  scheduler::Rng ties_{1};
  std::vector<std::string> bands_;                              // their names, in the order of queue_
  absl::flat_hash_map<router::WaitTicket, WaiterRef> waiters_;  // including called ones
  uint32_t called_ = 0;  // woken waiters that have not used their turns yet
};

// The queues of every model that was ever configured, by name. Thread-safe.
class ModelQueues {
 public:
  std::shared_ptr<ModelQueue> Get(const std::string& model);
  std::vector<std::shared_ptr<ModelQueue>> All() const;

  // Called on any thread when a request enters an empty queue. Set before threads start.
  std::function<void()> on_waiting = [] {};

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ModelQueue>> by_model_;
};

}  // namespace gateway
