// Gateways: reports this gateway to the others, and reads their reports, through the store.
//
// A record is written every two seconds, and soon after an event that others wait for: a request begins to wait, a
// replica has left the routes. Writes are at least a quarter of a second apart. While the store does not answer,
// nothing is reported, and the others count this gateway as gone.
//
// Owner: the Process; stopped before it is destroyed. Thread: the control loop's. Bounded: kMostGateways.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/control/lead/demand_elsewhere.h"
#include "gateway/control/lead/gateway_record.h"
#include "gateway/control/models/version_tries.h"
#include "gateway/net/loop.h"
#include "gateway/store/follower.h"

namespace gateway::control {

// A gateway, as shown to operators.
struct GatewayStatus {
  GatewayRecord record;
  bool self = false;
  bool live = true;
  conf::TimePoint seen{};  // when its record last changed
  uint64_t lag = 0;        // changes of the store that it had not applied then
};

// How a shared store answers, by the writes of this gateway's own record.
struct StoreStatus {
  conf::TimePoint answered{};  // the last write that succeeded
  std::string why{};           // the last one failed for this reason; empty: it succeeded

  // Others count this gateway as gone.
  bool away(conf::TimePoint now) const { return !why.empty() && now - answered >= kGatewayLease; }
};

class Gateways final : private net::Alarm {
 public:
  static constexpr size_t kMostGateways = 256;

  struct Environment {
    std::string name{};  // of this gateway
    // This gateway, as it is now.
    std::function<GatewayRecord()> self;
    // A request waits for a model at another gateway.
    std::function<void()> on_waiting = [] {};
    // Another gateway has come, has gone, has begun to lead, or has ceased to lead.
    std::function<void()> changed = [] {};
    // A record of this name that has not changed for this long belongs to a gateway that has ended.
    conf::Duration name_lease = kGatewayLease;
  };

  // Both must outlive it.
  Gateways(net::Loop& loop, store::Store& store, Environment env);

  // OK: no other gateway has this name. Waits where the gateway that had it may have ended. AlreadyExists: a gateway
  // has it.
  net::Task<absl::Status> CheckName();
  // The record of this gateway is in the store, and the others are known, when it returns Ok.
  net::Task<absl::Status> Start();
  void Stop();
  // Removes the record: this gateway ends.
  net::Task<void> Leave();

  // Writes the record soon after that time.
  void TellSoon(conf::Duration after = {});

  // This gateway first, then the others by name.
  std::vector<GatewayStatus> List(conf::TimePoint now) const;
  const StoreStatus& store() const { return store_status_; }
  // The last change of the store that this list shows.
  uint64_t number() const { return follower_.number(); }
  bool OthersLive(conf::TimePoint now) const;
  // Whether another gateway reports, by the id of its state folder.
  bool Lives(std::string_view id, conf::TimePoint now) const;
  // Sums over the other gateways.
  DemandByModel Demand(conf::TimePoint now) const { return demand_.Sum(now); }
  const TriesByModel& tries() const { return tries_.all(); }
  // Sum over the others that live.
  AdapterUses Adapters(conf::TimePoint now) const;
  // The requests that other gateways have at a replica; absent: one of them has not yet applied the change of that
  // number, by which the replica left the routes.
  std::optional<uint32_t> LeftAt(std::string_view replica, uint64_t change, conf::TimePoint now) const;
  // Forgets the records of gateways that have been gone for long. The leader calls it now and then. Where nothing is
  // scaled, no gateway leads: there each of them calls it, with the epoch 0.
  net::Task<void> RemoveGone(uint64_t epoch, conf::TimePoint now);

 private:
  struct Other {
    GatewayRecord record;
    uint64_t version = 0;
    conf::TimePoint seen{};
    bool gone = false;  // known to the demand
  };

  void OnAlarm() override;
  net::Task<void> Tell();
  void SeeRival(const std::string& body, const std::string& own);
  void SetNext(conf::TimePoint at);
  void Replace(const std::vector<store::Object>& all);
  void Apply(const std::vector<store::Change>& changes);
  void Take(const std::string& name, uint64_t version, const std::string& body);
  bool IsLive(const Other& other, conf::TimePoint now) const { return now - other.seen < kGatewayLease; }

  net::Loop& loop_;
  store::Store& store_;
  const Environment env_;
  store::Follower follower_;
  std::map<std::string, Other, std::less<>> others_;
  DemandElsewhere demand_;
  TriesElsewhere tries_;
  uint64_t version_ = 0;  // of our own record; 0: it is not there
  uint64_t lag_ = 0;      // of our own, when it was written
  conf::TimePoint told_{};
  conf::TimePoint next_{};  // when the alarm is set to
  bool telling_ = false;
  conf::TimePoint again_ = conf::TimePoint::max();  // tell again then
  StoreStatus store_status_;
  bool failing_ = false;
  std::string rival_;  // the start of another gateway of this name, once the log has it
  bool stopped_ = false;
};

// The name of a gateway that reports within the lease; empty: none does.
net::Task<absl::StatusOr<std::string>> LivingGateway(net::Loop& loop, store::Store& store,
                                                     conf::Duration lease = kGatewayLease);

}  // namespace gateway::control
