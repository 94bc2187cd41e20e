// A launcher over an API server that loses answers, stalls its watches and holds a large cluster of others.
#include "plugins/launchers/kubernetes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fake_kube.h"
#include "tests/support/loop_test.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_dir.h"

namespace plugins::launchers {
namespace {

using namespace std::chrono_literals;
using gateway::net::Task;
using tests::Eventually;
using tests::FakeKube;
using tests::RunOnLoop;
using tests::TestLoop;

constexpr const char* kPods = "/api/v1/namespaces/runs/pods";

KubernetesLauncher::Options OptionsFor(const FakeKube& server) {
  KubernetesLauncher::Options options;
  options.access = [url = server.url()]() -> absl::StatusOr<plugins::kubernetes::Access> {
    plugins::kubernetes::Access access;
    access.server = url;
    access.name_space = "runs";
    return access;
  };
  options.name_space = "runs";
  options.gateway = "gateway-1";
  for (int node = 1; node <= 4; ++node) options.nodes[fmt::format("node-{}", node)] = {"h100", 8};
  return options;
}

RunSpec Spec(const std::string& id, const std::string& node, int devices) {
  RunSpec spec;
  spec.id = id;
  spec.owner = "chat-small";
  spec.grant.node = node;
  spec.grant.kind = "h100";
  for (int i = 0; i < devices; ++i) spec.grant.devices.push_back(static_cast<uint8_t>(i));
  spec.image = "engine:1";
  spec.command = {"/engine"};
  spec.serves = true;
  return spec;
}

FakeKube& Serve(TestLoop& loop) {
  FakeKube& server = loop.Make<FakeKube>();
  server.Listen();
  for (int node = 1; node <= 4; ++node) server.AddNode(fmt::format("node-{}", node), 8);
  return server;
}

Task<void> Ready(TestLoop& loop, KubernetesLauncher& launcher) {
  launcher.Open();
  EXPECT_TRUE(co_await Eventually(
      loop, [&] { return launcher.shared() != nullptr && launcher.health().ok(); }, 60s))
      << launcher.health();
}

Task<RunStatus> StatusOf(KubernetesLauncher& launcher, std::string id) {
  const auto all = co_await launcher.List();
  if (all.ok()) {
    for (const RunStatus& status : *all) {
      if (status.id == id) co_return status;
    }
  }
  co_return RunStatus{};
}

TEST(KubernetesLauncherApi, ARunIsOnePodHoweverManyAnswersAreLost) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    KubernetesLauncher launcher(loop, OptionsFor(server));
    co_await Ready(loop, launcher);
    for (int i = 0; i < 10; ++i) {
      server.lose_answers = 1 + i % 2;
      const std::string id = fmt::format("r{}", i);
      absl::Status started = co_await launcher.Start(Spec(id, "node-1", 1));
      for (int again = 0; again < 5 && absl::IsUnavailable(started); ++again) {
        started = co_await launcher.Start(Spec(id, "node-2", 1));
      }
      EXPECT_TRUE(started.ok()) << started;
    }
    std::set<std::string> names;
    for (const auto& pod : server.All("pods")) {
      EXPECT_TRUE(names.insert(pod["metadata"]["name"]).second);
      EXPECT_EQ(pod["spec"]["nodeName"], "node-1") << "as it was asked for first";
    }
    EXPECT_EQ(names.size(), 10u);
    co_await launcher.Close();
    server.CloseAll();
  });
}

// The names of the nodes that the launcher finds, with their numbers of devices.
std::map<std::string, int> FoundBy(const KubernetesLauncher& launcher) {
  std::map<std::string, int> found;
  const scheduler::Cluster& cluster = launcher.found()->cluster;
  for (const scheduler::Node& node : cluster.nodes) found[node.name] = cluster.types[node.type].devices;
  return found;
}

