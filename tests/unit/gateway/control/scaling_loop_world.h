// A machine, a launcher that does what a test says, and one gateway's control loop over them.
#pragma once

#include "gateway/control/scaling_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/http_peer.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"
#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway::control::loop_world {

using plugins::launchers::RunSpec;
using plugins::launchers::RunState;
using plugins::launchers::RunStatus;

// What is there outlives it: a machine.
struct FakeMachine {
  tests::MemoryStore store;
  std::list<RunStatus> runs;
  std::vector<std::string> calls;
  std::vector<RunSpec> specs;
  uint16_t port = 0;  // of every run
  absl::Status start = absl::OkStatus();
  absl::Status list = absl::OkStatus();
  std::string trouble;  // why it can start nothing
  bool start_throws = false;
  bool dies = false;          // at once
  bool slow_workers = false;  // members that do not lead are asked for, and do not run
  // A cluster that others use too, of these nodes; empty: it is none.
  plugins::launchers::SharedCluster shared;
  std::set<std::string> silent;  // of them
  int asked = 0;                 // nodes

  // The nodes that its launcher finds; absent: the configuration lists them.
  std::optional<plugins::launchers::FoundCluster> found;

  // Nodes of so many h100, in the order of their names.
  void FindNodes(const std::vector<std::pair<std::string, uint8_t>>& nodes) {
    scheduler::Cluster cluster;
    cluster.fabric = scheduler::FlatFabric();
    cluster.kinds = {{.name = "h100"}};
    for (const auto& [name, devices] : nodes) {
      cluster.nodes.push_back({.name = name, .type = static_cast<scheduler::TypeId>(cluster.types.size())});
      cluster.types.push_back(
          {.name = name, .cpu_milli = 64'000, .memory_mib = 1 << 19, .kind = 0, .devices = devices});
    }
    const uint64_t version = found ? found->version : 0;
    shared.nodes.clear();
    ++shared.version;
    for (const auto& [name, devices] : nodes)
      shared.nodes.push_back({.name = name, .kind = "h100", .devices = devices});
    found = plugins::launchers::FoundCluster{version + 1, std::move(cluster)};
  }

  // What a ledger has of devices; asked on other threads, one after the other.
  std::vector<ledger::DeviceRecord> metered;
  std::atomic<bool> meter_works = true;

  double DeviceSeconds() const {
    int64_t us = 0;
    for (const ledger::DeviceRecord& record : metered) us += record.device_us;
    return static_cast<double>(us) * 1e-6;
  }
};

class FakeMeter final : public MeterLedger {
 public:
  explicit FakeMeter(FakeMachine& machine) : machine_(machine) {}

  absl::StatusOr<std::vector<ledger::LastHeld>> Last() override {
    std::vector<ledger::LastHeld> last;
    if (machine_.metered.empty()) return last;
    const ledger::DeviceRecord& record = machine_.metered.back();
    last.push_back({.model = record.model,
                    .job = record.job,
                    .device = record.device,
                    .from_us = record.from_us,
                    .until_us = record.until_us,
                    .held_us = record.held_us,
                    .device_us = record.held_us});
    return last;
  }
  absl::StatusOr<std::vector<ledger::Served>> TakeServed() override { return std::vector<ledger::Served>(); }
  absl::StatusOr<std::vector<ledger::Served>> ServedBefore(conf::TimePoint) override { return TakeServed(); }
  absl::Status Append(std::vector<ledger::DeviceRecord> records) override {
    if (!machine_.meter_works) return absl::UnavailableError("disk full");
    for (ledger::DeviceRecord& record : records) machine_.metered.push_back(std::move(record));
    return absl::OkStatus();
  }

 private:
  FakeMachine& machine_;
};

class FakeLauncher final : public plugins::launchers::Launcher {
 public:
  explicit FakeLauncher(FakeMachine& machine) : machine_(machine) {}

  std::string_view name() const override { return "fake"; }
  net::Task<absl::Status> Start(RunSpec spec) override {
    machine_.calls.push_back("start " + spec.id);
    if (machine_.start_throws) throw std::runtime_error("a piece that nobody expected");
    if (!machine_.start.ok()) co_return machine_.start;
    RunStatus run{.id = spec.id, .owner = spec.owner, .state = RunState::kRunning, .host = "127.0.0.1"};
    if (spec.serves) run.port = machine_.port;
    if (machine_.slow_workers && spec.gang.rank > 0) {
      run.state = RunState::kStarting;
      run.why = "it waits for its turn";
    }
    if (machine_.dies) {
      run.state = RunState::kEnded;
      run.exit_code = 3;
    }
    machine_.runs.push_back(run);
    machine_.specs.push_back(std::move(spec));
    co_return absl::OkStatus();
  }
  net::Task<absl::Status> Stop(std::string id, conf::Duration) override {
    machine_.calls.push_back("stop " + id);
    for (RunStatus& run : machine_.runs) {
      if (run.id == id) run.state = RunState::kEnded;
    }
    co_return absl::OkStatus();
  }
  net::Task<absl::Status> Signal(std::string, int) override { co_return absl::OkStatus(); }
  net::Task<absl::StatusOr<std::vector<RunStatus>>> List() override {
    if (!machine_.list.ok()) co_return machine_.list;
    co_return std::vector<RunStatus>(machine_.runs.begin(), machine_.runs.end());
  }
  net::Task<absl::Status> Forget(std::string id) override {
    machine_.calls.push_back("forget " + id);
    std::erase_if(machine_.runs, [&](const RunStatus& run) { return run.id == id; });
    co_return absl::OkStatus();
  }
  std::string trouble() const override { return machine_.trouble; }
  const plugins::launchers::SharedCluster* shared() const override {
    return machine_.shared.nodes.empty() ? nullptr : &machine_.shared;
  }
  const plugins::launchers::FoundCluster* found() const override {
    return machine_.found ? &*machine_.found : nullptr;
  }
  net::Task<absl::Status> AskNode(std::string node) override {
    ++machine_.asked;
    if (machine_.silent.contains(node)) co_return absl::UnavailableError("refused");
    co_return absl::OkStatus();
  }
  net::Task<void> Close() override { co_return; }

 private:
  FakeMachine& machine_;
};

inline constexpr std::string_view kTwoNodes =
    "devices: [{name: h100, memory: 80GiB}]\n"
    "types: [{name: server, cpu: 64, memory: 500GiB, device: h100, count: 4}]\n"
    "nodes: [{name: \"node{1..2}\", type: server}]\n";

// One process: a runtime, a ledger that is a list, and the loop.
class Gateway {
 public:
  Gateway(net::Loop& loop, FakeMachine& machine, const std::string& policy, int devices = 4) {
    conf::Sources sources = FakeSources();
    sources.file = [policy](const std::string& path) {
      return absl::StatusOr<std::string>(path == "nodes.yaml" ? std::string(kTwoNodes) : policy);
    };
    const std::string cluster =
        machine.shared.nodes.empty() ? fmt::format("[{{kind: h100, count: {}}}]", devices) : "nodes.yaml";
    LoadResult loaded =
        ParseConfig(With({{"models", "[{name: chat-small}]"},
                          {"tenants", "[{name: search, models: [chat-small]}]"},
                          {"scaling", fmt::format("{{policies: p.yaml, cluster: {}}}", cluster)}}),
                    "t.yaml", sources);
    for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
    const config::Scaling scaling = *loaded.config->scaling;
    runtime_ = *Runtime::Build(*std::move(loaded.config), learned(), net::Now());
    metrics_.Bind(runtime_->names());
    LoopEnvironment env;
    env.runtime = [this] { return runtime_; };
    env.shards = [this] { return std::vector<const ShardMetrics*>{&metrics_}; };
    env.record = [this](ledger::Event event) -> net::Task<absl::Status> {
      if (!ledger_status.ok()) co_return ledger_status;
      events.push_back(event.action);
      details.push_back(event.detail);
      co_return absl::OkStatus();
    };
    env.publish = [this](const Launched& launched) {
      served = launched.empty() ? 0 : launched.at("chat-small").size();
      launched_ = launched;
      runtime_ = *runtime_->With(launched, learned());
      metrics_.Bind(runtime_->names());
    };
    env.replicas = &replicas_;
    env.scaling_hints = &scaling_hints_;
    env.meter = [&machine] { return std::make_unique<FakeMeter>(machine); };
    env.charge = [this](std::span<const ledger::DeviceRecord> records) { charged += records.size(); };
    env.devices_used_up = [](const std::string&, std::span<const std::string>) { return std::string(); };
    env.store = &machine.store;
    rollouts = std::make_unique<Rollouts>(loop, machine.store, Rollouts::Environment{.record = env.record});
    env.rollouts = rollouts.get();
    env.tries_elsewhere = [this] { return tries_elsewhere; };
    env.held = [this](const std::string&, conf::TimePoint) { return held ? &*held : nullptr; };
    control =
        std::make_unique<ScalingLoop>(loop, std::make_unique<FakeLauncher>(machine), scaling, std::move(env));
    control->Start();
  }

  Learned learned() { return {limits_, replicas_, estimates_, queues_, scaling_hints_, switches_}; }
  ModelStatus model() const { return control->status(net::Now()).models.at(0); }
  std::vector<ReplicaStatus> replicas() const { return control->status(net::Now()).replicas; }
  size_t Count(ReplicaState state) const { return model().replicas[static_cast<size_t>(state)]; }
  std::string why_none() { return scaling_hints_.Get("chat-small")->why_none(); }
  std::string trouble() const { return model().trouble; }
  std::string KeyOfFirstReplica() const {
    return launched_.empty() ? "" : std::string(launched_.at("chat-small")[0]->api_key.Reveal());
  }

  std::vector<std::string> events;
  std::vector<std::string> details;
  absl::Status ledger_status;
  std::optional<ModelOrder> held;
  size_t served = 0;
  size_t charged = 0;            // records of devices
  TriesByModel tries_elsewhere;  // of other gateways
  std::unique_ptr<Rollouts> rollouts;

 private:
  router::limits::LimitTree limits_;
  router::ReplicaStates replicas_;
  TokenEstimates estimates_;
  ModelQueues queues_;
  ScalingHintsByModel scaling_hints_;
  ModelSwitches switches_;
  ShardMetrics metrics_;
  Launched launched_;
  std::shared_ptr<const Runtime> runtime_;

 public:
  std::unique_ptr<ScalingLoop> control;
};

inline std::string Policy(const std::string& replicas, const std::string& more = "", uint32_t count = 1) {
  return fmt::format(
      "model: chat-small\nreplicas: {}\nscaling: {{policy: schedule}}\n"
      "placement: {{devices: [{{kind: h100, count: {}}}]}}\n"
      "replica: {{engine: vllm, command: [serve, --port, \"{{port}}\"]{}{}}}\n",
      replicas, count, more, more.find("api_key") == std::string::npos ? ", api_key: none" : "");
}

// What every run of the machine answers with.
inline tests::HttpPeer& AnswersOn(FakeMachine& machine, tests::TestLoop& loop) {
  auto& engine = loop.Make<tests::HttpPeer>();
  engine.Listen();
  machine.port = static_cast<uint16_t>(std::stoi(engine.url("/").port));
  return engine;
}

}  // namespace gateway::control::loop_world
