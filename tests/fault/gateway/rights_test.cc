// The rights of the gateway's process: none are left to it when it serves, whoever started it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "plugins/launchers/run_user.h"
#include "tests/fault/gateway/job_commands.h"
#include "tests/support/fake_upstream.h"

namespace tests {
namespace {

constexpr uint64_t kBindService = uint64_t{1} << 10;
constexpr const char* kSetpriv = "/usr/bin/setpriv";

// The sets of capabilities by their names in /proc, such as CapEff.
std::map<std::string, uint64_t> RightsOf(pid_t pid) {
  std::map<std::string, uint64_t> rights;
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Cap")) rights[line.substr(0, 6)] = std::stoull(line.substr(8), nullptr, 16);
  }
  return rights;
}

// The child of that name.
pid_t BrokerOf(pid_t gateway) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    pid_t pid = 0;
    std::string name;
    char state = 0;
    pid_t parent = 0;
    if (stat >> pid >> name >> state >> parent && parent == gateway && name == "(tidegate-broker)")
      return pid;
  }
  return 0;
}

void ExpectNoRights(pid_t pid) {
  const std::map<std::string, uint64_t> rights = RightsOf(pid);
  ASSERT_EQ(rights.count("CapEff"), 1u);
  for (const char* set : {"CapPrm", "CapEff"}) EXPECT_EQ(rights.at(set) & ~kBindService, 0u) << set;
  for (const char* set : {"CapInh", "CapAmb"}) EXPECT_EQ(rights.at(set), 0u) << set;
}

TEST(Rights, AGatewayThatStaysRootHasNoneAndStartsNothingWithMore) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const FakeUpstream engine(JsonAnswer("{}"));
  GatewayProcess gateway({.replicas = {engine.port()}});
  const pid_t pid = gateway.process().pid();
  ExpectNoRights(pid);
  EXPECT_EQ(RightsOf(pid)["CapBnd"] & ~kBindService, 0u);
}

TEST(Rights, TheBrokerKeepsWhatTheGatewayGivesUpAndARootGatewayIsWarnedOf) {
  if (!plugins::launchers::MayChangeUsers()) GTEST_SKIP() << "needs the right to change users";
  const std::string user = std::to_string(76'000 + getpid() % 2'000);
  Scaled scaled(
      {.replicas = "{min: 0, max: 1}"},
      fmt::format("cluster: [{{kind: gpu, count: 1}}], runs: {{user: \"{0}\", users: [\"{0}9\"]}}", user));
  const pid_t pid = scaled.gateway.process().pid();
  ExpectNoRights(pid);
  const pid_t broker = BrokerOf(pid);
  ASSERT_NE(broker, 0);
  constexpr uint64_t kSetUid = uint64_t{1} << 7;
  EXPECT_NE(RightsOf(broker)["CapEff"] & kSetUid, 0u);
  if (geteuid() != 0) return;
  const Json ready = scaled.gateway.AskAdmin(Get("/readyz")).json();
  EXPECT_EQ(ready["ready"], true);
  EXPECT_THAT(ready["warnings"].dump(), testing::HasSubstr("stays root"));
}

// What a program of that user without further rights can read of a process.
std::string ReadOf(pid_t pid, const char* file) {
  const std::string command =
      fmt::format("{} --inh-caps=-all --bounding-set=-all,+net_bind_service head -c 1 /proc/{}/{} 2>&1",
                  kSetpriv, pid, file);
  FILE* const out = popen(command.c_str(), "r");
  std::string text;
  for (int c = 0; out != nullptr && (c = fgetc(out)) != EOF;) text += static_cast<char>(c);
  if (out != nullptr) pclose(out);
  return text;
}

TEST(Rights, AnotherProgramOfTheGatewaysUserReadsNeitherItsVariablesNorItsMemory) {
  if (kSanitized) GTEST_SKIP() << "its check for leaks has to look into the gateway";
  if (geteuid() != 0 || !std::filesystem::exists(kSetpriv)) GTEST_SKIP() << "needs root and setpriv";
  const FakeUpstream engine(JsonAnswer("{}"));
  GatewayProcess gateway({.replicas = {engine.port()}});
  const TempDir folder;
  const ChildProcess open(
      {kSetpriv, "--inh-caps=-all", "--bounding-set=-all,+net_bind_service", "--", "/bin/sleep", "1000"},
      folder / "log");
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return ReadOf(open.pid(), "environ").size() == 1; }))
      << "it can read others: " << ReadOf(open.pid(), "environ");
  for (const char* file : {"environ", "mem", "maps"})
    EXPECT_THAT(ReadOf(gateway.process().pid(), file), testing::HasSubstr("ermission denied")) << file;
}

