// Placement rules of a policy through the real gateway: the nodes of its replicas, their environment, the
// work that makes room for them, and replicas without room.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/fault/gateway/job_commands.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr milliseconds kLong = JobCommands::kPatience;

// Four nodes below two leaves, of two devices each, all on this machine; replicas are packed unless their
// policy says otherwise.
constexpr std::string_view kTwoLeaves = R"(devices: [{name: gpu, memory: 16GiB}]
types: [{name: box, cpu: 64, memory: 512GiB, device: gpu, count: 2}]
nodes: [{name: "n{1..4}", type: box, domain: "leaf-{1..2}"}]
fabric:
  levels: [leaf, all]
  domains: [{name: "leaf-{1..2}", level: leaf, parent: all}, {name: all, level: all}]
)";
constexpr std::string_view kPacked = "placement: binpack\ninference_placement: binpack\n";

// A replica that writes its environment down before it is an engine.
class Written {
 public:
  std::string command() const {
    return fmt::format(
        "[/bin/sh, -c, \"env > {}/$TIDEGATE_RUN_ID; exec {} --port {{port}} --model chat-small "
        "--preset instant\"]",
        folder_.path(), TIDEGATE_ENGINE_BINARY);
  }
  std::string Of(const std::string& run, std::string_view variable) const {
    std::ifstream file(folder_ / run);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(fmt::format("{}=", variable))) return line.substr(variable.size() + 1);
    }
    return "(not set)";
  }
  // Of all replicas.
  std::map<std::string, std::string> All(const Json& replicas, std::string_view variable) const {
    std::map<std::string, std::string> values;
    for (const Json& replica : replicas) values[replica["id"]] = Of(replica["id"], variable);
    return values;
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  TempDir folder_;
};

std::vector<std::string> Sorted(const std::map<std::string, std::string>& values) {
  std::vector<std::string> sorted;
  for (const auto& [run, value] : values) sorted.push_back(value);
  std::ranges::sort(sorted);
  return sorted;
}

std::set<std::string> NodesOf(const Json& replicas) {
  std::set<std::string> nodes;
  for (const Json& replica : replicas) nodes.insert(replica["node"]);
  return nodes;
}

TEST(Placement, SpreadTakesReplicasApartOverLeavesThenNodes) {
  const TempDir files;
  std::ofstream(files / "cluster.yaml") << kTwoLeaves;
  std::ofstream(files / "planner.yaml") << kPacked;
  const Written written;
  const auto model = [&](const char* spread, int replicas) {
    return ScaledModel{.replicas = fmt::format("{{min: {0}, max: {0}}}", replicas),
                       .more = fmt::format("placement: {{devices: [{{kind: gpu}}], spread: {}}}\n", spread),
                       .command = written.command()};
  };
  const std::string scaling =
      fmt::format("cluster: {}, planner: {}", files / "cluster.yaml", files / "planner.yaml");
  {
    const Scaled packed(model("none", 2), scaling);
    ASSERT_TRUE(packed.Becomes(2, "ready")) << packed.Replicas();
    EXPECT_EQ(NodesOf(packed.Replicas()).size(), 1u) << packed.Replicas();
  }
  Scaled scaled(model("leaf", 2), scaling);
  ASSERT_TRUE(scaled.Becomes(2, "ready")) << scaled.Replicas();
  const std::set<std::string> two = NodesOf(scaled.Replicas());
  const auto below_first = [&](const std::set<std::string>& nodes) {
    return nodes.count("n1") + nodes.count("n2");
  };
  EXPECT_EQ(two.size(), 2u);
  EXPECT_EQ(below_first(two), 1u) << scaled.Replicas();
  scaled.WritePolicy(model("leaf", 4));
  scaled.gateway.Reload();
  ASSERT_TRUE(scaled.Becomes(4, "ready")) << scaled.Replicas();
  const Json replicas = scaled.Replicas();
  EXPECT_THAT(NodesOf(replicas), ElementsAre("n1", "n2", "n3", "n4"));
  // Devices of this machine are numbered in the order of the nodes, and nobody is given another's.
  for (const Json& replica : replicas) {
    const int node = replica["node"].get<std::string>()[1] - '1';
    const int place = std::stoi(replica["devices"][0].get<std::string>());
    EXPECT_EQ(written.Of(replica["id"], "CUDA_VISIBLE_DEVICES"), std::to_string(2 * node + place)) << replica;
  }
}

