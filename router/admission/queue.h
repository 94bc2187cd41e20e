// Who waits for a model when its replicas are as full as they should be, and who goes next.
//
//   bands by urgency ─▶ in a band, tenants by what they were served per weight ─▶ of a tenant, earliest
//   deadline, to which is added for how long it lets others pass
//
// A band with a reserved share gets that part of what is dispatched while it has work, whatever more urgent
// bands ask for, and that part of the queue's places; what it leaves unused is anybody's. Tenants are
// compared by virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI'24): a
// turn charges its cost divided by the tenant's weight, Settle corrects it when the true cost is known, and
// one who comes back from idling starts no lower than those who wait, so that nobody saves up turns. Whoever
// waits alone or where there is room pays nothing for it.
//
// Bounded in requests and bytes; no tenant may hold more than twice the places that are still free, so that
// one cannot shut the others out. What cannot be dispatched by its deadline at the measured pace is refused
// at once. Time and costs are arguments. Callable from every shard: one short lock a call, O(log n);
// waiting() takes none.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
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
  double reserved = 0;  // its part of places and of what is dispatched; all bands together at most 1
};

struct AdmissionSpec {
  uint32_t max_requests = 1'000;
  uint64_t max_bytes = uint64_t{64} << 20;
  std::vector<BandSpec> bands{{.name = "default"}};  // the most urgent first; at least one
};

struct Arrival {
  std::string_view tenant;
  double weight = 1;   // of the tenant, > 0
  uint32_t band = 0;   // below the number of bands
  double cost = 1;     // weighted tokens: input and twice the output that is expected; > 0
  uint64_t bytes = 0;  // that it holds while it waits
  // When it must be on its way to a replica at the latest.
  std::optional<conf::TimePoint> deadline{};
  // Others of its tenant whose deadlines are later by less than this go first.
  conf::Duration yields{};
};

enum class WaitRefusal : uint8_t {
  kNone,
  kQueueFull,    // in requests or bytes, for its band
  kTenantShare,  // its tenant holds its share of the places already
  kTooLate,      // its deadline would pass before its turn
};
std::string_view CodeName(WaitRefusal refusal);  // "queue_full": stable

using WaitTicket = uint64_t;

struct Entered {
  WaitRefusal refused = WaitRefusal::kNone;
  WaitTicket ticket = 0;  // unless refused
  uint32_t ahead = 0;     // about so many go before it
  conf::Duration
      expected_wait{};  // zero while the pace is not known; of a refusal: until it is worth another try
};

struct Turn {
  WaitTicket ticket = 0;
  bool expired = false;  // its deadline has passed: it goes nowhere
  conf::Duration waited{};
};

struct BandState {
  std::string_view name;
  uint32_t waiting = 0;
  uint64_t bytes = 0;
  double cost = 0;
  conf::Duration oldest{};
};

class AdmissionQueue {
 public:
  explicit AdmissionQueue(AdmissionSpec spec);

  // From now on by this. Who waits keeps its place; a band goes by its name, and one that is gone is emptied
  // after all others before it is forgotten. Indices of bands are the new spec's.
  void Configure(AdmissionSpec spec);

  Entered Enter(const Arrival& arrival, conf::TimePoint now);
  // Takes the next one out and charges its tenant; none waits: nothing.
  std::optional<Turn> Next(conf::TimePoint now);
  // ... the first in order that `fits`, of so many at most; one whose deadline has passed fits, too. `fits`
  // is asked under the queue's lock.
  using Fits = std::function<bool(WaitTicket)>;
  std::optional<Turn> Next(conf::TimePoint now, uint32_t looks, const Fits& fits);
  // The turn that Next gave could not be used: it waits again where it was. Once, and before it leaves.
  void PutBack(WaitTicket ticket, conf::TimePoint now);
  // It waits no more (cancelled, expired), or its turn was used. Forgets the ticket; unknown ones are
  // ignored.
  void Leave(WaitTicket ticket, conf::TimePoint now);
  // What a turn cost in truth, beyond what was charged for it, or below.
  void Settle(std::string_view tenant, double weight, uint32_t band, double more);

  uint32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  std::optional<Entered> StandingOf(WaitTicket ticket, conf::TimePoint now) const;
  // Of `most` who wait, every tenant's first ones before its others; who goes next first. For people.
  std::vector<Entered> Standings(size_t most, conf::TimePoint now) const;
  std::vector<BandState> Bands(conf::TimePoint now) const;
  double DrainPerSecond(conf::TimePoint now) const;
  size_t tenants() const;  // that are remembered

 private:
  struct Flow;
  struct Waiter {
    Flow* flow = nullptr;
    uint32_t band = 0;
    double cost = 0;
    uint64_t bytes = 0;
    uint64_t sequence = 0;
    conf::TimePoint since{};
    conf::TimePoint deadline = conf::TimePoint::max();
    conf::TimePoint due = conf::TimePoint::max();  // its deadline, and for how long it yields
    bool had_turn = false;
  };
  // (when it is due, sequence) → its ticket.
  using ByDeadline = std::set<std::tuple<conf::TimePoint, uint64_t, WaitTicket>>;

  // One tenant in one band.
  struct Flow {
    std::string tenant;
    double weight = 1;
    double served = 0;  // virtual: cost per weight
    double cost = 0;    // of those that wait
    uint64_t bytes = 0;
    uint32_t tickets = 0;  // that know it: waiters, and turns in use
    ByDeadline waiters{};
  };
  struct ByServed {
    bool operator()(const Flow* a, const Flow* b) const {
      return a->served != b->served ? a->served < b->served : a->tenant < b->tenant;
    }
  };

  struct Band {
    BandSpec spec;
    absl::flat_hash_map<std::string, std::unique_ptr<Flow>> flows{};
    std::set<Flow*, ByServed> active{};                         // with waiters
    std::set<std::pair<uint64_t, conf::TimePoint>> arrivals{};  // of those that wait: the first is the oldest
    double floor = 0;                                           // where one who comes back starts at least
    double dispatched = 0;                                      // of late
    double cost = 0;
    uint64_t bytes = 0;
    double weight = 0;  // of the active
    uint32_t waiting = 0;
    size_t sweep_at = 64;

    bool InUse() const;  // somebody waits in it, or uses a turn
  };

  Flow& FlowOf(Band& band, std::string_view tenant, double weight);
  WaitRefusal RoomFor(const Band& band, const Flow& flow, uint64_t bytes) const;
  void Join(WaitTicket ticket, Waiter& waiter, conf::TimePoint now);
  void Part(WaitTicket ticket, Waiter& waiter, conf::TimePoint now);
  void Forget(WaitTicket ticket);
  void Charge(Band& band, Flow& flow, double cost);
  Band* NextBand();
  Turn Take(Band& band, WaitTicket ticket, conf::TimePoint now);
  void CountDispatched(Band& band, double cost, conf::TimePoint now);
  Entered Estimate(const Band& band, const Flow& flow, double cost, double own_ahead,
                   conf::TimePoint now) const;

  std::atomic<uint32_t> waiting_{0};
  mutable std::mutex mutex_;  // one that the thread sanitizer sees
  AdmissionSpec spec_;
  std::vector<Band> bands_;
  absl::flat_hash_map<WaitTicket, Waiter> waiters_;
  uint64_t bytes_ = 0;
  WaitTicket last_ticket_ = 0;
  uint64_t last_sequence_ = 0;
  DrainRate drain_;
  conf::TimePoint dispatched_at_{};
};

}  // namespace router
