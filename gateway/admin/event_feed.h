// EventFeed: what happens, told to those who follow it as server-sent events: decisions of scaling and
// scheduling (`action`), lists that should be read again (`changed`), and the state of the whole (`overview`, at
// most once a second, computed once for all followers with the same roles).
//
// A follower sees what its roles let it see. A follower that reads too slowly is ended, as is one whose
// session or key has ended or whose roles have changed.
//
// Owner: the Process; destroyed after the loop's tasks have ended. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/admin/event_ring.h"
#include "gateway/admin/route.h"
#include "gateway/ledger/record.h"
#include "gateway/net/http/server.h"
#include "gateway/net/loop.h"

namespace gateway::admin {

class EventFeed {
 public:
  static constexpr size_t kMostEvents = 2048;    // that are kept
  static constexpr size_t kMostOfCaller = 8;     // followers
  static constexpr size_t kMostFollowers = 128;  // in all
  static constexpr conf::Duration kHeartbeat = std::chrono::seconds(15);
  static constexpr conf::Duration kOverviewEvery = std::chrono::seconds(1);
  static constexpr conf::Duration kAskLeaderEvery = std::chrono::seconds(3);
  static constexpr conf::Duration kCheckEvery =
      std::chrono::milliseconds(500);  // whether the caller may still follow

  // Both outlive it.
  EventFeed(net::Loop& loop, const Operations& operations, conf::TimePoint now);

  // The ledger has this event.
  void Note(const ledger::Event& event);
  // A list has changed: keys, sessions, jobs, replicas, nodes, models. An empty id: any of its entries.
  void Changed(std::string_view kind, FeedEvent::Audience audience = FeedEvent::Audience::kAll,
               Permission needs = Permission::kSeeSelf, const std::string& id = {},
               const std::string& owner = {});
  // Ends all followers.
  void Close() { closed_ = true; }

  // Why the caller may not follow now; nothing: it may.
  std::optional<api::ApiError> WhyFull(const std::string& caller) const;
  // The caller of the exchange now; nothing: it is nobody any more.
  using Identified = std::function<std::optional<Caller>(conf::TimePoint now)>;
  // Answers with events until the client leaves. `after`: the id of the last event that it has; empty: from now.
  net::Task<void> Follow(net::http::Exchange& exchange, net::http::Headers headers, Call call,
                         std::string after, Identified identify);

  size_t followers() const { return followers_; }
  std::string last_id() const { return ring_.IdOf(ring_.last()); }

 private:
  // What followers with the same roles see.
  struct Scope {
    std::string overview;  // JSON; empty: not computed yet
    std::string content;   // of it, without the time
    uint64_t version = 0;  // rises with each change
    conf::TimePoint computed{};
    bool asking = false;  // the leader
    size_t users = 0;     // followers, and an ask
  };
  class Place;
  class Follower;

  bool Sees(const Call& call, const FeedEvent& event) const;
  // As the caller may see it.
  std::string Shown(const Call& call, std::string data) const;
  void Update(Scope& scope, const Call& call) const;
  // The same where another gateway leads: it is asked, less often.
  void UpdateFrom(LeaderCalls& leader, const Place& place, const Call& call);
  net::Task<void> Ask(LeaderCalls& leader, std::string roles, std::string request, Caller caller);
  std::string Render(std::string_view type, uint64_t number, std::string_view data) const;

  net::Loop& loop_;
  const Operations& operations_;
  EventRing ring_;
  std::map<std::string, Scope> scopes_;
  std::map<std::string, size_t> of_callers_;
  size_t followers_ = 0;
  bool closed_ = false;
};

}  // namespace gateway::admin
