// A gateway that starts tidegate-engine by itself for the model chat-small, and what it says of it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/own_ports.h"

namespace tests {

inline constexpr std::string_view kScalingAdminKey = "a-bootstrap-key-of-enough-characters";

struct ScaledModel {
  std::string replicas = "{min: 0, max: 2}";
  std::string scaling = "{policy: demand, window: 5s, hold: 1s}";
  std::string idle = "{scale_to_zero_after: 1s}";
  std::string more = {};     // further sections of the policy, as lines
  std::string command = {};  // a list in YAML's flow form; empty: tidegate-engine
  std::vector<std::string> flags = {"--preset", "instant"};  // of the engine
  std::string replica = {};                                  // further members of `replica`, after a comma
};

// Of the first process of a run, which is not its wrapper; 0: there is none.
inline pid_t PidOf(const std::string& run) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string command = ReadFile(entry.path() / "cmdline");
    if (command.empty() || command.starts_with("tidegate-run")) continue;
    if (('\0' + ReadFile(entry.path() / "environ")).find('\0' + ("TIDEGATE_RUN_ID=" + run) + '\0') !=
        std::string::npos)
      return std::stoi(name);
  }
  return 0;
}

// Everything stands in a folder that outlives restarts of the gateway.
class Scaled {
 public:
  explicit Scaled(const ScaledModel& model, const std::string& scaling = {}, GatewayConfig config = {})
      : gateway(Prepare(model, scaling, std::move(config))) {}

  // So that no engine outlives the test.
  ~Scaled() { gateway.Stop(std::chrono::seconds(30)); }
  Scaled(const Scaled&) = delete;
  Scaled& operator=(const Scaled&) = delete;

  std::string PolicyOf(const ScaledModel& model) const {
    std::string command = model.command;
    if (command.empty()) {
      command = fmt::format("[\"{}\", --port, \"{{port}}\", --model, chat-small", TIDEGATE_ENGINE_BINARY);
      for (const std::string& flag : model.flags) command += fmt::format(", \"{}\"", flag);
      command += "]";
    }
    return fmt::format(
        "model: chat-small\nreplicas: {}\nscaling: {}\nidle: {}\n{}"
        "replica: {{engine: vllm, command: {}{}}}\n",
        model.replicas, model.scaling, model.idle, model.more, command,
        model.replica.empty() ? "" : ", " + model.replica);
  }
  void WritePolicy(const ScaledModel& model) const {
    std::ofstream(folder_ / "chat.yaml") << PolicyOf(model);
  }

  static std::string Credentials() { return fmt::format("Authorization: Bearer {}\r\n", kScalingAdminKey); }
  Json Admin(const std::string& path) const {
    const Answer answer = gateway.AskAdmin(Get(path, Credentials()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  Json Replicas() const { return Admin("/admin/v1/replicas")["data"]; }
  Json Scaling() const { return Admin("/admin/v1/scaling")["data"][0]; }
  bool Becomes(size_t replicas, const std::string& state,
               milliseconds patience = std::chrono::seconds(20)) const {
    return Within(patience, [&] {
      const Json all = Replicas();
      size_t found = 0;
      for (const Json& replica : all) found += replica["state"] == state ? 1 : 0;
      Pause(milliseconds(20));
      return found == replicas && all.size() == replicas;
    });
  }
  int Names(std::string_view action) const {
    return static_cast<int>(
        std::ranges::count_if(Actions(), [&](const auto& a) { return a.action == action; }));
  }
  // From now on its replicas end with it.
  void KeepNothing() {
    std::string text = ReadFile(gateway.config_path());
    if (const size_t at = text.find("on_exit: keep"); at != text.npos) text.replace(at, 13, "on_exit: stop");
    std::ofstream(gateway.config_path()) << text;
    gateway.Reload();
  }
  // Of the ledger.
  std::vector<gateway::ledger::Record> Actions() const {
    std::vector<gateway::ledger::Record> actions;
    for (gateway::ledger::Record& record : gateway.Records()) {
      if (record.kind == gateway::ledger::Kind::kAction) actions.push_back(std::move(record));
    }
    return actions;
  }

 private:
  GatewayConfig Prepare(const ScaledModel& model, const std::string& scaling, GatewayConfig config) {
    WritePolicy(model);
    std::ofstream(folder_ / "key") << kScalingAdminKey;
    chmod((folder_ / "key").c_str(), 0600);
    config.sections += fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n", folder_ / "key");
    // Most tests are not about whom jobs become.
    const bool runs = scaling.find("runs:") != scaling.npos || scaling.find("slurm") != scaling.npos ||
                      scaling.find("kubernetes") != scaling.npos;
    // The devices of the tests' own NVML are the same for all tests.
    const bool probes = scaling.find("probe") != scaling.npos;
    config.sections +=
        fmt::format("scaling: {{policies: {}, ports: {}{}{}{}{}}}\n", folder_ / "chat.yaml", ports_.text(),
                    scaling.empty() ? "" : ", ", scaling, runs ? "" : ", runs: {same_user: true}",
                    probes ? fmt::format(", device_locks: {}", folder_ / "locks") : "");
    return config;
  }

  TempDir folder_;
  OwnPorts ports_;

 public:
  GatewayProcess gateway;
};

}  // namespace tests
