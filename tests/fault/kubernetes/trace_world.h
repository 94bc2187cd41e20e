// A recorded trace through the real gateway and a real Kubernetes: five minutes of conversations, ten times as fast. A
// training gang holds most devices, and somebody else's pod keeps its own. This file starts all of it, sends requests
// while it runs, and answers the questions of the test.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "conf/json_parse.h"
#include "tests/fault/kubernetes/kube_gateway.h"
#include "tests/support/gateway_process.h"
#include "tests/support/run_cli.h"
#include "tests/support/shipped.h"
#include "tests/support/stable_port.h"

namespace tests {

inline constexpr std::string_view kKubeTraceKey = "a-bootstrap-key-of-enough-characters";

// A step takes 0.1 s. What rank 0 has saved is what the gang goes on from: on TERM, and every 50 steps. One of an earlier
// attempt, on a node that is lost, ends by itself.
inline constexpr std::string_view kKubeTraining = R"sh(#!/bin/sh
if [ "$RANK" != 0 ]; then
  trap 'exit 0' TERM
  while :; do sleep 0.5; done
fi
step=0
if [ "$1" = --resume ]; then step=$(cat saved); fi
echo "$TIDEGATE_ATTEMPT" > attempt
echo "$TIDEGATE_ATTEMPT $WORLD_SIZE $step" >> begun
save() { echo $step > saved.new && mv saved.new saved; }
trap 'save; exit 0' TERM
while :; do
  sleep 0.1
  if [ "$(cat attempt)" != "$TIDEGATE_ATTEMPT" ]; then exit 1; fi
  step=$((step + 1))
  if [ $((step % 50)) = 0 ]; then save; fi
done
)sh";

class KubeTraceWorld {
 public:
  static constexpr milliseconds kLong = KubeCluster::kLong;

  explicit KubeTraceWorld(KubeCluster& cluster)
      : cluster_(cluster), work_(cluster.folder() + "/" + cluster.space()) {
    std::filesystem::create_directories(work_);
    std::filesystem::permissions(work_, std::filesystem::perms(0777));
    WriteKubeNodes(folder_ / "cluster.yaml");
    Secret("key", kKubeTraceKey);
    std::ofstream(work_ + "/train.sh") << kKubeTraining;
    for (const auto& [model, devices, limits] :
         {std::tuple{"chat-small", 1, "{min: 1, max: 6}"}, std::tuple{"chat-large", 2, "{min: 0, max: 4}"}}) {
      std::ofstream(folder_ / fmt::format("{}.yaml", model)) << fmt::format(
          "model: {0}\nreplicas: {2}\nplacement: {{devices: [{{kind: h100, count: {1}}}]}}\n"
          "slo: {{ttft: 2000ms}}\nscaling: {{policy: demand, window: 5s, hold: 3s}}\n"
          "idle: {{scale_to_zero_after: 30s}}\n"
          "replica: {{engine: vllm, preset: demo, drain: 10s, ready: {{path: /health, timeout: 1m}}, image: "
          "\"{3}\",\n"
          "  command: [/tidegate-engine, --listen, \"{{host}}\", --port, \"{{port}}\", --model, {0}, "
          "--max-running, \"12\",\n"
          "    --step-base, 12ms]}}\n",
          model, devices, limits, cluster_.image());
    }
  }
  ~KubeTraceWorld() { std::filesystem::remove_all(work_); }

