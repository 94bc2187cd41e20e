// GatewayCalls: where several gateways share a store, passes a call for feedback to the gateway that served its
// request, through the store, and answers the calls that others pass to this one.
//
// The id of a request has the tag of its gateway (ledger/request_id.h). Gateways with one tag are asked one after the
// other. The call is an object of the kind store::kFeedbackCall (passed_call.h); the answer replaces it, and the
// asking gateway removes the answer. Nobody but the gateway that a text is for can read it. A call that is given up
// may have been carried out. Repeating it does no harm: the latest feedback of a key, request and name counts.
//
// Owner: the Process; stopped before it is destroyed. Thread: the control loop's. Bounded: kMostCalls of this gateway,
// kMostOfTenant of one tenant; what gateways that have ended left is removed after kForget.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gateway/feedback/box_key.h"
#include "gateway/feedback/passed_call.h"
#include "gateway/feedback/service.h"
#include "gateway/net/loop.h"
#include "gateway/store/follower.h"

namespace gateway::feedback {

// Another gateway of the store.
struct OtherGateway {
  std::string name{};
  std::string id{};          // of its state folder
  std::string public_key{};  // of its process; empty: it cannot be asked
  bool live = false;
};

class GatewayCalls final : private net::Alarm {
 public:
  static constexpr size_t kMostCalls = 256;
  static constexpr size_t kMostOfTenant = 64;
  static constexpr conf::Duration kPatience = std::chrono::seconds(5);  // for the answer of one gateway
  static constexpr conf::Duration kForget = std::chrono::minutes(1);

  struct Options {
    std::string name;  // of this process: no other has it
    // The gateways that tell of themselves, or did until lately; without this one.
    std::function<std::vector<OtherGateway>()> others;
    // Those that are known to have been there before. Asked for if none of the others has the request.
    std::function<net::Task<std::vector<OtherGateway>>()> earlier;
    // Service::Take: the answer comes on any thread.
    std::function<void(Call, Service::Done)> serve;
    conf::Duration patience = kPatience;
    conf::Duration forget = kForget;
  };

  // All must outlive it.
  GatewayCalls(net::Loop& loop, store::Store& store, const BoxKey& key, Options options);

  net::Task<absl::Status> Start();
  // The calls of this gateway that wait are refused, and so are later ones.
  void GiveUp();
  // So are they, and the calls of others are not answered any more.
  void Stop();
  // A call whose request is not in this gateway's ledger, with the refusal that it has if no other gateway has the
  // request.
  net::Task<Reply> Pass(Call call, Reply refused);

 private:
  struct Pending {
    explicit Pending(net::Watchdog& watchdog) : sleep(watchdog) {}
    net::Sleep sleep;
    std::string sealed;  // the answer; empty: none yet
    uint64_t version = 0;
  };
  struct Seen {
    uint64_t version;
    conf::TimePoint at;
  };
  class Place;  // of a call, among those under way

  void OnAlarm() override;
  net::Task<Reply> PassToOthers(const Call& call, Reply refused);
  net::Task<Reply> Ask(const OtherGateway& other, const Call& call);
  net::Task<void> Serve(std::string id, uint64_t version, PassedCall passed);
  net::Task<void> Remove(std::string id, uint64_t version);
  void Replace(const std::vector<store::Object>& all);
  void Apply(const std::vector<store::Change>& changes);
  void Take(const std::string& id, uint64_t version, const std::string& body);

  net::Loop& loop_;
  store::Store& store_;
  const BoxKey& key_;
  const Options options_;
  store::Follower follower_;
  std::map<std::string, Pending*> pending_;  // of this gateway, by the id of the object
  std::map<std::string, Seen> seen_;         // objects of all gateways
  std::map<std::string, size_t> of_tenant_;  // calls under way
  size_t under_way_ = 0;
  uint64_t calls_ = 0;
  bool given_up_ = false;
  bool stopped_ = false;
};

}  // namespace gateway::feedback
