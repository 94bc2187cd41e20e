// The queue of a model whose replicas have no headroom: which request waits, and which goes next.
//
//   bands by urgency ─▶ in a band, tenants by service received per weight ─▶ below a tenant, its children and its
//   own requests in the same way ─▶ among its own requests, the earliest deadline; the time for which a request lets
//   others pass is added to its deadline
//
// A band with a reserved share gets that part of the dispatched cost while it has work, whatever more urgent
// bands want, and that part of the queue's places; the unused part is free for all. Tenants are compared
// by virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI'24): a dispatch
// charges its cost divided by the tenant's weight, Settle corrects it when the true cost is known, and a
// tenant that returns from idling starts no lower than the waiting tenants, so that no tenant saves up service. A
// tenant that waits alone, or that never waits, is at no disadvantage later.
//
// The tree of tenants is shared level by level (Goyal et al., "Start-time Fair Queuing", SIGCOMM'96, section 3):
// a tenant competes with its siblings only, and a dispatch charges it and every tenant above it. So the number of
// a tenant's children that wait does not change what their parent gets. A tenant's own requests compete with its
// children, with the tenant's own weight. A child that waits alone gets all that its parent gets.
//
// Requests of a spare band wait behind all others and do not affect them: they take none of their places, and count
// neither in the pace nor in the expected waits.
//
// Bounded in requests and bytes. No tenant, with the tenants below it, may hold more than twice the places that are
// still free, so that one tenant cannot shut the others out. The same holds among the children of a tenant, for the
// places that are left to it. A request that cannot go before its deadline, at the measured pace, is refused at once,
// unless replicas are starting. Time and costs are arguments. Callable from every shard: one short lock per call,
// O(depth · log n); waiting() and urgent() take none.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "router/admission/drain_rate.h"

namespace router {

struct BandSpec {
  std::string name;     // "interactive"
  double reserved = 0;  // part of the places and of the dispatched cost; at most 1 over all bands
  bool spare = false;   // its requests are spare ones: others do not count them as waiting before them
};

struct AdmissionSpec {
  uint32_t max_requests = 1'000;
  uint64_t max_bytes = uint64_t{64} << 20;
  std::vector<BandSpec> bands{{.name = "default"}};  // most urgent first; at least one
};

struct Arrival {
  std::string_view tenant;  // path: "acme/search"
  double weight = 1;        // of the tenant, > 0
  std::span<const double>
      parent_weights{};  // of the tenants above it, the root's first; 1 where none is given
  uint32_t band = 0;     // below the number of bands
  double cost = 1;       // weighted tokens: input plus twice the expected output; > 0
  uint64_t bytes = 0;    // memory that it holds while it waits
  // The latest time at which it must be on its way to a replica.
  std::optional<conf::TimePoint> deadline{};
  // Added to the deadline in the order of its tenant: requests whose deadlines are later by less go first.
  conf::Duration order_delay{};
  // Replicas are starting: the pace that was measured without them does not say that the deadline is out of
  // reach.
  bool replicas_start = false;
};

enum class QueueRefusal : uint8_t {
  kNone,
  kQueueFull,    // no place, or no bytes, left for its band
  kTenantShare,  // its tenant already holds its share of the places
  kTooLate,      // its deadline would pass first
};
std::string_view CodeName(QueueRefusal refusal);  // "queue_full": stable

using WaitTicket = uint64_t;

// The place of a request in the queue, or the reason of its refusal.
struct QueuePosition {
  QueueRefusal refused = QueueRefusal::kNone;
  WaitTicket ticket = 0;           // unless refused
  uint32_t ahead = 0;              // estimated number of requests that go first
  conf::Duration expected_wait{};  // 0: pace not known; of a refusal: until another try makes sense
};

// A request that was taken out of the queue, to be sent or, if it expired, to be refused.
struct Dispatch {
  WaitTicket ticket = 0;
  bool expired = false;  // its deadline has passed
  conf::Duration waited{};
};

struct BandState {
  std::string_view name;
  uint32_t waiting = 0;
  uint64_t bytes = 0;
  double cost = 0;
  bool spare = false;
  conf::Duration oldest{};
};

class AdmissionQueue {
 public:
  explicit AdmissionQueue(AdmissionSpec spec);

  // Applies a new spec. Waiting requests keep their places. Bands are matched by name; one that is gone
  // drains after all others and is then dropped. Band indices refer to the new spec from now on.
  void Configure(AdmissionSpec spec);

  QueuePosition Enter(const Arrival& arrival, conf::TimePoint now);
  // Takes the next request out and charges its tenant; absent when none waits.
  std::optional<Dispatch> Next(conf::TimePoint now);
  // Takes out the first request that `fits`, considering at most `considered`; an expired request always
  // fits. `fits` is called under the queue's lock.
  using Fits = std::function<bool(WaitTicket)>;
  std::optional<Dispatch> Next(conf::TimePoint now, uint32_t considered, const Fits& fits);
  // A dispatched request could not be sent: it waits again where it was. Once per dispatch, before Leave.
  void PutBack(WaitTicket ticket, conf::TimePoint now);
  // The request no longer waits (cancelled, expired), or was sent. Forgets the ticket; an unknown one is
  // ignored.
  void Leave(WaitTicket ticket, conf::TimePoint now);
  // Charges the tenant of `arrival` in its band the difference between a dispatch's true cost and its charged cost;
  // may be negative.
  void Settle(const Arrival& arrival, double more);

