// Workloads over a real planner: a launcher that does as it is told, a store and a ledger in memory, a clock
// that the test moves, and every step taken at once.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conf/text.h"
#include "gateway/control/jobs/jobs.h"
#include "gateway/control/replicas/replicas.h"
#include "gateway/control/weights/weights_step.h"
#include "gateway/control/workloads/reconciler.h"
#include "gateway/control/workloads/step_runner.h"
#include "scheduler/planner.h"
#include "tests/support/memory_store.h"

namespace tests {

using gateway::control::Workload;
using plugins::launchers::RunSpec;
using plugins::launchers::RunState;
using plugins::launchers::RunStatus;

// Outlives the gateways of a test, as the machine does.
class ScriptedLauncher final : public plugins::launchers::Launcher {
 public:
  std::string_view name() const override { return "process"; }

  gateway::net::Task<absl::Status> Start(RunSpec spec) override {
    if (!refuse.ok()) co_return refuse;
    if (runs.contains(spec.id)) co_return absl::OkStatus();
    ++starts[spec.id];
    RunStatus& run = runs[spec.id];
    run.id = spec.id;
    run.owner = spec.owner;
    run.state = comes_up ? RunState::kRunning : RunState::kStarting;
    run.log = logs + spec.id;
    if (spec.serves) run.host = "127.0.0.1", run.port = port;
    specs[spec.id] = std::move(spec);
    co_return absl::OkStatus();
  }
  gateway::net::Task<absl::Status> Stop(std::string id, conf::Duration) override {
    told.push_back("stop " + id);
    if (const auto run = runs.find(id); run != runs.end()) End(id, std::nullopt, 15);
    co_return absl::OkStatus();
  }
  gateway::net::Task<absl::Status> Signal(std::string id, int signal) override {
    told.push_back("signal " + std::to_string(signal) + " " + id);
    if (!signals.ok()) co_return signals;
    if (saves_and_ends) End(id, 0);
    co_return absl::OkStatus();
  }
  gateway::net::Task<absl::StatusOr<std::vector<RunStatus>>> List() override { co_return Now(); }
  gateway::net::Task<absl::Status> Forget(std::string id) override {
    runs.erase(id);
    co_return absl::OkStatus();
  }
  std::string AddressOf(const std::string&, const std::string&) const override { return "127.0.0.1"; }
  gateway::net::Task<void> Close() override { co_return; }

  std::vector<RunStatus> Now() const {
    std::vector<RunStatus> list;
    list.reserve(runs.size());
    for (const auto& [id, run] : runs) list.push_back(run);
    return list;
  }
  void End(const std::string& id, std::optional<int> code, std::optional<int> signal = std::nullopt) {
    RunStatus& run = runs.at(id);
    if (run.state == RunState::kEnded || id == unreachable) return;
    run.state = RunState::kEnded;
    run.exit_code = code;
    run.signal = signal;
  }
  size_t Running() const {
    size_t count = 0;
    for (const auto& [id, run] : runs) count += run.state == RunState::kRunning ? 1 : 0;
    return count;
  }
  std::string Env(const std::string& run, std::string_view name) const {
    for (const auto& [key, value] : specs.at(run).env) {
      if (key == name) return value;
    }
    return "(not set)";
  }

