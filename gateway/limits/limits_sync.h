// LimitsSync: agrees with the other gateways, through Redis, on this gateway's shares of all limits.
//
// Every `interval` one round claims shares of the limits that are in use, all in one round trip, and of idle ones
// often enough to keep their leases. A limit that refused requests while its share was below its capacity claims
// earlier. router/limits/share.h says what the shares guarantee, with and without Redis; this class sends claims,
// takes answers, and reports its state.
//
// A limit that a reload adds is shared from the next Refresh() on: call it right after the tree has changed. Create
// this object, which shares every limit, before the gateway listens; let the gateway listen after AwaitShares().
//
// At the end a last claim returns the unused room, which others can use at once; admitted requests still count. From
// then on the limits admit nothing: stop it only when no more requests come.
//
// Owner: the shell; destroyed after Stop() has returned, or after the loop's tasks have ended. Thread: the loop's,
// except status(). Failures are in status(); nothing throws.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/net/backoff.h"
#include "gateway/net/loop.h"
#include "gateway/net/redis.h"
#include "router/limits/share.h"
#include "router/limits/tree.h"

namespace gateway {

enum class SharingState : uint8_t {
  kStarting,       // Redis has not answered yet: limits have their initial shares
  kShared,         // the leases are valid
  kRecovering,     // valid, but the store was empty: no share grows until every gateway has registered
  kKeepingShares,  // the leases have expired: limits keep their last shares
  kFailedClosed,   // the leases have expired: shared limits admit nothing
};
std::string_view SharingStateName(SharingState state);  // "shared", "keeping-shares", …

struct SharingStatus {
  SharingState state = SharingState::kStarting;
  conf::TimePoint since;
  std::string reason;           // the last failure; empty after a round without one
  conf::TimePoint answered_at;  // the last round without a failure
  conf::Duration round_trip{};  // of that round
  int64_t gateways = 0;         // living gateways in the store, including this one
  uint64_t limits = 0;
  uint64_t rounds = 0;
  uint64_t early_rounds = 0;   // rounds before their time, for limits that refused
  uint64_t failed_rounds = 0;  // also counted in the two above, if they were sent
  uint64_t claims = 0;         // answered in time
  uint64_t late_claims = 0;    // answered too late to count

  bool degraded() const {
    return state == SharingState::kKeepingShares || state == SharingState::kFailedClosed;
  }
};

class LimitsSync {
 public:
  struct Options {
    std::string instance;  // this gateway's name: unique among the gateways, and the same after a restart
    std::string prefix = "tidegate:";
    conf::Duration lease = std::chrono::seconds(2);
    conf::Duration stream_linger = std::chrono::seconds(60);
    conf::Duration interval = std::chrono::milliseconds(250);
    conf::Duration early_interval = std::chrono::milliseconds(50);
    // The most gateways: until Redis answers for the first time, this gateway uses one such part of every limit.
    // 0: unknown; nothing is admitted until then.
    uint32_t gateways = 0;
    router::limits::OnLoss on_loss = router::limits::OnLoss::kKeepShare;
    uint64_t seed = 1;  // for the jitter of the rounds
    // Called on the loop's thread when the state changes. May be empty.
    std::function<void(const SharingStatus&)> on_change;
  };

  // The tree and the client must outlive it. Shares every limit at once and starts.
  LimitsSync(net::Loop& loop, net::RedisClient& redis, const router::limits::LimitTree& tree,
             Options options);
  LimitsSync(const LimitsSync&) = delete;
  LimitsSync& operator=(const LimitsSync&) = delete;

  // Returns when every limit has a share: after some hundred milliseconds, if others must give up room first. False:
  // Redis does not answer, or some limit has no share yet.
  net::Task<bool> AwaitShares();

  void Refresh();
  SharingStatus status() const;  // any thread

  void Close();
  // Calls Close(), and waits until the shares are returned. Gives up at once without Redis, and after the time of a
  // lease if Redis is slow. Called once.
  net::Task<void> Stop();

 private:
  struct Entry;
  using Entries = std::vector<std::shared_ptr<Entry>>;

  net::Task<void> Run();
  net::Task<void> Keep();
  Entries Due(bool full, conf::TimePoint now);
  net::Task<void> Round(Entries due);
  net::Task<void> ReturnShares();
  net::Task<absl::Status> ClaimFor(std::span<const std::shared_ptr<Entry>> due);
  absl::Status TakeAnswer(Entry& entry, uint64_t seq, const net::RedisClient::Reply& reply,
                          conf::TimePoint now);
  void Judge(conf::TimePoint now);
  bool HaveShares() const;

  net::Loop& loop_;
  net::RedisClient& redis_;
  const router::limits::LimitTree& tree_;
  const Options options_;
  const std::string process_;  // the instance's name, with the start time of this process
  Entries entries_;
  net::Backoff jitter_;
  bool script_loaded_ = false;
  bool returning_ = false;  // claims are now the last ones
  conf::TimePoint next_round_;
  conf::TimePoint begun_;
  net::Event has_begun_;
  bool closed_ = false;
  net::Sleep pause_;
  net::Event ended_;

  mutable std::mutex mutex_;
  SharingStatus status_;  // guarded by mutex_; written on the loop's thread only
};

}  // namespace gateway
