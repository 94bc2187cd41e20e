// Invariant "Isolated", as a hostile tenant sees it: its jobs are another user's, name no secret that was not
// given to them, and reach neither the gateway nor another tenant's jobs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "plugins/launchers/run_user.h"
#include "tests/fault/gateway/job_commands.h"

namespace tests {
namespace {

using testing::HasSubstr;
using testing::Not;

// Numbers that are nobody's on this machine, and no other test's that runs beside this one.
const std::string kRuns = std::to_string(70'000 + getpid() % 2'000 * 2);
const std::string kOther = std::to_string(70'001 + getpid() % 2'000 * 2);
const int kFirstOfTenants = 80'000 + getpid() % 2'000 * 4;

class HostileJobs : public testing::Test {
 protected:
  virtual std::string Runs() const { return fmt::format("user: \"{}\"", kRuns); }
  virtual std::string Replicas() const { return "{min: 0, max: 1}"; }
  virtual std::string Command() const { return {}; }

  void SetUp() override {
    if (!plugins::launchers::MayChangeUsers())
      GTEST_SKIP() << "this process may not start others as other users";
    // Where jobs of any user may write, and what they must not read.
    chmod(std::string(folder_.path()).c_str(), 0777);
    std::ofstream(folder_ / "signing.key") << "the signing key";
    chmod((folder_ / "signing.key").c_str(), 0600);
    setenv("TIDEGATE_TEST_GIVEN", "a-secret-of-demo", 1);
    setenv("TIDEGATE_TEST_ADMIN_KEY", "the-admin-key", 1);
    GatewayConfig config;
    config.tenant = "job_secrets: [\"env:TIDEGATE_TEST_GIVEN\", \"file:/given/*\"]";
    config.tenants = fmt::format(
        "  - {{name: other, models: [\"*\"], run_as: \"{}\"}}\n  - {{name: third, models: [\"*\"]}}\n",
        kOther);
    scaled_ = std::make_unique<Scaled>(
        ScaledModel{.replicas = Replicas(), .command = Command()},
        fmt::format("cluster: [{{kind: gpu, count: 4}}], runs: {{{}}}", Runs()), config);
    commands_ = std::make_unique<JobCommands>(scaled_->gateway);
    EXPECT_TRUE(Within(kPatience, [&] { return commands_->Run({"jobs", "list"}).code == 0; }));
  }
  void TearDown() override {
    if (commands_) EXPECT_TRUE(commands_->CancelAll());
    unsetenv("TIDEGATE_TEST_GIVEN");
    unsetenv("TIDEGATE_TEST_ADMIN_KEY");
  }

  std::string Submit(const std::string& name, const std::string& script,
                     const std::string& more = "tenant: demo\n") {
    std::ofstream(folder_ / (name + ".sh")) << script;
    return commands_->Submit(
        fmt::format("name: {0}\ndirectory: {1}\ncommand: [/bin/sh, {0}.sh]\nrestarts: 0\n{2}", name,
                    folder_.path(), more));
  }
  std::string Refused(const std::string& text) {
    std::ofstream(folder_ / "wrong.yaml") << text;
    const CliResult result = commands_->Run({"jobs", "submit", folder_ / "wrong.yaml"});
    EXPECT_NE(result.code, 0) << text;
    return result.err;
  }
  std::string OutputOf(const std::string& id) {
    EXPECT_TRUE(commands_->Comes(id, "done"));
    return commands_->Run({"jobs", "logs", id}).out;
  }