  std::map<std::string, RunStatus> runs;
  std::map<std::string, RunSpec> specs;
  std::map<std::string, int> starts;
  std::vector<std::string> told;
  std::string logs = "/nowhere/";
  absl::Status refuse;
  absl::Status signals;  // the answer to a save signal
  uint16_t port = 0;     // where what serves listens
  bool comes_up = true;
  bool saves_and_ends = true;
  std::string unreachable;  // a run that is told and does not hear
};

// One machine with eight devices.
inline scheduler::Cluster Machine() {
  scheduler::Cluster cluster;
  cluster.fabric = scheduler::FlatFabric();
  cluster.kinds.push_back({.name = "h100"});
  cluster.types.push_back(
      {.name = "local", .cpu_milli = 64'000, .memory_mib = 1 << 20, .kind = 0, .devices = 8});
  cluster.nodes.push_back({.name = "local"});
  return cluster;
}

inline gateway::config::Scaling EightDevices(scheduler::Cluster cluster = Machine()) {
  gateway::config::Scaling scaling;
  scaling.nodes = std::move(cluster);
  scaling.planning.queues = {{.name = "default", .parent = ""}};
  return scaling;
}

// One gateway's life. The store and the launcher outlive it.
class JobsWorld {
 public:
  JobsWorld(MemoryStore& store, ScriptedLauncher& launcher, conf::TimePoint start,
            gateway::config::ModelPolicy of_models = {}, bool shared = false,
            scheduler::Cluster cluster = Machine())
      : now(start),
        launcher_(launcher),
        policy(std::move(of_models)),
        planning(EightDevices(std::move(cluster)), start),
        workload_store(store, planning.cluster()),
        context{.now = [this] { return now; },
                .wake = [] {},
                .spawn = [this](gateway::net::Task<void> task) { tasks_.Spawn(std::move(task)); },
                .record = [this](gateway::ledger::Event event) -> gateway::net::Task<absl::Status> {
                  if (record_result.ok()) records.push_back(event.action + " " + event.subject);
                  co_return record_result;
                },
                .launcher = &launcher,
                .planning = &planning,
                .store = &workload_store,
                .users = &users,
                .confirm = [this]() -> gateway::net::Task<absl::Status> { co_return confirmed; },
                .shared = shared,
                .keys = &keys},
        workloads(context),
        runner(context, workloads),
        reconciler(context, workloads),
        jobs(std::make_unique<gateway::control::Jobs>(context, workloads, runner, JobsEnvironment())),
        replicas(context, workloads, ReplicasEnvironment()) {
    workloads.Use(gateway::control::Kind::kJob, *jobs);
    workloads.Use(gateway::control::Kind::kReplica, replicas);
    workloads.untrusted = [this](const std::string& node) { return node == silent; };
    tasks_.Spawn([](JobsWorld& world) -> gateway::net::Task<void> {
      auto known = co_await world.workload_store.Load();
      EXPECT_TRUE(known.ok()) << known.status();
      if (!known.ok()) co_return;
      world.jobs->SetLastNumber(known->last_number);
      world.reconciler.TakeOver(std::move(known->workloads), world.launcher_.Now());
    }(*this));
  }

  // With the file of its parameters, or as a job that is run again.
  gateway::control::Submitted SubmitAs(gateway::control::NewJob job) {
    gateway::control::Submitted out;
    tasks_.Spawn([](JobsWorld& world, gateway::control::NewJob file,
                    gateway::control::Submitted& result) -> gateway::net::Task<void> {
      auto submitted = co_await world.jobs->Submit(std::move(file), "ada");
      EXPECT_TRUE(submitted.ok()) << submitted.status();
      if (submitted.ok()) result = *std::move(submitted);
    }(*this, std::move(job), out));
    return out;
  }
  std::string Submit(std::string text) {
    std::string id;
    tasks_.Spawn([](JobsWorld& world, std::string file, std::string& first) -> gateway::net::Task<void> {
      const auto submitted =
          co_await world.jobs->Submit({.text = std::move(file), .file = "job.yaml"}, "ada");
      EXPECT_TRUE(submitted.ok()) << submitted.status();
      if (!submitted.ok()) co_return;
      for (const conf::Problem& problem : submitted->problems) ADD_FAILURE() << ToString(problem);
      if (!submitted->jobs.empty()) first = submitted->jobs.front();
    }(*this, std::move(text), id));
    return id;
  }
  absl::Status TrySubmit(std::string text) {
    absl::Status result;
    tasks_.Spawn([](JobsWorld& world, std::string file, absl::Status& out) -> gateway::net::Task<void> {
      out = (co_await world.jobs->Submit({.text = std::move(file), .file = "job.yaml"}, "ada")).status();
    }(*this, std::move(text), result));
    return result;
  }
  std::vector<std::string> Problems(std::string text) {
    std::vector<std::string> problems;
    tasks_.Spawn(
        [](JobsWorld& world, std::string file, std::vector<std::string>& out) -> gateway::net::Task<void> {
          const auto submitted =
              co_await world.jobs->Submit({.text = std::move(file), .file = "job.yaml"}, "ada");
          EXPECT_TRUE(submitted.ok()) << submitted.status();
          if (!submitted.ok()) co_return;
          for (const conf::Problem& problem : submitted->problems) out.push_back(ToString(problem));
        }(*this, std::move(text), problems));
    return problems;
  }
  absl::Status Ask(gateway::net::Task<absl::Status> task) {
    absl::Status result;
    tasks_.Spawn([](gateway::net::Task<absl::Status> asked, absl::Status& out) -> gateway::net::Task<void> {
      out = co_await std::move(asked);
    }(std::move(task), result));
    return result;
  }

  // Until nothing more comes of it at this moment.
  void Settle() {
    for (int i = 0; i < 12; ++i) {
      jobs->Tick();
      runner.TakeSteps();
      reconciler.Compare(launcher_.Now(), now);
      if (planning.planner().NextDue()) planning.Changed();
      const std::optional<scheduler::Plan> plan = planning.Run(now);
      if (!plan) continue;
      for (const scheduler::Action& action : plan->actions) {
        actions.push_back(fmt::format("{} {}", Name(action.kind), action.job));
        workloads.Apply(action);
      }
      workloads.NoteWaiting(plan->waiting);
    }
  }
  void Pass(conf::Duration time) {
    now += time;
    Settle();
  }

  const Workload& operator[](const std::string& id) const { return *jobs->Find(id); }
  std::string State(const std::string& id) const {
    const Workload* job = jobs->Find(id);
    return job == nullptr ? "(gone)" : std::string(JobStateOf(*job));
  }
  scheduler::Planner& planner() { return planning.planner(); }
  void Changed() { planning.Changed(); }
  // A replica that wants so many devices, at production's priority.
  void SubmitReplica(const std::string& id, uint16_t devices) {
    scheduler::Job job;
    job.id = id;
    job.queue = "default";
    job.work = scheduler::WorkClass::kInference;
    job.priority = 1000;
    job.preemptible = false;
    job.submitted = now;
    job.roles = {{.name = "replica", .ask = {.devices = {{.kinds = {"h100"}, .count = devices}}}}};
    planning.Submit(std::move(job), now);
  }

  conf::TimePoint now;
  std::vector<std::string> records;
  std::vector<std::string> actions;
  absl::Status record_result;
  absl::Status confirmed;                      // the answer of the store to a leader
  std::string silent;                          // the node that is not trusted
  std::map<std::string, std::string> used_up;  // by tenant: the budget that is
  // By the tenant's path.
  std::map<std::string, std::vector<scheduler::LabelRule>> residency;
  std::vector<gateway::config::DataSet> data_sets;
  std::string nothing_starts;  // why, as a launcher says it
  std::string configuration = "0123456789abcdef";

 private:
  gateway::control::Jobs::Environment JobsEnvironment() {
    gateway::control::Jobs::Environment env;
    env.off_loop = [](std::function<absl::Status()> fn) -> gateway::net::Task<absl::Status> {
      co_return fn();
    };
    env.tenant_path = [](const std::string& name) -> std::optional<std::string> {
      return name == "research" ? std::optional<std::string>("acme/research") : std::nullopt;
    };
    env.devices_used_up = [this](const std::string& tenant, std::span<const std::string> kinds) {
      return kinds.empty() ? "" : used_up[tenant];
    };
    env.nothing_starts = [this] { return nothing_starts; };
    env.sources = gateway::config::ReferencesOnly();
    env.residency = [this](const std::string& tenant) { return residency[tenant]; };
    env.data_set = [this](const std::string& name) -> std::optional<gateway::config::DataSet> {
      const auto found = std::ranges::find(data_sets, name, &gateway::config::DataSet::name);
      return found == data_sets.end() ? std::nullopt : std::optional<gateway::config::DataSet>(*found);
    };
    env.data_sets = [this] {
      std::vector<std::string> names;
      for (const gateway::config::DataSet& data : data_sets) names.push_back(data.name);
      return names;
    };
    env.data_step = [](const std::vector<gateway::config::DataSet>& data, const std::string&) {
      gateway::config::Scaling scaling = EightDevices();
      scaling.weights.emplace().store = "/store";
      return gateway::control::DataStepOf(scaling, data, gateway::control::NoNeighbours());
    };
    env.configuration = [this] { return configuration; };
    return env;
  }
  gateway::control::Replicas::Environment ReplicasEnvironment() {
    gateway::control::Replicas::Environment env;
    env.policy = [this](const std::string&) { return &policy; };
    env.may_start = [](const std::string&) { return true; };
    env.on_failure = [this](const std::string&, std::string why, conf::Duration) {
      failures.push_back(std::move(why));
    };
    env.load = [this](const std::string& identity) { return states_.Get(identity); };
    env.doubted = [](const std::string&) { return false; };
    env.publish = [](const gateway::Launched&) {};
    return env;
  }

  ScriptedLauncher& launcher_;
  router::ReplicaStates states_;
  gateway::net::TaskGroup tasks_{[](std::exception_ptr) { ADD_FAILURE() << "a task threw"; }};

 public:
  gateway::config::ModelPolicy policy;  // of every model
  std::vector<std::string> failures;    // of replicas
  gateway::control::Planning planning;
  gateway::control::WorkloadStore workload_store;
  const gateway::control::RunUsers users;
  const gateway::control::ReplicaKeys keys;
  const gateway::control::Context context;
  gateway::control::Workloads workloads;
  gateway::control::StepRunner runner;
  gateway::control::Reconciler reconciler;
  std::unique_ptr<gateway::control::Jobs> jobs;
  gateway::control::Replicas replicas;
};

}  // namespace tests