  uint32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  // Without those of spare bands.
  uint32_t urgent() const { return urgent_.load(std::memory_order_relaxed); }
  std::optional<QueuePosition> PositionOf(WaitTicket ticket, conf::TimePoint now) const;
  // Up to `most` waiting requests, the next one first; the first ones of every tenant come before further
  // ones. For people.
  std::vector<QueuePosition> Positions(size_t most, conf::TimePoint now) const;
  std::vector<BandState> Bands(conf::TimePoint now) const;
  double DrainPerSecond(conf::TimePoint now) const;
  size_t tenants() const;  // remembered ones

 private:
  struct Share;
  struct Waiter {
    Share* own = nullptr;  // its tenant's own requests
    uint32_t band = 0;
    double cost = 0;
    uint64_t bytes = 0;
    uint64_t sequence = 0;
    conf::TimePoint since{};
    conf::TimePoint deadline = conf::TimePoint::max();
    conf::TimePoint due = conf::TimePoint::max();  // deadline plus order_delay
    bool dispatched = false;
  };
  // (due, sequence, ticket)
  using ByDeadline = std::set<std::tuple<conf::TimePoint, uint64_t, WaitTicket>>;

  struct ByServed {
    bool operator()(const Share* a, const Share* b) const {
      return a->served != b->served ? a->served < b->served : a->tenant < b->tenant;
    }
  };

  // A part of what its parent gets: of a tenant with those below it, or (`own` of a tenant) of the tenant's own
  // requests. The root of a band is the share of all tenants in it.
  struct Share {
    Share* parent = nullptr;
    std::string tenant{};
    double weight = 1;
    double served = 0;  // virtual service: cost per weight
    double cost = 0;    // of its waiting requests, like the next two
    uint64_t bytes = 0;
    uint32_t waiting = 0;
    uint32_t tickets = 0;  // that refer to it: waiting and dispatched requests
    ByDeadline waiters{};  // of a tenant's own requests
    // Of a tenant and of a root:
    std::set<Share*, ByServed> active{};  // parts with waiting requests
    double active_weight = 0;             // of them
    double floor = 0;                     // least virtual service of a part that returns
    uint32_t children = 0;                // tenants that are remembered
    std::unique_ptr<Share> own{};

    bool IsOwn() const { return own == nullptr; }
    bool IsShared() const { return children + (own->tickets > 0 ? 1 : 0) > 1; }
  };

  struct Band {
    BandSpec spec;
    std::unique_ptr<Share> root = MakeShare(nullptr, {});
    absl::flat_hash_map<std::string, std::unique_ptr<Share>> tenants{};  // by path
    std::set<std::pair<uint64_t, conf::TimePoint>> arrivals{};           // of waiting requests, oldest first
    double dispatched = 0;                                               // recently, decayed
    size_t sweep_at = 64;
  };

  static std::unique_ptr<Share> MakeShare(Share* parent, std::string_view tenant);
  static Share& TenantOf(Band& band, std::string_view path);
  // The share of the tenant's own requests, with those above it at the service level where a request may join.
  static Share& OwnOf(Band& band, std::string_view tenant);
  static void SetWeights(Share& own, const Arrival& arrival);
  static void DropIdle(Band& band);
  QueueRefusal RoomFor(const Band& band, const Share& own, uint64_t bytes) const;
  void Join(WaitTicket ticket, Waiter& waiter, conf::TimePoint now);
  void Remove(WaitTicket ticket, Waiter& waiter, conf::TimePoint now);
  void Forget(WaitTicket ticket);
  static void Charge(Share& own, double cost);
  Band* NextBand();
  Dispatch Take(Band& band, WaitTicket ticket, conf::TimePoint now);
  std::optional<WaitTicket> FirstThatFits(const Share& share, conf::TimePoint now, uint32_t& considered,
                                          const Fits& fits) const;
  void CountDispatched(Band& band, double cost, conf::TimePoint now);
  QueuePosition Estimate(const Band& band, const Share& own, double cost, double own_ahead,
                         conf::TimePoint now) const;

  std::atomic<uint32_t> waiting_{0};
  std::atomic<uint32_t> urgent_{0};
  mutable std::mutex mutex_;  // guards all below; the thread sanitizer does not see into absl::Mutex
  AdmissionSpec spec_;
  std::vector<Band> bands_;
  absl::flat_hash_map<WaitTicket, Waiter> waiters_;
  WaitTicket last_ticket_ = 0;
  uint64_t last_sequence_ = 0;
  DrainRate drain_;
  conf::TimePoint dispatched_at_{};
};

}  // namespace router