  static constexpr milliseconds kPatience = JobCommands::kPatience;
  TempDir folder_;
  std::unique_ptr<Scaled> scaled_;
  std::unique_ptr<JobCommands> commands_;
};

TEST_F(HostileJobs, AHostileJobGetsNowhere) {
  const std::string victim = Submit("victim", "echo up; exec sleep 1000", "tenant: other\n");
  ASSERT_TRUE(commands_->Comes(victim, "running"));
  ASSERT_TRUE(Within(kPatience, [&] { return !commands_->Run({"jobs", "logs", victim}).out.empty(); }));
  const std::string hostile = Submit(
      "hostile",
      fmt::format("id -u\nexec 2>/dev/null\n"
                  "cat {0}/signing.key\n"                                    // what its gateway may read
                  "cat {1}/*/* {1}/* {1}/launcher/token; ls {1}\n"           // state_dir
                  "cat /proc/{2}/environ /proc/{2}/maps; ls /proc/{2}/fd\n"  // the gateway's memory
                  "kill -0 {2} && echo signalled\nkill -9 {2}\n"
                  "env | grep -i admin_key\n"
                  "for p in $(ls /proc | grep '^[0-9]'); do\n"  // without a process for each
                  "  if ! [ -O /proc/$p ]; then\n"
                  "    kill -0 $p && echo \"may signal $p\"; true </proc/$p/environ && echo \"may read $p\"\n"
                  "  fi\ndone\n"
                  "python3 -c 'import ctypes\n"
                  "if ctypes.CDLL(None).ptrace(16, {2}, 0, 0) == 0: print(\"traced\")'\n"
                  "for d in /sys/fs/cgroup/cgroup.procs; do echo $$ >$d && echo escaped; done\n"
                  "echo over\n",
                  folder_.path(), scaled_->gateway.state_dir(), scaled_->gateway.process().pid()));
  EXPECT_EQ(OutputOf(hostile), kRuns + "\nover\n");
  EXPECT_EQ(commands_->Show(victim)["state"], "running");
  EXPECT_EQ(scaled_->gateway.Ask(Get("/v1/models")).status, 200);
}

TEST_F(HostileJobs, AJobCannotListenWhereTheGatewayDoes) {
  const std::string id =
      Submit("thief", fmt::format("python3 -c '\nimport socket\ns = socket.socket()\n"
                                  "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
                                  "try:\n  s.bind((\"127.0.0.1\", {}))\n  s.listen()\n  print(\"listens\")\n"
                                  "except OSError as e: print(\"refused\")'\n",
                                  scaled_->gateway.port()));
  EXPECT_EQ(OutputOf(id), "refused\n");
}

TEST_F(HostileJobs, AJobNamesNoSecretThatItsTenantWasNotGiven) {
  const std::string head = "name: x\ncommand: [x]\n";
  EXPECT_THAT(Refused(head + "tenant: demo\nsecret_env: {X: env:TIDEGATE_TEST_ADMIN_KEY}\n"),
              HasSubstr("env:TIDEGATE_TEST_ADMIN_KEY is not listed in job_secrets of tenant demo"));
  EXPECT_THAT(Refused(head + "tenant: other\nsecret_env: {X: env:TIDEGATE_TEST_GIVEN}\n"),
              HasSubstr("job_secrets"));
  EXPECT_THAT(Refused(head + "secret_env: {X: env:TIDEGATE_TEST_GIVEN}\n"), HasSubstr("job_secrets"));
  EXPECT_THAT(Refused(head + "tenant: demo\nsecret_env: {X: \"file:/given/../etc/passwd\"}\n"),
              HasSubstr("job_secrets"));
  const std::string given =
      Submit("given", "echo $X\n", "tenant: demo\nsecret_env: {X: env:TIDEGATE_TEST_GIVEN}\n");
  EXPECT_EQ(OutputOf(given), "a-secret-of-demo\n");
}

TEST_F(HostileJobs, ALogThatWasMadeALinkIsNotRead) {
  const std::string id = Submit("linker", "echo up; exec sleep 1000");
  ASSERT_TRUE(commands_->Comes(id, "running"));
  const std::string run = fmt::format("{}/launcher/runs", scaled_->gateway.state_dir());
  using Put = std::function<void(const std::filesystem::path& log)>;
  const Put symlink = [&](const auto& log) { std::filesystem::create_symlink(folder_ / "signing.key", log); };
  const Put hard_link = [&](const auto& log) {
    std::filesystem::create_hard_link(folder_ / "signing.key", log);
  };
  const Put pipe = [](const auto& log) { EXPECT_EQ(mkfifo(log.c_str(), 0600), 0); };
  for (const Put& put : {symlink, hard_link, pipe}) {
    for (const auto& entry : std::filesystem::directory_iterator(run)) {
      std::filesystem::remove(entry.path() / "log");
      put(entry.path() / "log");
    }
    const CliResult logs = commands_->Run({"jobs", "logs", id});
    EXPECT_NE(logs.code, 0);
    EXPECT_THAT(logs.out, Not(HasSubstr("signing")));
  }
}

// It may write in its own folder, if the log lay there, but it is not the gateway's user.
TEST_F(HostileJobs, AFileOfItsOwnInPlaceOfTheLogIsNotRead) {
  const std::string id = Submit("forger", "echo up; exec sleep 1000");
  ASSERT_TRUE(commands_->Comes(id, "running"));
  const std::string runs = fmt::format("{}/launcher/runs", scaled_->gateway.state_dir());
  for (const auto& entry : std::filesystem::directory_iterator(runs)) {
    const std::string log = entry.path() / "log";
    std::filesystem::remove(log);
    std::ofstream(log) << "forged";
    const auto who = static_cast<uid_t>(std::stoul(kRuns));
    ASSERT_EQ(chown(log.c_str(), who, who), 0);
    ASSERT_EQ(chmod(log.c_str(), 0644), 0);
  }
  const CliResult logs = commands_->Run({"jobs", "logs", id});
  EXPECT_NE(logs.code, 0);
  EXPECT_THAT(logs.out, Not(HasSubstr("forged")));
}

// Two tenants that name no user of their own.
class HostileJobsOfTenantsWithoutUsers : public HostileJobs {
 protected:
  std::string Runs() const override {
    return fmt::format("user: \"{}\", users: \"{}..{}\"", kRuns, kFirstOfTenants, kFirstOfTenants + 1);
  }
  std::string Replicas() const override { return "{min: 1, max: 1}"; }
  std::string UserOf(const std::string& id) {
    EXPECT_TRUE(Within(kPatience, [&] { return !commands_->Run({"jobs", "logs", id}).out.empty(); }));
    const std::string out = commands_->Run({"jobs", "logs", id}).out;
    return out.substr(0, out.find('\n'));
  }
};

TEST_F(HostileJobsOfTenantsWithoutUsers, AJobThatKillsAllThatItMayReachesNoOtherTenantsJob) {
  const std::string victim = Submit("victim", "id -u; exec sleep 1000", "tenant: third\n");
  const std::string theirs = UserOf(victim);
  scaled_->gateway.Restart();
  ASSERT_TRUE(scaled_->Becomes(1, "ready"));
  const std::string hostile = Submit("hostile", "id -u; kill -9 -1; echo lives");
  EXPECT_THAT(OutputOf(hostile), HasSubstr("\nlives\n")) << "its shell alone is spared";
  EXPECT_NE(UserOf(hostile), theirs) << "it is known who has which user after a restart, too";
  EXPECT_EQ(commands_->Show(victim)["state"], "running");
  EXPECT_EQ(scaled_->Replicas()[0]["state"], "ready");
  EXPECT_EQ(scaled_->gateway.Ask(Get("/v1/models")).status, 200);

  // Two users, of which each has a tenant that keeps it.
  const std::string mine = Submit("mine", "id -u; exec sleep 1000");
  EXPECT_NE(UserOf(mine), theirs);
  const std::string again = Submit("again", "id -u; exec sleep 1000", "tenant: third\n");
  EXPECT_EQ(UserOf(again), theirs);
}

TEST_F(HostileJobsOfTenantsWithoutUsers, AJobFindsNoKeyOfAReplicaAndGetsNoAnswerFromIt) {
  ASSERT_TRUE(scaled_->Becomes(1, "ready"));
  EXPECT_EQ(scaled_->gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  const std::string address = scaled_->Replicas()[0]["address"];
  const std::string hostile = Submit(
      "hostile", fmt::format("exec 2>/dev/null\n"
                             "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | grep -ac 'tgr-[0-9a-f]'\n"
                             "grep -rac 'tgr-[0-9a-f]' {} | grep -v ':0$'\n"
                             "python3 -c '\nimport urllib.request, urllib.error\n"
                             "for path in (\"/health\", \"/v1/models\", \"/v1/chat/completions\"):\n"
                             "  try: print(urllib.request.urlopen(\"http://{}\" + path).status)\n"
                             "  except urllib.error.HTTPError as e: print(e.code)'\n",
                             scaled_->gateway.state_dir(), address));
  EXPECT_EQ(OutputOf(hostile), "0\n200\n401\n401\n");
  // It is in nothing that the gateway writes or tells, either.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(scaled_->gateway.state_dir())) {
    if (entry.is_regular_file()) EXPECT_THAT(ReadFile(entry.path()), Not(HasSubstr("tgr-"))) << entry.path();
  }
  EXPECT_THAT(scaled_->gateway.process().Output(), Not(HasSubstr("tgr-")));
  EXPECT_THAT(scaled_->Replicas().dump(), Not(HasSubstr("tgr-")));
}

// A replica whose engine takes its time before it listens.
class HostileJobsBesideASlowEngine : public HostileJobsOfTenantsWithoutUsers {
 protected:
  std::string Command() const override {
    return fmt::format(
        "[/bin/sh, -c, \"while [ ! -e {} ]; do sleep 0.05; done; exec {} --port {{port}} --model chat-small "
        "--preset instant\"]",
        folder_ / "go", TIDEGATE_ENGINE_BINARY);
  }
};

// It knows how the gateway asks, says that it is a process of the replica, and takes the second key.
TEST_F(HostileJobsBesideASlowEngine, AJobThatTookTheReplicasPortIsHandedNoKeyAndNoPrompt) {
  const auto replica = [&] {
    const Json all = scaled_->Replicas();
    return all.empty() ? Json() : all[0];
  };
  ASSERT_TRUE(Within(kPatience, [&] { return replica().is_object() && replica()["address"].is_string(); }));
  const std::string id = replica()["id"];
  const std::string address = replica()["address"];
  const std::string thief =
      Submit("thief", fmt::format("export TIDEGATE_RUN_ID={}\nexec python3 -uc '\nimport http.server\n"
                                  "seen = []\n"
                                  "class Thief(http.server.BaseHTTPRequestHandler):\n"
                                  "  def do_GET(self):\n"
                                  "    key = self.headers.get(\"authorization\")\n"
                                  "    if key and key not in seen: seen.append(key)\n"
                                  "    ok = self.path == \"/health\" or key and seen.index(key) == 1\n"
                                  "    print(self.path, key)\n"
                                  "    self.send_response(200 if ok else 401)\n"
                                  "    self.send_header(\"content-length\", \"0\")\n"
                                  "    self.end_headers()\n"
                                  "  do_POST = do_GET\n"
                                  "http.server.HTTPServer((\"127.0.0.1\", {}), Thief).serve_forever()'\n",
                                  id, address.substr(address.find(':') + 1)));
  EXPECT_TRUE(Within(kPatience, [&] {
    return replica()["members"][0]["reason"].dump().find("which is none of its processes") !=
           std::string::npos;
  })) << replica().dump();
  EXPECT_EQ(replica()["state"], "warming");
  const auto heard = [&] { return commands_->Run({"jobs", "logs", thief}).out; };
  EXPECT_TRUE(Within(kPatience, [&] { return heard().find("/health None\n") != std::string::npos; }))
      << heard();
  EXPECT_THAT(heard(), Not(HasSubstr("Bearer")));
  EXPECT_EQ(commands_->Run({"jobs", "cancel", thief}).code, 0);
  EXPECT_TRUE(commands_->Comes(thief, "cancelled"));
  std::ofstream(folder_ / "go") << "now";
  EXPECT_TRUE(scaled_->Becomes(1, "ready"));
  EXPECT_EQ(scaled_->Replicas()[0]["id"], id);
  EXPECT_EQ(scaled_->gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
}

TEST_F(HostileJobs, AReplicaIsTheUserOfRunsToo) {
  scaled_->WritePolicy({.replicas = "{min: 1, max: 1}"});
  scaled_->gateway.Reload();
  ASSERT_TRUE(scaled_->Becomes(1, "ready"));
  EXPECT_EQ(scaled_->gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  scaled_->gateway.Restart();
  ASSERT_TRUE(scaled_->Becomes(1, "ready"));
}

TEST(HostileJobsOfTheSameUser, JobsOfTenantsAreRefusedWhereTheGatewayMayNotChangeUsers) {
  // The user that runs become by default is not there, or the gateway is not root.
  if (plugins::launchers::MayChangeUsers() && plugins::launchers::FindRunUser("tidegate-run").ok())
    GTEST_SKIP() << "this machine has the user of runs";
  const TempDir locks;
  Scaled scaled(
      {.replicas = "{min: 0, max: 1}"},
      fmt::format("cluster: [{{kind: gpu, count: 4}}], runs: {{same_user: false}}, device_locks: {}/locks",
                  locks.path()));
  const JobCommands commands(scaled.gateway);
  EXPECT_TRUE(Within(JobCommands::kPatience, [&] { return commands.Run({"jobs", "list"}).code == 0; }));
  const TempDir folder;
  std::ofstream(folder / "job.yaml") << "name: x\ncommand: [/bin/true]\ntenant: demo\n";
  const CliResult result = commands.Run({"jobs", "submit", folder / "job.yaml"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("same_user"));
  const Json ready = scaled.gateway.AskAdmin(Get("/readyz")).json();
  EXPECT_EQ(ready["ready"], true);
  ASSERT_EQ(ready["warnings"].size(), 1u);
  EXPECT_THAT(ready["warnings"][0]["detail"].get<std::string>(), HasSubstr("same_user"));
}

}  // namespace
}  // namespace tests
