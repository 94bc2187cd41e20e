// Leased shares: how several gateways keep one limit together without a round trip per request.
//
// Each gateway may use only its share of the capacity. From time to time it sends a Claim to a common store,
// which answers with a ShareGrant. The order of steps keeps the sum of shares at or below the capacity at all
// times: a gateway with room to give lowers its own share first and claims afterwards; the store counts the
// claimed amount as held and grants growth only from what no gateway holds. Only unused room moves.
//
// - A claim has a sequence number, so a late one changes nothing; an answer counts for the latest claim only.
// - A silent gateway keeps its lease for ttl + linger, until the requests that it admitted have left the
//   window. For a budget that is the whole period: its lease stays consumed, and the same gateway resumes it
//   after a restart, with its consumption restored from its ledger.
// - A store that comes back empty grants no growth for `recovery`; in this time every gateway registers what
//   it holds. The next period of a budget begins the same way. The default, one ttl, is exact unless a
//   gateway dies within a minute of the store losing its data; ttl + linger is exact then, too.
// - Unclaimed room is divided equally, so that a burst need not ask first. While a lease of a silent gateway is kept,
//   one part of that room stays free: the gateway may come back as another process, and must not wait until others
//   have shrunk.
// - A starting process asks before it uses anything (`asks_first`), so it takes no room from the others. If the store
//   does not answer, its initial share counts.
// - Without the store a gateway keeps its last share, or fails closed when its lease has expired. Keeping is exact
//   while no gateway reaches the store; a single gateway that is cut off for longer than ttl + linger may hold room
//   that was granted to others meanwhile. Failing closed is exact then, too.
//
// Pure: the shell carries claims and answers (share_script.h is GrantShare() for Redis). A ShareHolder
// belongs to one thread; the limit behind it is shared as ever.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "conf/time.h"
#include "router/limits/tree.h"

namespace router::limits {

enum class OnLoss : uint8_t { kKeepShare, kFailClosed };

struct SharePolicy {
  conf::Duration ttl = std::chrono::seconds(5);       // of a lease, from the time its claim is sent
  conf::Duration recovery = std::chrono::seconds(5);  // no growth for this long after the store was empty
  // For concurrency: how long streams outlive a lease.
  conf::Duration stream_linger = std::chrono::seconds(60);
  int64_t initial_share = 0;  // before the first answer; over all gateways at most the capacity
  bool asks_first = false;    // it is used once a claim has got no answer
  OnLoss on_loss = OnLoss::kKeepShare;
};

struct Claim {
  std::string gateway;
  uint64_t seq = 0;    // grows with each claim of this gateway, also over restarts; below 2^53
  bool first = false;  // of this process: takes up a lease that is left under its name
  int64_t capacity = 0;
  int64_t held = 0;  // what this gateway may use or already uses
  int64_t want = 0;  // what it could use
  conf::Duration ttl{};
  conf::Duration linger{};
  conf::Duration recovery{};
};

struct ShareGrant {
  bool accepted = false;  // false: the claim was late; the rest is meaningless
  int64_t share = 0;      // what the gateway may use from now on
  int64_t target = 0;     // what it should shrink to, as far as its use allows
  int64_t held = 0;       // the sum over all gateways, lingering ones included
  int64_t gateways = 0;   // alive
  bool recovering = false;
};

// The stored state of one limit (of a budget: of one of its periods).
struct StoreState {
  struct Lease {
    uint64_t seq = 0;
    int64_t held = 0;
    int64_t want = 0;
    conf::TimePoint alive_until;  // later it takes no part in sharing
    conf::TimePoint kept_until;   // later its room is free
  };
  // When a claim found it empty, or the latest claim older than a ttl.
  std::optional<conf::TimePoint> opened;
  conf::TimePoint last;  // the latest claim
  std::map<std::string, Lease> leases;
};

// The store's side. `now`: the store's clock; times are cut to milliseconds.
ShareGrant GrantShare(StoreState& state, const Claim& claim, conf::TimePoint now);

// One gateway's side, for one limit.
class ShareHolder {
 public:
  // `first_seq` must exceed every sequence number of earlier processes of this name: use Unix microseconds at
  // start. For limits per minute and concurrency each process needs a new name, because it does not know what
  // the old one admitted; for budgets the name must stay the same.
  ShareHolder(std::string gateway, LimitRef limit, SharePolicy policy, uint64_t first_seq,
              conf::TimePoint now);

  // Gives up what the last answer asked back and is not in use, then states what it holds and wants.
  Claim Next(conf::TimePoint now);

  // Applies the answer to the claim `seq`. False when it came too late.
  bool Apply(const ShareGrant& grant, uint64_t seq, conf::TimePoint now);

  // The latest claim got no answer.
  void OnNoAnswer(conf::TimePoint now);

  // Acts when the lease has expired. Call at least as often as claims are due, answered or not.
  void Tick(conf::TimePoint now);

  // The lease has expired: the limit keeps its last share, or is closed.
  bool Stale(conf::TimePoint now) const { return now >= valid_until_; }
  int64_t share() const { return share_; }

  // The store's key: the limit's identity, and for a budget its present period.
  std::string StoreKey(conf::TimePoint now) const;

 private:
  conf::Duration Linger() const;

  const std::string gateway_;
  const LimitRef limit_;
  const SharePolicy policy_;
  uint64_t seq_;
  bool answered_ = false;
  int64_t share_;
  int64_t target_;
  conf::TimePoint sent_at_;
  conf::TimePoint valid_until_;
};

}  // namespace router::limits
