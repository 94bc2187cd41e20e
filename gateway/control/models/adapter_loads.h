// AdapterLoads: has engines load and unload the adapters that operators have loaded at run time, and knows which
// engine holds which adapter.
//
// Every few seconds each engine lists the adapters that it holds. So a restarted engine and a new replica get the
// adapters of their model, and a restarted gateway knows all of them. Requests for an adapter go to replicas that hold
// it; while none does, they wait in the queue of its base. router/load/adapter_plan.h decides which adapter is loaded
// where, and which one is unloaded for it.
//
// Of several gateways the leader alone loads and unloads, by the requests of all; the others only ask for the lists.
// Where nothing is scaled, no gateway leads and each of them loads. That is harmless: an engine refuses to load an
// adapter twice.
//
// Owner: the Process. Thread: the control loop's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/control/lead/gateway_record.h"
#include "gateway/control/models/adapters.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/http/fetch.h"
#include "gateway/net/loop.h"
#include "gateway/shard/runtime.h"
#include "router/load/adapter_plan.h"

namespace gateway::control {

// An adapter at one replica, for operators.
struct AdapterAtReplica {
  enum class State : uint8_t { kLoaded, kLoading, kRefused, kAbsent };
  std::string replica;  // the endpoint's name
  State state = State::kAbsent;
  std::string why{};  // refused: the engine's answer
  std::optional<conf::TimePoint> used{};

  bool operator==(const AdapterAtReplica&) const = default;
};
std::string_view NameOf(AdapterAtReplica::State state);

class AdapterLoads final : private net::Alarm {
 public:
  struct Environment {
    std::function<std::shared_ptr<const Runtime>()> runtime;
    // Whether this gateway tells engines what to load.
    std::function<bool()> acts = [] { return true; };
    // How the requests of other gateways use adapters.
    std::function<AdapterUses()> elsewhere = [] { return AdapterUses(); };
    // What replicas hold has changed.
    std::function<void()> changed = [] {};
  };

  // All outlive it.
  AdapterLoads(net::Loop& loop, Adapters& adapters, Environment env);

  // Adapters or replicas may have changed, or requests wait. Never before Start().
  void Wake();
  void Start() { started_ = true, Wake(); }
  void Stop();

  // Waits until the adapter is loaded at one replica. Absent: it is loaded, or no replica can load it now and one will
  // do so later. A text: every engine has refused the adapter, and one of them gave this answer.
  net::Task<std::optional<std::string>> AwaitFirst(std::string base, std::string name,
                                                   conf::Duration patience);

  // How the requests of this gateway use adapters; unused adapters are left out.
  AdapterUses UsesHere() const;

  std::vector<AdapterAtReplica> At(const std::string& base, const std::string& name) const;

 private:
  struct Refusal {
    std::string why;
    conf::TimePoint until{};
    uint32_t times = 0;
  };
  struct Known {
    std::vector<std::string> listed;  // by the engine
    std::optional<conf::TimePoint> listed_at{};
    std::map<std::string, Refusal> refused;  // by adapter
    std::set<std::string> departs;  // adapters that are about to be unloaded: they get no new request here
    std::string loads;              // the adapter that the call under way loads
    conf::TimePoint next_list{};
    std::shared_ptr<router::ReplicaState> state;  // not null once it was seen
    bool busy = false;                            // a call is under way
    bool away = false;                            // it did not answer the last time
    bool seen = false;                            // the replica is in the routes

    bool Lists(const std::string& name) const;
  };
  struct Place {
    router::ReplicaId id{};
    std::string identity;
  };

  void OnAlarm() override;
  void TickBase(const std::shared_ptr<const Runtime>& runtime, const std::string& base,
                const AdapterUses& elsewhere);
  std::vector<Place> PlacesOf(const Runtime& runtime, const std::string& base) const;
  std::vector<Adapter> OfBase(const std::string& base) const;
  bool CanAsk(const Runtime& runtime, router::ReplicaId replica) const;
  void ShowHeld(const Place& place, const std::vector<Adapter>& adapters);
  void Act(const std::shared_ptr<const Runtime>& runtime, const std::string& base,
           const std::vector<Place>& places, const AdapterUses& elsewhere);
  void ForgetGone(const Runtime& runtime, const std::vector<Adapter>& adapters,
                  const std::vector<Place>& places);
  std::string SourceOf(const std::string& base, const std::string& name) const;
  static std::string WhyRefused(const absl::StatusOr<net::http::FetchResponse>& answer);

  net::Task<void> List(std::shared_ptr<const Runtime> runtime, Place place);
  net::Task<void> Change(std::shared_ptr<const Runtime> runtime, Place place, std::string base,
                         std::string unload, std::string load);
  net::Task<std::string> UnloadAt(std::shared_ptr<const Runtime> runtime, Place place, std::string base,
                                  std::string name, std::string for_another);
  net::Task<absl::StatusOr<net::http::FetchResponse>> Ask(std::shared_ptr<const Runtime> runtime,
                                                          router::ReplicaId replica, std::string path,
                                                          std::string body, conf::Duration timeout);
  net::Task<void> Forget(std::string base, std::string name);

  net::Loop& loop_;
  Adapters& adapters_;
  const Environment env_;
  net::AbortGroup calls_;
  std::map<std::string, Known> replicas_;                                // by identity
  std::map<std::pair<std::string, std::string>, conf::TimePoint> used_;  // by base and name
  std::set<std::string> wanted_;      // ids of adapters for which an operator waits
  std::set<std::string> forgetting_;  // ids
  bool started_ = false;
  bool stopped_ = false;
};

}  // namespace gateway::control