TEST(Placement, AShareThatNothingEnforcesIsRefused) {
  Scaled scaled({.replicas = "{min: 0, max: 1}"}, "cluster: [{kind: gpu, count: 1}]");
  const JobCommands commands(scaled.gateway);
  const TempDir folder;
  std::ofstream(folder / "half.yaml")
      << "name: half\nwork: batch\ncommand: [/bin/true]\ndevices: [{share: 0.5}]\n";
  const auto refused = commands.Run({"jobs", "submit", folder / "half.yaml"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("/devices/0"), HasSubstr("nothing enforces"), HasSubstr("shares to mps")));
}

TEST(Placement, UnderMpsARunGetsTheLimitsOfItsShareAndDoesNotStartWithoutTheDaemon) {
  const TempDir files;
  std::ofstream(files / "cluster.yaml") << "devices: [{name: gpu, memory: 80GiB}]\ntypes: [{name: box, cpu: "
                                           "8, memory: 64GiB, device: gpu, count: 1}]\n"
                                           "nodes: [{name: local, type: box}]\n";
  const TempDir pipes;
  ASSERT_EQ(setenv("CUDA_MPS_PIPE_DIRECTORY", pipes.path().c_str(), 1), 0);
  const Written written;
  Scaled scaled({.replicas = "{min: 1, max: 1}",
                 .more = "placement: {devices: [{kind: gpu, share: 0.4, memory: 30GiB}]}\n",
                 .command = written.command()},
                fmt::format("cluster: {}, shares: mps", files / "cluster.yaml"));
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  ASSERT_TRUE(Within(kLong, [&] {
    const Json trouble = scaled.Scaling()["trouble"];
    return trouble.is_string() &&
           trouble.get<std::string>().find("nvidia-cuda-mps-control -d") != std::string::npos;
  })) << scaled.Scaling();
  std::ofstream(pipes / "control") << "";
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  const std::string id = scaled.Replicas()[0]["id"];
  EXPECT_EQ(written.Of(id, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "40");
  EXPECT_EQ(written.Of(id, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=30720M");
  EXPECT_EQ(written.Of(id, "CUDA_MPS_PIPE_DIRECTORY"), pipes.path());
}

TEST(Placement, SharesOfADeviceAreGivenUntilItIsFullAndPaidForAsShares) {
  const Written written;
  Scaled scaled({.replicas = "{min: 3, max: 3}",
                 .more = "placement: {devices: [{kind: gpu, share: 0.4}]}\n",
                 .command = written.command()},
                "cluster: [{kind: gpu, count: 1}], shares: accounted");
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(Within(kLong, [&] {
    const Json model = scaled.Scaling();
    return model["ready"] == 2 && model["waiting"] == 1 && model["trouble"].is_string();
  })) << scaled.Scaling();
  EXPECT_THAT(scaled.Scaling()["trouble"].get<std::string>(), HasSubstr("400/1000 of gpu"));
  for (const Json& replica : scaled.Replicas()) {
    if (replica["state"] == "ready") EXPECT_EQ(written.Of(replica["id"], "CUDA_VISIBLE_DEVICES"), "0");
  }
  const Json node = Json::parse(commands.Run({"nodes", "--json"}).out)[0];
  EXPECT_NEAR(node["free"].get<double>(), 0.2, 1e-9) << node;
  const Json device = node["each"][0];
  EXPECT_EQ(device["held_by"].size(), 2u) << device;
  EXPECT_NEAR(device["free"].get<double>(), 0.2, 1e-9);

  scaled.WritePolicy({.replicas = "{min: 0, max: 3}",
                      .more = "placement: {devices: [{kind: gpu, share: 0.4}]}\n",
                      .command = written.command()});
  scaled.gateway.Reload();
  ASSERT_TRUE(scaled.Becomes(0, "ready")) << scaled.Replicas();
  std::set<std::string> launched;
  std::map<std::string, int64_t> ready;
  int64_t replicas_us = 0;
  int64_t held_us = 0;
  std::map<int64_t, int64_t> intervals;
  for (const Record& record : scaled.gateway.Records()) {
    if (record.action == "replica.launch") launched.insert(record.subject);
    if (record.action == "replica.ready") ready[record.subject] = record.time_us;
    if (record.action == "replica.stop" && ready.contains(record.subject))
      replicas_us += record.time_us - ready[record.subject];
    if (record.kind == Kind::kDevices) intervals[record.time_us] = record.held_us;
  }
  int64_t until_us = 0;
  for (const auto& [from, held] : intervals) held_us += held;
  for (const Record& record : scaled.gateway.Records()) until_us = std::max(until_us, record.until_us);
  // From their processes' start, which is before they were ready, until they had ended, which is after they were
  // told to.
  ASSERT_EQ(launched.size(), 2u) << "the third one never found a place";
  EXPECT_GE(held_us, replicas_us * 4 / 10 - 10'000);
  EXPECT_LE(held_us, (until_us - intervals.begin()->first) * 8 / 10 + 10'000);
}

// NVML as the tests have it: GPUs 0 to 2 whole, GPU 3 cut into 3g.40gb and twice 1g.10gb.
class FakeGpus {
 public:
  FakeGpus() {
    std::filesystem::create_symlink(TIDEGATE_FAKE_NVML, folder_ / "libnvidia-ml.so.1");
    setenv("LD_LIBRARY_PATH", folder_.path().c_str(), 1);
  }
  ~FakeGpus() { unsetenv("LD_LIBRARY_PATH"); }
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

 private:
  TempDir folder_;
};

TEST(Placement, AProbedMachineGivesInstancesAndWholeDevicesByTheirNames) {
  const FakeGpus gpus;
  const Written written;
  const Scaled scaled({.replicas = "{min: 3, max: 3}",
                       .more = "placement: {devices: [{profile: 1g.10gb}]}\n",
                       .command = written.command()},
                      "cluster: probe");
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(Within(kLong, [&] {
    const Json now = scaled.Scaling();
    return now["ready"] == 2 && now["trouble"].is_string();
  })) << scaled.Replicas();
  EXPECT_EQ(scaled.Scaling()["waiting"], 1) << "there are two such instances";
  EXPECT_THAT(Sorted(written.All(scaled.Replicas(), "CUDA_VISIBLE_DEVICES")),
              ElementsAre("(not set)", "MIG-3-2", "MIG-3-3"));
  EXPECT_THAT(scaled.Scaling()["trouble"].get<std::string>(), HasSubstr("1g.10gb"));
  for (const Json& node : Json::parse(commands.Run({"nodes", "--json"}).out)) {
    if (node["kind"] != "h100-cut") continue;
    EXPECT_GT(node["free"].get<double>(), 0) << node;  // instances that nobody holds
    EXPECT_LT(node["free"].get<double>(), 1) << node;
  }

  const std::string job =
      "directory: " + written.folder() +
      "\ncommand: [/bin/sh, -c, 'env > $TIDEGATE_JOB; sleep 0.5']\nrestarts: 0\nestimate: 5s\n";
  const std::string large = commands.Submit("name: large\ndevices: [{profile: 3g.40gb}]\n" + job);
  const std::string pair = commands.Submit("name: pair\ndevices: [{kind: h100, count: 2}]\n" + job);
  ASSERT_TRUE(commands.Comes(large, "done")) << commands.Explain(large) << commands.Run({"nodes"}).out;
  ASSERT_TRUE(commands.Comes(pair, "done")) << commands.Explain(pair);
  EXPECT_EQ(written.Of(large, "CUDA_VISIBLE_DEVICES"), "MIG-3-0");
  EXPECT_EQ(written.Of(pair, "CUDA_VISIBLE_DEVICES"), "0,1") << "those that NVLink joins";
  EXPECT_EQ(written.Of(pair, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  // What asks for no kind is given none that is cut, and to ask for such a one whole is told off at once.
  const std::string any = commands.Submit("name: any\ndevices: [{count: 1}]\n" + job);
  ASSERT_TRUE(commands.Comes(any, "done")) << commands.Explain(any);
  EXPECT_THAT(written.Of(any, "CUDA_VISIBLE_DEVICES"), testing::MatchesRegex("[012]"));
  std::ofstream(written.folder() + "/cut.yaml") << "name: cut\ndevices: [{kind: h100-cut}]\n" << job;
  const CliResult refused = commands.Run({"jobs", "submit", written.folder() + "/cut.yaml"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("h100-cut is cut into instances"));

  for (const Record& record : scaled.gateway.Records()) {
    if (record.action != "job.ended" || record.subject != large) continue;
    const Json detail = Json::parse(record.detail);
    ASSERT_EQ(detail["device_seconds"].size(), 1u) << detail;
    // 3 of its 7 slices of compute.
    EXPECT_NEAR(detail["device_seconds"].begin()->get<double>(), detail["seconds"].get<double>() * 3 / 7,
                0.01);
  }
}

TEST(Placement, ASecondGatewayWithTheSameDevicesIsRefusedAndNamesTheirHolder) {
  const FakeGpus gpus;
  const TempDir folder;
  const std::string declared =
      fmt::format("cluster: [{{kind: gpu, count: 4}}], device_locks: {}", folder / "locks");
  for (const auto& [cluster, device] : {std::pair(std::string("cluster: probe"), "the device GPU-"),
                                        std::pair(declared, "the device nvidia-0")}) {
    Scaled scaled({.replicas = "{min: 0, max: 1}"}, cluster);
    std::string text = ReadFile(scaled.gateway.config_path());
    text.replace(text.find(scaled.gateway.state_dir()), scaled.gateway.state_dir().size(), folder / "state");
    std::ofstream(folder / "second.yaml") << text;
    ChildProcess second({TIDEGATE_BINARY, "serve", "--config", folder / "second.yaml"}, folder / "log");
    EXPECT_NE(second.Wait(kLong), 0) << cluster;
    EXPECT_THAT(second.Output(), HasSubstr(device));
    EXPECT_THAT(second.Output(),
                HasSubstr(fmt::format("process {} (tidegate)", scaled.gateway.process().pid())));
  }
}

TEST(Placement, AFailedDeviceProbeIsReportedAndNothingIsServed) {
  const FakeGpus gpus;
  setenv("FAKE_NVML_FAILS", "1", 1);
  const TempDir folder;
  std::ofstream(folder / "tidegate.yaml")
      << "server: {listen: 127.0.0.1:0, admin: 127.0.0.1:0, state_dir: " << folder / "state" << "}\n"
      << "tenants: [{name: demo, models: [\"*\"]}]\n"
      << "models: [{name: m, endpoints: [{url: http://127.0.0.1:9, engine: vllm}]}]\nscaling: {cluster: "
         "probe}\n";
  ChildProcess gateway({TIDEGATE_BINARY, "serve", "--config", folder / "tidegate.yaml"}, folder / "log");
  EXPECT_TRUE(gateway.Wait(kLong).has_value());
  unsetenv("FAKE_NVML_FAILS");
  EXPECT_THAT(gateway.Output(), HasSubstr("no GPU or NPU was found on this machine"));
  EXPECT_THAT(gateway.Output(), HasSubstr("Driver Not Loaded"));
}

class MayPreempt : public testing::Test {
 protected:
  static ScaledModel Model(const std::string& victims) {
    return {.replicas = "{min: 0, max: 1}",
            .more = fmt::format("cold_start: {{hold: {}}}\n"
                                "placement: {{devices: [{{kind: gpu, count: 2}}], may_preempt: {}}}\n",
                                victims == "[]" ? "2s" : "60s", victims)};
  }
  std::string Hold(const std::string& work) const {
    return commands_.Submit(
        fmt::format("name: {0}\nwork: {0}\ndevices: [{{kind: gpu, count: 4}}]\n{1}"
                    "command: [/bin/sleep, \"1000\"]\n",
                    work, work == "notebook" ? "notebook: {idle_timeout: 1h}\n" : ""));
  }
  ~MayPreempt() override { EXPECT_TRUE(commands_.CancelAll()); }

  Scaled scaled_{Model("[batch]"), "cluster: [{kind: gpu, count: 8}]"};
  JobCommands commands_{scaled_.gateway};
};

TEST_F(MayPreempt, OnlyTheNamedWorkClassesMakeRoom) {
  const std::string training = Hold("training");
  ASSERT_TRUE(commands_.Comes(training, "running"));
  const std::string batch = Hold("batch");
  ASSERT_TRUE(commands_.Comes(batch, "running"));
  ASSERT_EQ(scaled_.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  EXPECT_EQ(commands_.StateOf(training), "running");
  EXPECT_EQ(commands_.Show(training)["attempt"], 1);
  for (const auto& action : scaled_.Actions()) {
    if (action.action == "job.preempt") EXPECT_EQ(action.subject, batch);
  }
  EXPECT_EQ(scaled_.Names("job.preempt"), 1);
  EXPECT_TRUE(commands_.Comes(batch, "running", 2)) << "and is back when the replica has gone";
}

TEST_F(MayPreempt, WithoutPreemptibleWorkAReplicaWaitsWithAReasonAndStartsLater) {
  scaled_.WritePolicy(Model("[]"));
  scaled_.gateway.Reload();
  const std::string training = Hold("training");
  const std::string notebook = Hold("notebook");
  ASSERT_TRUE(commands_.Comes(training, "running"));
  ASSERT_TRUE(commands_.Comes(notebook, "running"));
  const Answer refused = scaled_.gateway.Ask(Chat({{"max_tokens", 3}}));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code(), "no_replica_started");
  EXPECT_THAT(refused.body, HasSubstr("gpu"));
  EXPECT_EQ(scaled_.Names("job.preempt"), 0);
  EXPECT_EQ(scaled_.Names("replica.launch"), 0) << "what has no place is not launched";
  const Answer ready = scaled_.gateway.AskAdmin(Get("/readyz"));
  EXPECT_EQ(ready.status, 200);
  EXPECT_THAT(ready.body, HasSubstr("model:chat-small"));
  // Somebody waits, for longer than that one did, and room comes by itself.
  scaled_.WritePolicy(Model("[batch]"));
  scaled_.gateway.Reload();
  RawClient waits = scaled_.gateway.Connect();
  waits.Send(Chat({{"max_tokens", 3}}));
  ASSERT_TRUE(Within(kLong, [&] { return scaled_.Scaling()["held_requests"] == 1; }));
  ASSERT_EQ(commands_.Run({"jobs", "cancel", notebook}).code, 0);
  EXPECT_EQ(waits.Read().status, 200);
  EXPECT_EQ(commands_.StateOf(training), "running");
}

TEST(Policies, StandbyKeepsItsReplicasUntilScaleToZero) {
  const Scaled scaled({.replicas = "{min: 0, max: 3}", .idle = "{scale_to_zero_after: 2s, standby: 2}"});
  EXPECT_EQ(scaled.Replicas().size(), 0u);
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ASSERT_TRUE(Within(kLong, [&] { return scaled.Replicas().size() == 2; })) << scaled.Scaling();
  ASSERT_TRUE(scaled.Becomes(0, "ready")) << scaled.Replicas();
  EXPECT_EQ(scaled.Names("replica.launch"), 2);
  bool told = false;
  for (const auto& action : scaled.Actions())
    told |= action.action == "replica.launch" && action.detail.find("standby") != std::string::npos;
  EXPECT_TRUE(told) << "the second one's reason";
}

TEST(Policies, AScheduleIsAFloorWhetherAnybodyAsksOrNot) {
  const ScaledModel floor = {.replicas = "{min: 0, max: 4}",
                             .more = "schedule: [{cron: \"* * * * *\", timezone: Asia/Shanghai, min: 2}]\n"};
  Scaled scaled(floor);
  ASSERT_TRUE(scaled.Becomes(2, "ready")) << scaled.Replicas();
  EXPECT_TRUE(Within(kLong, [&] { return scaled.Scaling()["reason"] == "schedule"; })) << scaled.Scaling();
  EXPECT_FALSE(Within(milliseconds(1500), [&] { return scaled.Replicas().size() != 2; }))
      << "idleness does not end what the schedule asks for";
  // Nothing has fired of a schedule that begins on a day that does not come.
  ScaledModel other = floor;
  other.more = "schedule: [{cron: \"0 0 30 2 *\", min: 2}]\n";
  scaled.WritePolicy(other);
  scaled.gateway.Reload();
  EXPECT_TRUE(scaled.Becomes(0, "ready")) << scaled.Replicas();
}

}  // namespace
}  // namespace tests
