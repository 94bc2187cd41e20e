// LeaderCalls: passes a call of the admin API from a gateway that follows to the one that leads, through the store.
//
// Both gateways check that the caller may make the call. The passed call has the caller's name and permissions, never a
// credential. Only gateways can write to the store, so a call needs no other proof, no connection between gateways and
// no certificate. A leader passes no call on.
//
// A call is an object of the kind store::kLeaderCall. The answer replaces it, and the gateway that passed the call
// removes the answer. A call is carried out at most once: if its leader is deposed meanwhile, the call has no answer,
// and its caller is told to check.
//
// Owner: the Process; stopped before it is destroyed. Thread: the control loop's. Bounded: kMostCalls of a gateway.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/admin/access.h"
#include "gateway/admin/answer.h"
#include "gateway/net/http/head.h"
#include "gateway/net/loop.h"
#include "gateway/store/follower.h"

namespace gateway::admin {

struct PassedCall {
  std::string request_id;
  net::http::Verb method = net::http::Verb::get;
  std::string path;   // percent-encoded, as it came
  std::string query;  // what stood after '?'
  std::string body;
  Caller caller;
};
std::string BodyOf(const PassedCall& call);
// DataLoss: it is none.
absl::StatusOr<PassedCall> ReadPassedCall(std::string_view body);

class LeaderCalls {
 public:
  static constexpr size_t kMostCalls = 64;
  static constexpr conf::Duration kPatience = std::chrono::seconds(15);

  struct Options {
    std::string name;  // of this process: no other has it
    std::function<bool()> leads;
    std::function<net::Task<Answer>(PassedCall)> serve;
  };

  // Both must outlive it.
  LeaderCalls(net::Loop& loop, store::Store& store, Options options);

  net::Task<absl::Status> Start();
  void Stop();
  net::Task<Answer> Pass(PassedCall call);

 private:
  struct Pending {
    explicit Pending(net::Watchdog& watchdog) : sleep(watchdog) {}
    net::Sleep sleep;
    std::string body;  // the answer's; empty: none yet
    uint64_t version = 0;
  };
  struct Seen {
    uint64_t version;
    conf::TimePoint at;
  };

  void Replace(const std::vector<store::Object>& all);
  void Apply(const std::vector<store::Change>& changes);
  void Take(const std::string& id, uint64_t version, const std::string& body);
  net::Task<void> Serve(std::string id, uint64_t version, PassedCall call);
  net::Task<void> Remove(std::string id, uint64_t version);
  void RemoveOld();

  net::Loop& loop_;
  store::Store& store_;
  const Options options_;
  store::Follower follower_;
  std::map<std::string, Pending*> pending_;  // of this gateway, by id
  std::map<std::string, Seen> seen_;         // of all
  uint64_t calls_ = 0;
  bool stopped_ = false;
};

}  // namespace gateway::admin