TEST(KubernetesLauncherApi, NodesThatJoinLeaveAndChangeAreFound) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    using Found = std::map<std::string, int>;
    FakeKube& server = loop.Make<FakeKube>();
    server.Listen();
    for (const char* node : {"node-1", "node-2", "node-3"}) server.AddNode(node, 8);
    for (const char* node : {"node-1", "node-2"})
      server.Change("/api/v1/nodes", node,
                    {{"metadata",
                      {{"labels",
                        {{"pool", "gpu"},
                         {"topology.kubernetes.io/zone", "east"},
                         {"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}}}}}});
    KubernetesLauncher::Options options = OptionsFor(server);
    options.nodes.clear();
    options.discovery.emplace();
    options.node_selector = "pool=gpu";
    KubernetesLauncher launcher(loop, std::move(options));
    EXPECT_EQ(launcher.found()->version, 0u);
    co_await Ready(loop, launcher);
    EXPECT_EQ(FoundBy(launcher), (Found{{"node-1", 8}, {"node-2", 8}}));
    EXPECT_EQ(launcher.found()->cluster.kinds[0].name, "h100");
    EXPECT_EQ(launcher.found()->cluster.fabric.levels.front(), "zone");
    EXPECT_EQ(launcher.shared()->nodes.size(), 2u);

    server.Change("/api/v1/nodes", "node-3", {{"metadata", {{"labels", {{"pool", "gpu"}}}}}});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return FoundBy(launcher).contains("node-3"); }));
    EXPECT_EQ(launcher.shared()->nodes.size(), 3u);
    server.Change("/api/v1/nodes", "node-1", {{"status", {{"allocatable", {{"nvidia.com/gpu", "6"}}}}}});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return FoundBy(launcher)["node-1"] == 6; }));
    server.Remove("/api/v1/nodes", "node-2");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !FoundBy(launcher).contains("node-2"); }));

    const uint64_t version = launcher.found()->version;
    server.Change("/api/v1/nodes", "node-1",
                  {{"status", {{"conditions", {{{"type", "Ready"}, {"status", "False"}}}}}}});
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return launcher.shared()->nodes[0].health == scheduler::Health::kQuarantined; }));
    EXPECT_EQ(launcher.found()->version, version) << "its health is no change of the cluster";
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, DevicesOfRunsAreFoundThoughTheirNodeShowsNone) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    KubernetesLauncher::Options options = OptionsFor(server);
    options.nodes.clear();
    options.discovery.emplace();
    options.devices = {{"nvidia.com/gpu", "h100", "", ""}};
    {
      KubernetesLauncher before(loop, options);
      co_await Ready(loop, before);
      EXPECT_TRUE((co_await before.Start(Spec("r1", "node-1", 2))).ok());
      co_await before.Close();
    }
    server.Change("/api/v1/nodes", "node-1", {{"status", {{"allocatable", {{"nvidia.com/gpu", "0"}}}}}});
    KubernetesLauncher launcher(loop, options);
    co_await Ready(loop, launcher);
    EXPECT_EQ(FoundBy(launcher)["node-1"], 2) << "what the gateway before has given away is there";
    EXPECT_TRUE((co_await launcher.Stop("r1", 1s)).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return FoundBy(launcher)["node-1"] == 0; }));
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, TheOutputOfAPodThatIsGoneIsKeptUntilItsRunIsForgotten) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    const tests::TempDir dir;
    FakeKube& server = Serve(loop);
    server.answer = [](std::string_view method,
                       std::string_view path) -> std::optional<std::pair<int, nlohmann::json>> {
      if (method == "GET" && path.find("/pods/r1/log") != path.npos) return std::pair(200, "what it printed");
      return std::nullopt;
    };
    KubernetesLauncher::Options options = OptionsFor(server);
    options.logs = dir.path();
    KubernetesLauncher launcher(loop, options);
    co_await Ready(loop, launcher);
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node-1", 1))).ok());
    server.SetState("runs", "r1", "Succeeded", {{"terminated", {{"exitCode", 0}}}});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return std::filesystem::exists(dir / "r1.log"); }));
    server.Remove(kPods, "r1");
    absl::StatusOr<std::string> text = absl::NotFoundError("");
    for (int i = 0; i < 100 && !text.ok(); ++i) {
      server.answer = nullptr;  // from here on there is no pod to ask
      text = co_await launcher.ReadLog("r1");
    }
    EXPECT_THAT(text.value_or(""), testing::HasSubstr("what it printed"));
    EXPECT_TRUE((co_await launcher.Forget("r1")).ok());
    EXPECT_FALSE(std::filesystem::exists(dir / "r1.log"));
    co_await launcher.Close();
    server.CloseAll();
  });
}

nlohmann::json Refusal(int code, const std::string& message) {
  return {{"kind", "Status"}, {"status", "Failure"}, {"message", message}, {"code", code}};
}

// Refuses each creation at a path that ends so.
void Refuse(FakeKube& server, std::string collection, int code, std::string message) {
  server.answer = [=](std::string_view method,
                      std::string_view path) -> std::optional<std::pair<int, nlohmann::json>> {
    if (method == "POST" && path.ends_with(collection)) return std::pair(code, Refusal(code, message));
    return std::nullopt;
  };
}

