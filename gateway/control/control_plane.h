// ControlPlane: what this gateway does beside requests, alone or among several gateways of one store: as the leader
// it drives (a ScalingLoop per term); else it follows, and sends requests to the replicas that the leader runs.
//
//   Leadership ── a term begins ──▶ Driving ── ScalingLoop ──▶ replicas to send requests to ┐
//        └─────── another leads ──▶ FollowedReplicas ──────────▶ (the store's word) ────────┴─▶ publish
//   Gateways: presence, demand and the requests that are left, of each for all
//
// A gateway that has its store to itself leads from its start to its end; it follows nothing and reports
// nothing.
//
// Owner: the Process. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/control/driving.h"
#include "gateway/control/gateways/followed_replicas.h"
#include "gateway/control/gateways/gateways.h"
#include "gateway/control/gateways/served_elsewhere.h"
#include "gateway/control/lead/leadership.h"
#include "gateway/control/scaling_loop.h"

namespace gateway::control {

class ControlPlane {
 public:
  struct Options {
    std::string name;             // of this gateway; no other of the store has it
    std::string id;               // of its state folder; empty where it has its store to itself
    std::string version;          // of the program
    std::string address;          // of its admin listener
    std::string public_key = {};  // of this process, for GatewayRecord
    bool shared = false;          // other gateways use the store
    bool scales = false;          // the configuration has a scaling section: somebody leads
  };
  struct Environment {
    std::function<absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>>()> open_launcher;
    // Of each term; the parts that concern other gateways are set here.
    LoopEnvironment loop;
    // Of this gateway, or another: it has come, gone, or begun or ended to lead.
    std::function<void()> changed = [] {};
    // The leader has changed a replica or a job; only told where another gateway leads.
    std::function<void()> workloads_changed = [] {};
    // How this gateway's requests use LoRA adapters.
    std::function<AdapterUses()> adapters = [] { return AdapterUses(); };
  };

  // The loop must outlive it.
  ControlPlane(net::Loop& loop, Options options, Environment env);

  // Asks for the lead, and learns of replicas and other gateways. Blocks; before anything is served.
  absl::Status Open();
  // Begins; as the leader, first takes over what runs.
  void Start();
  void Configure(const Runtime& runtime);
  // A request has begun to wait for a model without waiting requests.
  void OnWaiting();
  // `keep`: what runs stays; so it does in any case while another gateway can lead.
  net::Task<void> Close(bool keep);
  // Ends what follows the store, where Close was never called.
  void Abandon();

  // Null while this gateway does not lead.
  ScalingLoop* loop() { return driving_ ? driving_->loop() : nullptr; }
  // That it has from its launcher and workloads, if it leads; else only which launcher that is.
  Status status(conf::TimePoint now) const;
  // This gateway first. One that is alone is the only one.
  std::vector<GatewayStatus> gateways(conf::TimePoint now) const;
  // Nothing: no other gateway uses the store.
  std::optional<StoreStatus> store() const {
    return gateways_ ? std::optional(gateways_->store()) : std::nullopt;
  }
  // How other gateways' requests use LoRA adapters.
  AdapterUses AdaptersElsewhere() const {
    return gateways_ ? gateways_->Adapters(net::Now()) : AdapterUses();
  }
  // Whether another gateway of the store, by the id of its state folder, tells of itself.
  bool Lives(std::string_view gateway) const;
  // Whether it leads now.
  bool leads() const { return leadership_->leads(); }
  // Whether another gateway is to be asked for what only the leader knows.
  bool follows() const {
    return options_.shared && options_.scales && driving_ && driving_->loop() == nullptr;
  }
  // The name of the gateway that leads; empty: not known.
  const std::string& leader() const { return leadership_->leader(); }
  const std::string& name() const { return options_.name; }
  // That no other process has, not even a later one of this gateway.
  std::string process_name() const { return options_.name + "#" + start_; }
  bool shared() const { return options_.shared; }
  uint64_t epoch() const { return leadership_->epoch(); }

 private:
  absl::StatusOr<std::unique_ptr<ScalingLoop>> MakeLoop(uint64_t epoch);
  GatewayRecord Self() const;
  // The last change of the store that all shards have in their routes.
  uint64_t Routed(conf::TimePoint now) const;
  void PublishFollowed();
  void OnTerm();
  net::Task<void> Tidy();

  struct Pending {
    uint64_t number;
    conf::TimePoint at;
  };

  net::Loop& loop_;
  const Options options_;
  const Environment env_;
  const conf::TimePoint began_;
  const std::string start_;  // another for each process
  std::unique_ptr<Leadership> leadership_;
  std::unique_ptr<Driving> driving_;                   // null: nothing is scaled
  std::unique_ptr<FollowedReplicas> followed_;         // null: alone, or nothing is scaled
  std::unique_ptr<ServedElsewhere> served_elsewhere_;  // null: likewise
  std::unique_ptr<Gateways> gateways_;                 // null: alone
  std::set<std::string> served_;  // followed replicas that this gateway sends requests to
  bool loop_publishes_ = false;   // the loop of this term has said which replicas serve
  conf::TimePoint published_at_{};
  mutable uint64_t routed_ = 0;
  mutable std::optional<Pending> pending_;
  net::Sleep tidy_;
  bool tidying_ = false;
  bool closed_ = false;
};

}  // namespace gateway::control