// As a unit of systemd with AmbientCapabilities starts it.
TEST(Rights, AnUnprivilegedUserThatWasGivenRightsGivesThemUpAndIsolatesJobs) {
  if (geteuid() != 0 || !std::filesystem::exists(kSetpriv)) GTEST_SKIP() << "needs root and setpriv";
  const int number = 78'000 + getpid() % 1'000 * 2;
  const TempDir folder;
  chmod(std::string(folder.path()).c_str(), 0777);
  std::ofstream(folder / "key") << kScalingAdminKey;
  ASSERT_EQ(chown((folder / "key").c_str(), static_cast<uid_t>(number), static_cast<gid_t>(number)), 0);
  chmod((folder / "key").c_str(), 0600);
  std::ofstream(folder / "chat.yaml") << "model: chat-small\nreplicas: {min: 0, max: 1}\nscaling: {policy: "
                                         "demand}\nreplica: {engine: vllm, command: [/bin/true]}\n";
  const OwnPorts ports;
  std::ofstream(folder / "tidegate.yaml") << fmt::format(
      "server: {{listen: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1, state_dir: {0}/state, shutdown_delay: "
      "0s}}\n"
      "tenants: [{{name: demo, models: [\"*\"], run_as: \"{2}\"}}]\n"
      "models: [{{name: chat-small}}]\nadmin: {{bootstrap_key: \"file:{0}/key\"}}\n"
      "scaling: {{policies: {0}/chat.yaml, ports: {1}, cluster: [{{kind: gpu, count: 1}}], "
      "runs: {{user: \"{2}\"}}}}\n",
      folder.path(), ports.text(), number + 1);
  const std::string rights = "+setuid,+setgid,+kill,+sys_ptrace";
  ChildProcess gateway({kSetpriv, fmt::format("--reuid={}", number), fmt::format("--regid={}", number),
                        "--clear-groups", "--inh-caps=" + rights, "--ambient-caps=" + rights, "--",
                        TIDEGATE_BINARY, "serve", "--config", folder / "tidegate.yaml"},
                       folder / "log");
  const std::string line = gateway.WaitForLine("\"event\":\"serving\"", RawClient::kPatience);
  ASSERT_FALSE(line.empty()) << gateway.Output();
  ExpectNoRights(gateway.pid());
  EXPECT_EQ(RightsOf(gateway.pid())["CapEff"], 0u);
  const pid_t broker = BrokerOf(gateway.pid());
  ASSERT_NE(broker, 0);
  const std::string admin = Json::parse(line).value("admin", "");
  std::ofstream(folder / "job.yaml")
      << "name: who\ncommand: [/bin/sh, -c, \"id -u; grep Cap /proc/self/status\"]\n"
         "restarts: 0\ntenant: demo\n";
  std::ofstream(folder / "admin_key") << kScalingAdminKey << "\n";
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--admin", "http://" + admin, "--key-file", folder / "admin_key"});
    return RunCli(words);
  };
  CliResult made;
  EXPECT_TRUE(Within(JobCommands::kPatience, [&] {
    made = run({"jobs", "submit", folder / "job.yaml"});
    return made.code == 0;
  })) << made.err;
  const std::string id = made.out.substr(0, made.out.find('\n'));
  CliResult logs;
  EXPECT_TRUE(Within(JobCommands::kPatience,
                     [&] {
                       logs = run({"jobs", "logs", id});
                       return logs.out.find("CapAmb") != std::string::npos;
                     }))
      << logs.out << logs.err << gateway.Output();
  EXPECT_TRUE(logs.out.starts_with(std::to_string(number + 1) + "\n")) << logs.out;
  EXPECT_THAT(logs.out, testing::HasSubstr("CapEff:\t0000000000000000"));
  // Nothing is started any more, and nobody tries to: it is noticed all the same.
  kill(broker, SIGKILL);
  EXPECT_FALSE(gateway.WaitForLine("the launch broker is gone", RawClient::kPatience).empty())
      << gateway.Output();
  gateway.Signal(SIGTERM);
  EXPECT_EQ(gateway.Wait(std::chrono::seconds(30)), 0);
}

}  // namespace
}  // namespace tests