TEST(KubernetesLauncherApi, ARunWhosePodWasRefusedIsNotListedAndIsAskedForAgain) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    KubernetesLauncher launcher(loop, OptionsFor(server));
    co_await Ready(loop, launcher);
    Refuse(server, "/pods", 403, "pods \"r1\" is forbidden: exceeded quota: devices");
    const absl::Status refused = co_await launcher.Start(Spec("r1", "node-1", 1));
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("exceeded quota"));
    EXPECT_EQ((co_await StatusOf(launcher, "r1")).id, "") << "a run that is listed is not asked for again";
    server.answer = nullptr;
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node-2", 1))).ok());
    const RunStatus status = co_await StatusOf(launcher, "r1");
    EXPECT_EQ(status.id, "r1");
    EXPECT_EQ(status.grant.node, "node-2");
    EXPECT_EQ(server.All("pods").size(), 1u);
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, ARunWhosePodWasNeverMadeEndsWhenItIsStopped) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    KubernetesLauncher launcher(loop, OptionsFor(server));
    co_await Ready(loop, launcher);
    Refuse(server, "/pods", 403, "pods \"r1\" is forbidden: exceeded quota: devices");
    EXPECT_TRUE(absl::IsUnavailable(co_await launcher.Start(Spec("r1", "node-1", 1))));
    EXPECT_TRUE((co_await launcher.Stop("r1", 1s)).ok());
    EXPECT_EQ((co_await StatusOf(launcher, "r1")).id, "");
    // No list tells meanwhile that there is no pod.
    server.answer = [](std::string_view method,
                       std::string_view path) -> std::optional<std::pair<int, nlohmann::json>> {
      if (method == "GET" && path == kPods)
        return std::pair(500, Refusal(500, "etcdserver: request timed out"));
      return std::nullopt;
    };
    server.lose_requests = 100;
    EXPECT_TRUE(absl::IsUnavailable(co_await launcher.Start(Spec("r2", "node-1", 1))));
    EXPECT_EQ((co_await StatusOf(launcher, "r2")).id, "") << "its start is to be repeated";
    EXPECT_TRUE((co_await launcher.Stop("r2", 1s)).ok());
    EXPECT_EQ((co_await StatusOf(launcher, "r2")).state, RunState::kEnded);
    // Its creation is carried out at last: nobody wants it.
    nlohmann::json late = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", {{"name", "r2"}, {"labels", {{"tidegate.io/gateway", "gateway-1"}}}}},
        {"spec", {{"nodeName", "node-1"}, {"containers", {{{"name", "run"}, {"image", "i"}}}}}}};
    server.Put(kPods, late);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.All("pods").empty(); }));
    EXPECT_TRUE((co_await launcher.Forget("r2")).ok());
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, AnEnvironmentThatWasRefusedIsAskedForAgain) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    KubernetesLauncher launcher(loop, OptionsFor(server));
    co_await Ready(loop, launcher);
    RunSpec spec = Spec("r1", "node-1", 1);
    spec.env = {{"KEY", "value"}};
    Refuse(server, "/secrets", 403, "secrets is forbidden: cannot create resource \"secrets\"");
    const absl::Status refused = co_await launcher.Start(spec);
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("secrets"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.All("pods").size() == 1; }));
    EXPECT_EQ((co_await StatusOf(launcher, "r1")).id, "") << "a run that is listed is not asked for again";
    Refuse(server, "/secrets", 422, "Secret \"r1\" is invalid");
    const absl::Status invalid = co_await launcher.Start(spec);
    EXPECT_TRUE(absl::IsInvalidArgument(invalid)) << invalid;
    server.answer = nullptr;
    EXPECT_TRUE((co_await launcher.Start(spec)).ok());
    EXPECT_EQ((co_await StatusOf(launcher, "r1")).id, "r1");
    EXPECT_EQ(server.All("secrets").size(), 1u);
    EXPECT_EQ(server.Count(fmt::format("POST {}", kPods)), 1);
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, APodThatASignalDeletedWasNotDeletedByAnother) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    KubernetesLauncher launcher(loop, OptionsFor(server));
    co_await Ready(loop, launcher);
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node-1", 1))).ok());
    server.runs = false;  // it saves its work for a while
    EXPECT_TRUE((co_await launcher.Signal("r1", SIGTERM)).ok());
    RunStatus status = co_await StatusOf(launcher, "r1");
    gateway::net::Sleep sleep(loop.watchdog);
    for (int i = 0; i < 200 && status.state != RunState::kStopping; ++i) {
      co_await sleep.For(20ms);
      status = co_await StatusOf(launcher, "r1");
    }
    EXPECT_EQ(status.state, RunState::kStopping);
    EXPECT_EQ(status.why, "");
    server.Remove(kPods, "r1");
    for (int i = 0; i < 200 && status.state != RunState::kEnded; ++i) {
      co_await sleep.For(20ms);
      status = co_await StatusOf(launcher, "r1");
    }
    EXPECT_EQ(status.state, RunState::kEnded);
    EXPECT_EQ(status.why, "");
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, OfALogOfAnySizeItsEndIsKeptAndWhatIsLostIsTold) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    const tests::TempDir dir;
    FakeKube& server = Serve(loop);
    const std::string line = std::string(7'999, 'x') + "\n";
    std::string text;
    while (text.size() < (40U << 20)) text += line;
    server.answer = [&text](std::string_view method,
                            std::string_view path) -> std::optional<std::pair<int, nlohmann::json>> {
      if (method != "GET" || !path.ends_with("/log")) return std::nullopt;
      return std::pair(200, nlohmann::json(text + "the end"));
    };
    KubernetesLauncher::Options options = OptionsFor(server);
    options.logs = dir / "logs";
    std::vector<std::string> lost;
    options.on_log_lost = [&lost](const std::string& run, std::string_view) { lost.push_back(run); };
    KubernetesLauncher launcher(loop, options);
    co_await Ready(loop, launcher);
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node-1", 1))).ok());
    server.SetState("runs", "r1", "Succeeded", {{"terminated", {{"exitCode", 0}}}});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return std::filesystem::exists(dir / "logs/r1.log"); }, 60s));
    EXPECT_LE(std::filesystem::file_size(dir / "logs/r1.log"), KeptLogs::kBytes);
    EXPECT_TRUE(lost.empty());

    std::filesystem::remove_all(dir / "logs");
    std::ofstream(dir / "logs") << "no folder";
    text.clear();
    EXPECT_TRUE((co_await launcher.Start(Spec("r2", "node-1", 1))).ok());
    server.SetState("runs", "r2", "Succeeded", {{"terminated", {{"exitCode", 0}}}});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return lost == std::vector<std::string>{"r2"}; }));
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, ForgettingARunThatIsNotKnownRemovesItsLog) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    const tests::TempDir dir;
    FakeKube& server = Serve(loop);
    KubernetesLauncher::Options options = OptionsFor(server);
    options.logs = dir.path();
    std::ofstream(dir / "r1.log") << "of an earlier gateway";
    KubernetesLauncher launcher(loop, options);
    co_await Ready(loop, launcher);
    EXPECT_TRUE((co_await launcher.Forget("r1")).ok());
    EXPECT_FALSE(std::filesystem::exists(dir / "r1.log"));
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, WatchesThatStallPlaceNothingTwice) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    KubernetesLauncher launcher(loop, OptionsFor(server));
    co_await Ready(loop, launcher);
    EXPECT_TRUE((co_await launcher.Start(Spec("before", "node-1", 1))).ok());
    server.stall = true;
    EXPECT_TRUE((co_await launcher.Start(Spec("during", "node-2", 1))).ok());
    EXPECT_TRUE((co_await launcher.Start(Spec("during", "node-3", 1))).ok());
    EXPECT_TRUE((co_await launcher.Start(Spec("before", "node-3", 1))).ok());
    server.SetState("runs", "before", "Failed", {{"terminated", {{"exitCode", 3}, {"reason", "Error"}}}});
    server.EndStall();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.watches() == 3; }));
    gateway::net::Sleep sleep(loop.watchdog);
    RunStatus before = co_await StatusOf(launcher, "before");
    for (int i = 0; i < 200 && before.state != RunState::kEnded; ++i) {
      co_await sleep.For(20ms);
      before = co_await StatusOf(launcher, "before");
    }
    EXPECT_EQ(before.state, RunState::kEnded) << "what happened while it was silent is heard of";
    EXPECT_EQ(before.exit_code, 3);
    EXPECT_EQ((co_await StatusOf(launcher, "during")).state, RunState::kRunning);
    EXPECT_EQ(server.All("pods").size(), 2u);
    EXPECT_EQ(server.Count(fmt::format("POST {}", kPods)), 2);
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, ASecondGatewayProcessFindsWhatTheFirstAskedFor) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    {
      KubernetesLauncher first(loop, OptionsFor(server));
      co_await Ready(loop, first);
      server.lose_answers = 1;
      server.refuse_watches = 100;
      server.DropWatches();
      (co_await first.Start(Spec("r1", "node-1", 1))).IgnoreError();
      co_await first.Close();  // as if it was killed before the answer
    }
    server.refuse_watches = 0;
    KubernetesLauncher second(loop, OptionsFor(server));
    co_await Ready(loop, second);
    const RunStatus found = co_await StatusOf(second, "r1");
    EXPECT_EQ(found.owner, "chat-small");
    EXPECT_EQ(found.grant.node, "node-1");
    EXPECT_TRUE((co_await second.Start(Spec("r1", "node-2", 1))).ok());
    EXPECT_EQ(server.All("pods").size(), 1u);
    co_await second.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, APodOfAnotherWithARunsNameIsLeftAlone) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    server.Put(kPods, {{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", {{"name", "r1"}}},
                       {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}}}}}}});
    KubernetesLauncher launcher(loop, OptionsFor(server));
    co_await Ready(loop, launcher);
    const absl::Status started = co_await launcher.Start(Spec("r1", "node-1", 1));
    EXPECT_TRUE(absl::IsFailedPrecondition(started)) << started;
    EXPECT_EQ(server.Count("DELETE"), 0);
    co_await launcher.Close();
    server.CloseAll();
  });
}

