// ModelQueue: the requests of this process that wait for a model, and how they are called when their turn
// comes.
//
// Who goes next, and whether there is room for it, is router::NextToGo's to say; here turns are handed over
// the threads: a request waits on its shard, and Call() on any thread wakes it there. Called are only as many
// at a time as there are replicas with room, each until it has been charged to one, so nobody herds; Call()
// is made whenever a place may have become free (a first token, an end, a turn used) and by QueueTicks now
// and then, so a signal that got lost delays nobody for long.
//
// One for each model that was ever configured, by name: it outlives reloads, and so do those who wait in it.
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
#include "router/route_table.h"

namespace gateway {

class QueuePlace;
class Runtime;

// What a request says of itself when it comes to wait.
struct QueueEntry {
  std::string_view request;  // its id
  std::string_view tenant;
  double weight = 1;
  std::string_view band;
  double cost = 1;     // as router::Arrival counts it
  uint64_t bytes = 0;  // that it holds while it waits
  conf::TimePoint deadline;
  conf::Duration yields{};    // as router::Arrival counts it
  std::string_view model{};   // that it asks for: this one, or an adapter on it
  router::PickFacts facts{};  // by which a replica will be chosen
};

class ModelQueue {
 public:
  // `on_waiting` is called, on any thread, when somebody comes to wait where nobody did.
  ModelQueue(std::string model, const std::function<void()>& on_waiting);

  const std::string& model() const { return model_; }

  void Configure(const config::Queue& config);

  uint32_t waiting() const { return queue_.waiting(); }

  // Calls whose turn it is, while replicas have room; all, when no replica can be used at all and none may be
  // started, since the answer to that is not worth waiting for. `freed`: the replica that may have room now.
  // `runtime` is the latest one.
  void Call(const Runtime& runtime, conf::TimePoint now, std::optional<router::ReplicaId> freed = {});

  // What answers of this model took, while somebody waits; by it and by what is measured later, what one will
  // take at the least once its turn has come.
  struct Service {
    bool whole = false;     // the answer comes whole
    int64_t tokens = 0;     // of it; of one that is asked for: the most that it may have, 0 without a bound
    conf::Duration took{};  // to its first byte, or to the last of one that came whole
  };
  void Learn(const Service& service, conf::TimePoint now);
  conf::Duration LeastService(const Service& asked, conf::TimePoint now) const;

  // What a turn cost in truth, beyond what was charged for it, or below.
  void Settle(std::string_view tenant, double weight, std::string_view band, double more);

  // --- For operators ---

  struct Band {
    std::string name;
    uint32_t waiting = 0;
    uint64_t bytes = 0;
    conf::Duration oldest{};
  };
  struct Standing {
    std::string request;
    std::string tenant;
    std::string band;
    uint32_t ahead = 0;  // about so many go before it
    conf::Duration waited{};
    std::optional<conf::Duration> expected_wait{};  // nothing while the pace is not known
  };
  struct View {
    std::vector<Band> bands;
    double drain_per_second = 0;                    // of cost; 0: not known
    std::optional<conf::Duration> expected_wait{};  // of one who comes now, behind all
    std::vector<Standing> requests;                 // who goes next first
  };
  // With at most `most` of those who wait.
  View Look(conf::TimePoint now, size_t most) const;

 private:
  friend class QueuePlace;
  enum class State : uint8_t { kWaits, kCalled, kExpired };

  // Made on its shard; the queue and calls on their way to it hold it too.
  struct Waiter {
    net::Loop& loop;
    QueuePlace* place;  // shard's thread; null when the request has gone
    const std::string request;
    const std::string tenant;
    const std::string band;
    const conf::TimePoint since;
    const std::string model;  // that it asks for
    const router::KeptFacts facts;
    router::WaitTicket ticket = 0;
    std::atomic<State> state{State::kWaits};
  };
  using WaiterRef = std::shared_ptr<Waiter>;

  router::Entered Enter(const WaiterRef& waiter, const QueueEntry& entry, conf::TimePoint now);
  void PutBack(Waiter& waiter, conf::TimePoint now);
  // It waits no more, or has used its turn.
  void Leave(Waiter& waiter, bool used, conf::TimePoint now);
  uint32_t IndexOf(std::string_view band) const;
  std::optional<router::Turn> NextTurn(const Runtime& runtime, conf::TimePoint now);

  const std::string model_;
  const std::function<void()>& on_waiting_;
  router::AdmissionQueue queue_;
  mutable std::mutex mutex_;
  router::ServicePace service_;
  scheduler::Rng ties_{1};
  std::vector<std::string> bands_;                              // as the queue knows them
  absl::flat_hash_map<router::WaitTicket, WaiterRef> waiters_;  // and those who were called
  uint32_t called_ = 0;                                         // that have not used their turns yet
};

// One request's place in a queue, and then its turn. Owner: the exchange, on its shard; leaves when it ends.
class QueuePlace final : public net::Abortable {
 public:
  enum class Outcome : uint8_t { kTurn, kExpired, kAborted };

  QueuePlace(std::shared_ptr<ModelQueue> queue, net::Loop& loop, const QueueEntry& entry,
             conf::TimePoint now);
  ~QueuePlace();

  // Once, at first: refused, or it waits from now on.
  router::Entered Enter(conf::TimePoint now);
  // Until its turn, its deadline, or Abort.
  net::Task<Outcome> Wait();
  // The turn cannot be used now: waits again where it was. Call() is to follow.
  void PutBack(conf::TimePoint now) { queue_->PutBack(*waiter_, now); }
  // It has been charged to a replica; Call() is to follow.
  void Use(conf::TimePoint now) { Leave(now, true); }
  // What it used in truth.
  void Settle(double cost);

  ModelQueue& queue() { return *queue_; }
  void Abort() override;
  void Wake() { sleep_.Cancel(); }

 private:
  void Leave(conf::TimePoint now, bool used);

  net::Sleep sleep_;
  const std::shared_ptr<ModelQueue> queue_;
  const std::shared_ptr<ModelQueue::Waiter> waiter_;
  const QueueEntry entry_;  // its texts are the waiter's
  bool entered_ = false;
  bool used_ = false;
  bool aborted_ = false;
};

// The queues of every model that was ever configured, by name. Thread-safe.
class ModelQueues {
 public:
  std::shared_ptr<ModelQueue> Get(const std::string& model);
  std::vector<std::shared_ptr<ModelQueue>> All() const;

  // Any thread: somebody waits for a model for which nobody did. Set before there are threads.
  std::function<void()> on_waiting = [] {};

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ModelQueue>> by_model_;
};

}  // namespace gateway
