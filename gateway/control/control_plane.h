// ControlPlane: what this gateway does beside requests, alone or among several gateways of one store: as the leader
// it drives (a ScalingLoop per term); else it follows, and sends requests to the replicas that the leader runs.
//
//   Leadership ── a term begins ──▶ Driving ── ScalingLoop ──▶ replicas to send requests to ┐
//        └─────── another leads ──▶ FollowedReplicas ──────────▶ (the store's word) ────────┴─▶ publish
//   Gateways: presence, demand and the requests that are left, of each for all
//
// A gateway that has its store to itself leads from its start to its end. It follows no other gateway and reports
// to none.
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
    std::string name;             // of this gateway; unique among the gateways of the store
    std::string id;               // of its state folder; empty where it has its store to itself
    std::string version;          // of the program
    std::string address;          // of its admin listener
    std::string public_key = {};  // of this process, for GatewayRecord
    bool shared = false;          // other gateways use the store
    bool scales = false;          // the configuration has a scaling section: one gateway leads
  };
  struct Environment {
    std::function<absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>>()> open_launcher;
    // For the loop of each term; the parts that concern other gateways are set here.
    LoopEnvironment loop;
    // A gateway, this one or another, has come, has gone, has begun to lead, or has ceased to lead.
    std::function<void()> changed = [] {};
    // The leader has changed a replica or a job; called only while another gateway leads.
    std::function<void()> workloads_changed = [] {};
    // How this gateway's requests use LoRA adapters.
    std::function<AdapterUses()> adapters = [] { return AdapterUses(); };
  };

  // The loop must outlive it.
  ControlPlane(net::Loop& loop, Options options, Environment env);

  // Asks for the lead, and learns of replicas and other gateways. Blocks; call it before anything is served.
  absl::Status Open();
  // Begins. The leader first takes over the running workloads.
  void Start();
  void Configure(const Runtime& runtime);
  // A request has begun to wait for a model without waiting requests.
  void OnWaiting();
  // `keep`: running workloads stay. They stay in any case while another gateway can lead.
  net::Task<void> Close(bool keep);
  // Stops following the store, where Close was never called.
  void Abandon();

  // Null while this gateway does not lead.
  ScalingLoop* loop() { return driving_ ? driving_->loop() : nullptr; }
  // The state of the control loop, if this gateway leads; else only the launcher's name.
  Status status(conf::TimePoint now) const;
  // This gateway first, then the others; a gateway that has its store to itself is the only one.
  std::vector<GatewayStatus> gateways(conf::TimePoint now) const;
  // Absent: no other gateway uses the store.
  std::optional<StoreStatus> store() const {
    return gateways_ ? std::optional(gateways_->store()) : std::nullopt;
  }
  // How other gateways' requests use LoRA adapters.
  AdapterUses AdaptersElsewhere() const {
    return gateways_ ? gateways_->Adapters(net::Now()) : AdapterUses();
  }
  // Whether another gateway of the store reports. `gateway`: the id of its state folder.
  bool Lives(std::string_view gateway) const;
  // Whether this gateway leads now.
  bool leads() const { return leadership_->leads(); }
  // Whether questions that only the leader can answer go to another gateway.
  bool follows() const {
    return options_.shared && options_.scales && driving_ && driving_->loop() == nullptr;
  }
  // The name of the gateway that leads; empty: not known.
  const std::string& leader() const { return leadership_->leader(); }
  const std::string& name() const { return options_.name; }
  // Unique: no other process has it, not even a later one of this gateway.
  std::string process_name() const { return options_.name + "#" + start_; }
  bool shared() const { return options_.shared; }
  uint64_t epoch() const { return leadership_->epoch(); }

 private:
  absl::StatusOr<std::unique_ptr<ScalingLoop>> MakeLoop(uint64_t epoch);
  GatewayRecord Self() const;
  // The number of the last change of the store that all shards have applied to their routes.
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
  const std::string start_;  // unique for each process
  std::unique_ptr<Leadership> leadership_;
  std::unique_ptr<Driving> driving_;                   // null: nothing is scaled
  std::unique_ptr<FollowedReplicas> followed_;         // null: alone, or nothing is scaled
  std::unique_ptr<ServedElsewhere> served_elsewhere_;  // null: alone, or nothing is scaled
  std::unique_ptr<Gateways> gateways_;                 // null: alone
  std::set<std::string> served_;  // followed replicas that this gateway sends requests to
  bool loop_publishes_ = false;   // the loop of this term has published the replicas that serve
  conf::TimePoint published_at_{};
  mutable uint64_t routed_ = 0;
  mutable std::optional<Pending> pending_;
  net::Sleep tidy_;
  bool tidying_ = false;
  bool closed_ = false;
};

}  // namespace gateway::control