TEST(KubernetesLauncherApi, ThrottlingAndErrorsDelayAStartAndNothingElse) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    KubernetesLauncher launcher(loop, OptionsFor(server));
    co_await Ready(loop, launcher);
    server.throttle = 1;
    server.fail = 2;
    absl::Status started = co_await launcher.Start(Spec("r1", "node-1", 1));
    for (int again = 0; again < 5 && absl::IsUnavailable(started); ++again) {
      started = co_await launcher.Start(Spec("r1", "node-1", 1));
    }
    EXPECT_TRUE(started.ok()) << started;
    EXPECT_EQ(server.All("pods").size(), 1u);
    server.fail = 1;
    absl::Status stopped = co_await launcher.Stop("r1", 5s);
    for (int again = 0; again < 5 && absl::IsUnavailable(stopped); ++again) {
      stopped = co_await launcher.Stop("r1", 5s);
    }
    EXPECT_TRUE(stopped.ok()) << stopped;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return server.All("pods").empty(); }));
    co_await launcher.Close();
    server.CloseAll();
  });
}

size_t ResidentBytes() {
  size_t total = 0;
  size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(KubernetesLauncherApi, FiveThousandNodesAndFiftyThousandPodsOfOthersFitInItsMemory) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    FakeKube& server = Serve(loop);
    const size_t pods = tests::kSanitized ? 5'000 : 50'000;
    const size_t nodes = tests::kSanitized ? 500 : 5'000;
    server.SetCrowd(pods, nodes);
    KubernetesLauncher::Options options = OptionsFor(server);
    for (size_t i = 0; i < nodes; ++i) options.nodes[fmt::format("crowd-{:05}", i)] = {"h100", 8};
    const size_t before = ResidentBytes();
    KubernetesLauncher launcher(loop, options);
    const conf::TimePoint begun = gateway::net::Now();
    launcher.Open();
    const bool knows = co_await Eventually(
        loop, [&] { return launcher.shared() != nullptr && launcher.health().ok(); }, 120s);
    EXPECT_TRUE(knows) << launcher.health();
    if (!knows) co_return;
    testing::Test::RecordProperty("seconds", std::to_string((gateway::net::Now() - begun) / 1s));
    testing::Test::RecordProperty("mib", std::to_string((ResidentBytes() - before) >> 20));
    if (!tests::kSanitized) EXPECT_LT(ResidentBytes() - before, 500U << 20);
    EXPECT_EQ(launcher.shared()->nodes.size(), nodes + 4);
    uint32_t taken = 0;
    int64_t cpu_milli = 0;
    for (const SharedNode& node : launcher.shared()->nodes) {
      taken += node.taken;
      cpu_milli += node.host.has_value() ? node.host->taken.cpu_milli : 0;
    }
    EXPECT_EQ(taken, pods / 10) << "every tenth holds a device";
    EXPECT_EQ(cpu_milli, static_cast<int64_t>(pods) * 1000) << "each holds a core";
    // Pages of 500, each once.
    EXPECT_LE(server.Count("LIST /api/v1/pods"), static_cast<int>(pods / 500 + 2));
    EXPECT_LE(server.Count("LIST /api/v1/nodes"), static_cast<int>(nodes / 500 + 2));
    co_await launcher.Close();
    server.CloseAll();
  });
}

}  // namespace
}  // namespace plugins::launchers
