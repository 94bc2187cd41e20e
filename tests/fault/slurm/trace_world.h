// A recorded trace through the real gateway and a real Slurm: ten minutes of conversations, ten times as
// fast. Slurm has four nodes of eight devices. A training gang holds most devices, another user's job keeps
// its own, and further jobs are requeued when their devices are needed. This file starts all of it, sends
// requests while it runs, and answers the questions of the test.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conf/json_parse.h"
#include "tests/support/gateway_process.h"
#include "tests/support/own_ports.h"
#include "tests/support/run_cli.h"
#include "tests/support/shipped.h"
#include "tests/support/slurm_cluster.h"
#include "tests/support/stable_port.h"

namespace tests {

inline constexpr std::string_view kTraceAdminKey = "a-bootstrap-key-of-enough-characters";
inline constexpr double kTraceSpeedUp = 10;
inline constexpr int kTraceScavengers = 6;  // of one device each
// All tokens of the trace instead of a fifth of them: more than two cores can do in time, so only by hand.
inline bool TraceIsFull() {
  const char* const full = std::getenv("TIDEGATE_TRACE_FULL");
  return full != nullptr && *full != '\0' && std::string_view(full) != "0";
}
inline constexpr milliseconds kTraceTtft{2000};

// A step takes 0.1 s. What rank 0 has saved is what the gang goes on from: on USR1, and every 50 steps. One
// of an earlier attempt, on a node that Slurm has given up, ends by itself.
inline constexpr std::string_view kTraceTraining = R"sh(#!/bin/sh
if [ "$RANK" != 0 ]; then
  trap 'exit 0' USR1
  while :; do sleep 1; done
fi
step=0
if [ "$1" = --resume ]; then step=$(cat saved); fi
echo "$TIDEGATE_ATTEMPT" > attempt
echo "$TIDEGATE_ATTEMPT $WORLD_SIZE $(cat at 2> /dev/null || echo 0) $step" >> begun
save() { echo $step > saved.new && mv saved.new saved; }
trap 'save; exit 0' USR1
while :; do
  sleep 0.1
  if [ "$(cat attempt)" != "$TIDEGATE_ATTEMPT" ]; then exit 1; fi
  step=$((step + 1))
  echo $step > at.new && mv at.new at
  if [ $((step % 50)) = 0 ]; then save; fi
done
)sh";