  // The gateway and the training, until all of it runs; else why it does not.
  std::string Start() {
    cluster_.Create("other", "node-3", 2, "while :; do sleep 1; done");
    if (!Within(kLong, [&] { return Pause(milliseconds(100)), cluster_.Runs("other"); })) {
      return "somebody else's pod did not start";
    }
    GatewayConfig config;
    config.port = StablePort();
    config.models = "  - {name: chat-large}\n";
    // The training's folder is on every node.
    const std::string pod = fmt::format(
        "{{volumes: [{{name: work, hostPath: {{path: {}}}}}], containers: [{{name: run, volumeMounts: "
        "[{{name: work, "
        "mountPath: /work}}]}}]}}",
        work_);
    config.sections =
        KubeAccess(cluster_) +
        fmt::format(
            "admin: {{bootstrap_key: \"file:{0}/key\"}}\n"
            "scaling: {{policies: [{0}/chat-small.yaml, {0}/chat-large.yaml], {1}}}\n",
            folder_.path(),
            KubeScaling(cluster_, folder_ / "cluster.yaml", fmt::format(", lost_after: 3s, pod: {}", pod)));
    gateway_ = std::make_unique<GatewayProcess>(config);
    if (testing::Test::HasFailure()) return "the gateway did not start";
    std::ofstream(folder_ / "job.yaml") << fmt::format(
        "name: pretrain\nimage: \"{}\"\ndirectory: /work\ncommand: [/bin/sh, train.sh]\n"
        "members: {{min: 2, max: 3}}\ndevices: [{{kind: h100, count: 4}}]\n"
        "priority: batch\nrestarts: 20\n"
        "checkpoint: {{signal: TERM, grace: 10s, save: 1s, interval: 5s, resume: [/bin/sh, train.sh, "
        "--resume]}}\n",
        cluster_.image());
    if (!Within(kLong, [&] { return Tidegate({"jobs", "list"}).code == 0; })) return "no jobs are taken";
    if (!Within(kLong, [&] { return Pause(milliseconds(100)), Ready("chat-small").size() == 1; })) {
      return "no replica got ready: " + Replicas().dump();
    }
    const CliResult submitted = Tidegate({"jobs", "submit", folder_ / "job.yaml"});
    if (submitted.code != 0) return submitted.err;
    job_ = submitted.out.substr(0, submitted.out.find('\n'));
    if (!Within(kLong,
                [&] { return Pause(milliseconds(200)), Training().value("state", "") == "running"; })) {
      return "training did not start: " + Training().dump();
    }
    return {};
  }

  // Sends the trace, and calls `meanwhile` again and again until every call has ended.
  void Replay(const std::string& window, const std::function<void()>& meanwhile) {
    ChildProcess replay(
        {TIDEGATE_REPLAY_BINARY,
         "--trace",
         (ConfDirectory().parent_path() / "tests/fault/slurm/azure_conversation_10m.csv").string(),
         "--url",
         fmt::format("http://127.0.0.1:{}/v1", gateway().port()),
         "--model",
         "chat-small",
         "--model",
         "chat-large",
         "--speed-up",
         "10",
         "--window",
         window,
         "--scale-tokens",
         "0.1",
         "--retries",
         "8",
         "--timeout",
         "2m",
         "--attempts",
         folder_ / "attempts",
         "--json",
         folder_ / "report"},
        folder_ / "replay.out");
    const auto until = std::chrono::steady_clock::now() + 3 * kLong;
    while (replay.Running() && std::chrono::steady_clock::now() < until) {
      meanwhile();
      Pause(milliseconds(200));
    }
    const std::optional<int> status = replay.Wait(milliseconds(0));
    EXPECT_EQ(status, 0) << replay.Output();
  }
  std::vector<Json> Attempts() const {
    std::vector<Json> all;
    std::ifstream file(folder_ / "attempts");
    for (std::string line; std::getline(file, line);) all.push_back(Json::parse(line));
    return all;
  }
  // What `tidegate usage` prints, by model.
  std::map<std::string, Json> Usage() const {
    const CliResult usage = RunCli({"usage", "--by", "model", "--json", "-c", gateway().config_path()});
    EXPECT_EQ(usage.code, 0) << usage.err;
    std::map<std::string, Json> by_model;
    for (const Json& row : conf::ParseJson(usage.out)) by_model[row.value("model", "")] = row;
    return by_model;
  }

  CliResult Tidegate(std::vector<std::string> args) const {
    args.insert(args.end(), {"--admin", fmt::format("http://127.0.0.1:{}", gateway().admin_port()),
                             "--key-file", folder_ / "key"});
    return RunCli(args);
  }
  Json Admin(const std::string& path) const {
    return gateway().AskAdmin(Get(path, fmt::format("Authorization: Bearer {}\r\n", kKubeTraceKey))).json();
  }
  Json Replicas() const {
    const Json body = Admin("/admin/v1/replicas");
    return body.is_object() && body.contains("data") ? body["data"] : Json::array();
  }
  // Ids of those that serve, with their node.
  std::map<std::string, std::string> Ready(std::string_view model = {}) const {
    std::map<std::string, std::string> ready;
    for (const Json& replica : Replicas()) {
      if (replica["state"] == "ready" && (model.empty() || replica["model"] == model))
        ready[replica["id"]] = replica["node"];
    }
    return ready;
  }
  Json Training() const {
    const Json job = Admin("/admin/v1/jobs/" + job_);
    return job.is_object() ? job : Json::object();
  }
  // Members of the training that have not ended: their nodes, by name.
  std::map<std::string, std::string> Members() const {
    std::map<std::string, std::string> members;
    for (const Json& run : Training().value("runs", Json::array())) {
      if (run["state"] != "ended") members[run["run"]] = run["node"];
    }
    return members;
  }
  // Our pods that have not ended and are not being deleted: uids, by name.
  std::map<std::string, std::string> Pods() const {
    std::map<std::string, std::string> pods;
    for (const Json& pod : cluster_.Pods("tidegate.io/gateway")) {
      const std::string phase = pod["status"].value("phase", "");
      if (phase == "Succeeded" || phase == "Failed" || pod["metadata"].contains("deletionTimestamp"))
        continue;
      pods[pod["metadata"]["name"]] = pod["metadata"]["uid"];
    }
    return pods;
  }
  // Names that there should be as pods.
  std::set<std::string> Wanted() const {
    std::set<std::string> names;
    for (const Json& replica : Replicas()) names.insert(replica["id"].get<std::string>());
    for (const auto& [member, node] : Members()) names.insert(member);
    return names;
  }
  // The number of a node under a member of the training and, if there is one, a replica that serves.
  int BusiestNode() const {
    std::set<std::string> serving;
    for (const auto& [replica, node] : Ready()) serving.insert(node);
    std::string found = "node-1";
    for (const auto& [member, node] : Members()) {
      found = node;
      if (serving.contains(node)) break;
    }
    return found.back() - '0';
  }
  // Attempts of the training that began.
  int Begun() const {
    int begun = 0;
    std::ifstream file(work_ + "/begun");
    for (std::string line; std::getline(file, line);) ++begun;
    return begun;
  }

  // Nothing of it runs afterwards.
  void End() {
    if (gateway_ == nullptr) return;
    std::string text = ReadFile(gateway().config_path());
    if (const size_t at = text.find("on_exit: keep"); at != text.npos) text.replace(at, 13, "on_exit: stop");
    std::ofstream(gateway().config_path()) << text;
    gateway().Reload();
    if (!job_.empty()) {
      EXPECT_EQ(Tidegate({"jobs", "cancel", job_}).code, 0);
      EXPECT_TRUE(Within(kLong, [&] {
        return Pause(milliseconds(200)), Training().value("state", "") == "cancelled";
      })) << Training().dump();
    }
    EXPECT_EQ(gateway().Stop(kLong), 0);
    EXPECT_TRUE(Within(kLong, [&] { return Pause(milliseconds(200)), Pods().empty(); }))
        << "Kubernetes still runs what nobody wants: " << testing::PrintToString(Pods());
  }

  GatewayProcess& gateway() { return *gateway_; }
  const GatewayProcess& gateway() const { return *gateway_; }

 private:
  void Secret(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name) << text;
    chmod((folder_ / name).c_str(), 0600);
  }

  KubeCluster& cluster_;
  const std::string work_;
  TempDir folder_;
  std::unique_ptr<GatewayProcess> gateway_;
  std::string job_;
};

}  // namespace tests