class TraceWorld {
 public:
  static constexpr milliseconds kLong{60'000};

  // What it cannot run without; empty: it has all.
  static std::string WhyNot() { return SlurmCluster::WhyNot(); }

  TraceWorld() : cluster_({.more = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"}) {
    std::ofstream(folder_ / "cluster.yaml")
        << "devices: [{name: h100, memory: 80GiB}]\n"
           "types: [{name: server, cpu: 64, memory: 500GiB, device: h100, count: 8}]\n"
           "nodes: [{name: \"node{1..4}\", type: server}]\n";
    Secret("key", kTraceAdminKey);
    std::ofstream(cluster_.folder() + "/work/train.sh") << kTraceTraining;
    for (const auto& [model, rest] :
         {std::pair{"chat-small",
                    "replicas: {min: 1, max: 6}\nplacement: {devices: [{kind: h100, count: 1}]}"},
          std::pair{"chat-large",
                    "replicas: {min: 0, max: 6}\nplacement: {devices: [{kind: h100, count: 2}]}"}}) {
      const bool small = std::string_view(model) == "chat-small";
      std::ofstream(folder_ / fmt::format("{}.yaml", model)) << fmt::format(
          "model: {0}\n{1}\nslo: {{ttft: {2}ms}}\nscaling: {{policy: demand, window: 5s, hold: 3s}}\n"
          "idle: {{scale_to_zero_after: 30s}}\n"
          "replica: {{engine: vllm, preset: demo, drain: 20s, ready: {{path: /health, timeout: 1m}},\n"
          "  command: [\"{3}\", --port, \"{{port}}\", --model, {0}, --max-running, \"12\", --step-base, "
          "{4}]}}\n",
          model, rest, kTraceTtft.count(), TIDEGATE_ENGINE_BINARY, small ? "12ms" : "20ms");
    }
  }

  // Slurm, the gateway and the training, until all of it runs; else why it does not.
  std::string Start() {
    if (std::string said = cluster_.Start(); !said.empty()) return said;
    other_ = cluster_.Batch(
        {"--job-name=other", "--nodelist=node4", "--gres=gpu:h100:2", "--mem=1000", "--requeue"},
        "sleep 3600");
    if (!Within(kLong, [&] { return Other() == "RUNNING"; })) return "somebody else's job did not start";
    Secret("token", cluster_.Token());
    GatewayConfig config;
    config.port = StablePort();
    config.models = "  - {name: chat-large}\n";
    config.sections = fmt::format(
        "admin: {{bootstrap_key: \"file:{0}/key\"}}\n"
        "scaling: {{policies: [{0}/chat-small.yaml, {0}/chat-large.yaml], launcher: slurm, on_exit: keep,\n"
        "  cluster: {0}/cluster.yaml, ports: {1},\n"
        "  slurm: {{url: \"http://127.0.0.1:{2}\", user: {3}, token: \"file:{0}/token\", partition: main,\n"
        "    preemptible: {{partitions: [scavenge]}}, logs: {4}/work, directory: {4}/work}}}}\n",
        folder_.path(), ports_.text(), cluster_.rest_port(), cluster_.user(), cluster_.folder());
    gateway_ = std::make_unique<GatewayProcess>(config);
    if (testing::Test::HasFailure()) return "the gateway did not start";
    std::ofstream(folder_ / "job.yaml") << fmt::format(
        "name: pretrain\ndirectory: {}/work\ncommand: [/bin/sh, train.sh]\n"
        "members: {{min: 3, max: 7}}\ndevices: [{{kind: h100, count: 4}}]\n"
        "priority: batch\nrestarts: 20\n"
        "checkpoint: {{grace: 20s, save: 1s, interval: 5s, "
        "resume: [/bin/sh, train.sh, --resume]}}\n",
        cluster_.folder());
    if (!Within(kLong, [&] { return Tidegate({"jobs", "list"}).code == 0; })) return "no jobs are taken";
    if (!Within(kLong, [&] { return Ready("chat-small").size() == 1; })) return "no replica got ready";
    const CliResult submitted = Tidegate({"jobs", "submit", folder_ / "job.yaml"});
    if (submitted.code != 0) return submitted.err;
    job_ = submitted.out.substr(0, submitted.out.find('\n'));
    if (!Within(kLong, [&] { return Training()["state"] == "running"; })) return "training did not start";
    for (int i = 0; i < kTraceScavengers; ++i) {
      scavengers_.push_back(cluster_.Batch({"--job-name=scavenger", "--partition=scavenge", "--requeue",
                                            "--gres=gpu:h100:1", "--mem=1000", "--cpus-per-task=1"},
                                           "sleep 3600"));
    }
    return {};
  }

  // Sends the trace, and calls `meanwhile` again and again until every call has ended. All of its tokens take
  // some times as long.
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
         fmt::format("{}", kTraceSpeedUp),
         "--window",
         window,
         "--scale-tokens",
         TraceIsFull() ? "1" : "0.2",
         "--retries",
         "8",
         "--timeout",
         "2m",
         "--attempts",
         folder_ / "attempts",
         "--json",
         folder_ / "report"},
        folder_ / "replay.out");
    const auto until = std::chrono::steady_clock::now() + (TraceIsFull() ? 20 : 4) * kLong;
    while (replay.Running() && std::chrono::steady_clock::now() < until) {
      meanwhile();
      Pause(milliseconds(100));
    }
    const std::optional<int> status = replay.Wait(milliseconds(0));
    EXPECT_EQ(status, 0) << replay.Output();
    said_ = replay.Output();
  }
  const std::string& said() const { return said_; }
  std::vector<Json> Attempts() const {
    std::vector<Json> all;
    std::ifstream file(folder_ / "attempts");
    for (std::string line; std::getline(file, line);) all.push_back(Json::parse(line));
    return all;
  }

  CliResult Tidegate(std::vector<std::string> args) const {
    args.insert(args.end(), {"--admin", fmt::format("http://127.0.0.1:{}", gateway().admin_port()),
                             "--key-file", folder_ / "key"});
    return RunCli(args);
  }
  // What `tidegate usage` prints, by model.
  std::map<std::string, Json> Usage() const {
    const CliResult usage = RunCli({"usage", "--by", "model", "--json", "-c", gateway().config_path()});
    EXPECT_EQ(usage.code, 0) << usage.err;
    std::map<std::string, Json> by_model;
    for (const Json& row : conf::ParseJson(usage.out)) by_model[row.value("model", "")] = row;
    return by_model;
  }
  Json Admin(const std::string& path) const {
    return gateway().AskAdmin(Get(path, fmt::format("Authorization: Bearer {}\r\n", kTraceAdminKey))).json();
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
    const Json jobs = conf::ParseJson(Tidegate({"jobs", "list", "--all", "--json"}).out);
    for (const Json& job : jobs) {
      if (job["id"] == job_) return job;
    }
    return Json::object();
  }
  // Of others' jobs: how the one that nobody may take stands, and how often Slurm has put the rest back.
  std::string Other() const {
    return cluster_.Run({"/usr/bin/squeue", "-h", "-j", std::to_string(other_), "-o", "%T"});
  }
  int Requeued() const {
    int times = 0;
    for (const uint32_t job : scavengers_) {
      const std::string said = cluster_.Run({"/usr/bin/scontrol", "show", "job", std::to_string(job)});
      const size_t at = said.find("Restarts=");
      if (at != said.npos) times += std::atoi(said.c_str() + at + 9);
    }
    return times;
  }
  int Scavenging() const {
    const std::string said =
        cluster_.Run({"/usr/bin/squeue", "-h", "-t", "R", "-n", "scavenger", "-o", "%i"});
    return said.empty() ? 0 : static_cast<int>(1 + std::ranges::count(said, '\n'));
  }
  // Slurm's jobs of ours that hold something: ids by name.
  std::multimap<std::string, std::string> Running() const {
    std::multimap<std::string, std::string> jobs;
    std::istringstream said(cluster_.Run({"/usr/bin/squeue", "-h", "-t", "R", "-o", "%j %i"}));
    for (std::string name, id; said >> name >> id;) {
      if (name != "other" && name != "scavenger") jobs.emplace(name, id);
    }
    return jobs;
  }
  // Members of the training that have not ended: their nodes, by name.
  std::map<std::string, std::string> Members() const {
    std::map<std::string, std::string> members;
    const Json job = Admin("/admin/v1/jobs/" + job_);
    if (!job.is_object()) return members;
    for (const Json& run : job.value("runs", Json::array())) {
      if (run["state"] != "ended") members[run["run"]] = run["node"];
    }
    return members;
  }
  // Names that there should be as jobs.
  std::set<std::string> Wanted() const {
    std::set<std::string> names;
    for (const Json& replica : Replicas()) names.insert(replica["id"].get<std::string>());
    for (const auto& [member, node] : Members()) names.insert(member);
    return names;
  }
  // A node under a member of the training and, if there is one, a replica that serves.
  std::string BusiestNode() const {
    std::set<std::string> serving;
    for (const auto& [replica, node] : Ready()) serving.insert(node);
    std::string found;
    for (const auto& [member, node] : Members()) {
      if (serving.contains(node)) return node;
      if (found.empty()) found = node;  // under rank 0
    }
    return found.empty() ? "node1" : found;
  }

  // Of the training: attempts that began, and steps that were done again.
  struct Steps {
    int attempts = 0;
    int done = 0;
    int lost = 0;
  };
  Steps Trained() const {
    Steps steps;
    std::ifstream begun(cluster_.folder() + "/work/begun");
    for (int attempt = 0, members = 0, at = 0, from = 0; begun >> attempt >> members >> at >> from;) {
      ++steps.attempts;
      steps.lost += std::max(at - from, 0);
    }
    std::ifstream(cluster_.folder() + "/work/at") >> steps.done;
    return steps;
  }

  // Nothing of it runs afterwards.
  void End() {
    if (gateway_ == nullptr) return;
    std::string text = ReadFile(gateway().config_path());
    if (const size_t at = text.find("on_exit: keep"); at != text.npos) text.replace(at, 13, "on_exit: stop");
    std::ofstream(gateway().config_path()) << text;
    gateway().Reload();
    EXPECT_EQ(Tidegate({"jobs", "cancel", job_}).code, 0);
    EXPECT_TRUE(Within(kLong, [&] { return Training()["state"] == "cancelled"; })) << Training().dump();
    EXPECT_EQ(gateway().Stop(kLong), 0);
    EXPECT_TRUE(Within(kLong, [&] { return Running().empty(); })) << "Slurm still runs what nobody wants";
  }

  GatewayProcess& gateway() { return *gateway_; }
  const GatewayProcess& gateway() const { return *gateway_; }
  SlurmCluster& cluster() { return cluster_; }
  const std::string& job() const { return job_; }

 private:
  void Secret(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name) << text;
    chmod((folder_ / name).c_str(), 0600);
  }

  TempDir folder_;
  SlurmCluster cluster_;
  OwnPorts ports_;
  std::unique_ptr<GatewayProcess> gateway_;
  std::string job_;
  uint32_t other_ = 0;
  std::vector<uint32_t> scavengers_;
  std::string said_;
};

}  // namespace tests
