// Kinds of jobs through the real gateway and command line: notebooks, arrays, jobs that come after others;
// and job files, logs and orders that go wrong.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "tests/fault/gateway/job_commands.h"
#include "tests/support/small_disk.h"

namespace tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr milliseconds kLong = JobCommands::kPatience;

class JobKinds : public testing::Test {
 protected:
  explicit JobKinds(GatewayConfig config = {})
      : scaled_({.replicas = "{min: 0, max: 1}"}, "cluster: [{kind: gpu, count: 4}], shares: accounted",
                std::move(config)) {
    EXPECT_TRUE(Within(kLong, [&] { return commands_.Run({"jobs", "list"}).code == 0; }));
  }
  ~JobKinds() override { EXPECT_TRUE(commands_.CancelAll()); }

  // Of a job that a shell runs, in the test's folder.
  std::string Shell(std::string_view name, std::string_view script, std::string_view more = {}) const {
    std::ofstream(folder_ / fmt::format("{}.sh", name)) << script;
    return fmt::format("name: {0}\ndirectory: {1}\ncommand: [/bin/sh, {0}.sh]\n{2}", name, folder_.path(),
                       more);
  }
  std::string Written(const std::string& file) const { return ReadFile(folder_ / file); }
  std::string Reason(std::string_view id) const { return commands_.Show(id)["reason"]; }
  uint64_t Free() const { return Json::parse(commands_.Run({"nodes", "--json"}).out)[0]["free"]; }

  TempDir folder_;
  Scaled scaled_;
  JobCommands commands_{scaled_.gateway};
};

TEST_F(JobKinds, AnIdleNotebookIsSuspendedAndContinuesWhenResumed) {
  std::ofstream(folder_ / "used") << "x";
  const std::string id = commands_.Submit(Shell(
      "nb", "echo attempt $TIDEGATE_ATTEMPT on $CUDA_VISIBLE_DEVICES >> out; exec sleep 1000",
      fmt::format("work: notebook\ndevices: [{{count: 1}}]\nnotebook: {{idle_timeout: 2s, activity: {}}}\n",
                  folder_ / "used")));
  ASSERT_TRUE(commands_.Comes(id, "running"));
  EXPECT_FALSE(Within(milliseconds(3000),
                      [&] {
                        std::ofstream(folder_ / "used") << "x";
                        Pause(milliseconds(100));
                        return commands_.StateOf(id) != "running";
                      }))
      << "it is used all the time: " << commands_.Explain(id);
  ASSERT_TRUE(commands_.Comes(id, "suspended")) << commands_.Explain(id);
  EXPECT_THAT(commands_.Explain(id), HasSubstr("it has not been used for"));
  EXPECT_EQ(Free(), 4u);
  EXPECT_EQ(commands_.Run({"jobs", "resume", id}).code, 0);
  ASSERT_TRUE(commands_.Comes(id, "running", 2));
  EXPECT_TRUE(Within(kLong, [&] { return Written("out") == "attempt 1 on 0\nattempt 2 on 0\n"; }))
      << Written("out");
  // And again: nobody uses it.
  ASSERT_TRUE(commands_.Comes(id, "suspended", 2));
  scaled_.gateway.Restart();
  EXPECT_TRUE(commands_.Comes(id, "suspended", 2));
}

TEST_F(JobKinds, AnArrayRunsWithinItsLimitAndItsDependentWaitsForAllElements) {
  const std::string first = commands_.Submit(
      Shell("sweep",
            "echo begins >> log; sleep 0.4; echo $TIDEGATE_ARRAY_INDEX/$TIDEGATE_ARRAY_COUNT >> done; "
            "echo ends >> log",
            "work: batch\ndevices: [{share: 0.5}]\narray: {count: 5, max_running: 2}\n"));
  ASSERT_EQ(first, "sweep-1.0");
  const std::string then = commands_.Submit(Shell("then", "cp done seen", "after: [sweep-1]\n"));
  EXPECT_THAT(commands_.Explain(then), HasSubstr("It waits for sweep-1, which has not ended."));
  ASSERT_TRUE(commands_.Comes(then, "done")) << commands_.Explain(then);
  std::istringstream log(Written("log"));
  int running = 0;
  int most = 0;
  for (std::string line; std::getline(log, line);) {
    running += line == "begins" ? 1 : -1;
    most = std::max(most, running);
  }
  EXPECT_EQ(most, 2);
  std::istringstream seen(Written("seen"));
  std::set<std::string> elements;
  for (std::string line; std::getline(seen, line);) elements.insert(line);
  EXPECT_THAT(elements, ElementsAre("0/5", "1/5", "2/5", "3/5", "4/5"));
}

TEST_F(JobKinds, ADependentOfAFailedJobNeverStarts) {
  const std::string fails =
      commands_.Submit(Shell("fails", "while [ ! -e go ]; do sleep 0.05; done; exit 3", "restarts: 0\n"));
  const std::string after =
      commands_.Submit(Shell("after", "echo no > started", fmt::format("after: [{}]\n", fails)));
  const std::string last =
      commands_.Submit(Shell("last", "echo no > started", fmt::format("after: [{}]\n", after)));
  std::ofstream(folder_ / "go") << "x";
  ASSERT_TRUE(commands_.Comes(fails, "failed"));
  EXPECT_THAT(Reason(fails), HasSubstr("member 0 exited with 3"));
  ASSERT_TRUE(commands_.Comes(after, "failed", 0));
  EXPECT_THAT(Reason(after), HasSubstr("its dependency " + fails + " failed or was cancelled"));
  ASSERT_TRUE(commands_.Comes(last, "failed", 0));
  EXPECT_EQ(Written("started"), "");
}

TEST_F(JobKinds, AJobThatCanNeverStartFailsWithTheReason) {
  const std::string no_program = commands_.Submit("name: none\ncommand: [/nonexistent/train]\n");
  const std::string no_folder =
      commands_.Submit("name: nowhere\ndirectory: /nonexistent/folder\ncommand: [/bin/true]\n");
  const std::string not_a_program =
      commands_.Submit(fmt::format("name: text\ncommand: [\"{}\"]\n", scaled_.gateway.config_path()));
  std::ofstream(folder_ / "large.yaml") << "name: large\ncommand: [/bin/true]\ndevices: [{count: 5}]\n";
  const CliResult too_large = commands_.Run({"jobs", "submit", folder_ / "large.yaml"});
  EXPECT_NE(too_large.code, 0);
  EXPECT_THAT(too_large.err, HasSubstr("no node of the cluster holds a member with 5 devices"));
  ASSERT_TRUE(commands_.Comes(no_program, "failed"));
  EXPECT_THAT(Reason(no_program), HasSubstr("/nonexistent/train"));
  ASSERT_TRUE(commands_.Comes(no_folder, "failed"));
  EXPECT_THAT(Reason(no_folder), HasSubstr("/nonexistent/folder"));
  ASSERT_TRUE(commands_.Comes(not_a_program, "failed"));
  EXPECT_THAT(Reason(not_a_program), HasSubstr("tidegate.yaml"));
  EXPECT_EQ(Free(), 4u) << "nothing is held";
}

TEST_F(JobKinds, WrongFilesAndIdsAreReportedAndChangeNothing) {
  const auto refused = [&](std::string_view text) {
    std::ofstream(folder_ / "wrong.yaml", std::ios::binary) << text;
    const CliResult result = commands_.Run({"jobs", "submit", folder_ / "wrong.yaml"});
    EXPECT_NE(result.code, 0) << text;
    EXPECT_EQ(result.out, "") << text;
    return result.err;
  };
  EXPECT_THAT(refused(""), HasSubstr("wrong.yaml"));
  EXPECT_THAT(refused("name: [a\n"), HasSubstr("wrong.yaml"));
  EXPECT_THAT(refused("name: a b\ncommand: [x]\n"), HasSubstr("lower-case letters"));
  EXPECT_THAT(refused("name: ../x\ncommand: [x]\n"), HasSubstr("lower-case letters"));
  EXPECT_THAT(refused("name: \xE6\xBD\xAE\ncommand: [x]\n"), HasSubstr("lower-case letters"));
  EXPECT_THAT(refused("name: x\ncommand: [x]\nqueue: nobody\n"), HasSubstr("unknown queue"));
  EXPECT_THAT(refused("name: x\ncommand: [x]\ndevices: [{kind: tpu}]\n"), HasSubstr("did you mean \"gpu\"?"));
  EXPECT_THAT(refused("name: x\ncommand: [x]\nsecret_env: {TOKEN: \"file:/nonexistent/token\"}\n"),
              HasSubstr("/secret_env/TOKEN"));
  EXPECT_THAT(refused("name: x\ncommand: [x]\ntenant: nobody\n"), HasSubstr("unknown tenant"));
  EXPECT_THAT(refused("name: x\ncommand: [x]\nafter: [y-7]\n"), HasSubstr("y-7"));
  EXPECT_THAT(refused(std::string(300 * 1024, '#')), HasSubstr("wrong.yaml"));
  EXPECT_THAT(refused(std::string("name: x\ncommand: [x]\nenv: {A: \"\x01\xFF\"}\n")), Not(HasSubstr("500")));
  EXPECT_NE(commands_.Run({"jobs", "submit", folder_ / "is-not-there.yaml"}).code, 0);
  for (const char* id : {"a/b c?d=e#f", "../jobs", "%2e%2e", "\xE6\xBD\xAE", ""}) {
    EXPECT_NE(commands_.Run({"jobs", "explain", id}).code, 0) << id;
    EXPECT_NE(commands_.Run({"jobs", "cancel", id}).code, 0) << id;
  }
  EXPECT_EQ(commands_.List(true).size(), 0u);
}

TEST_F(JobKinds, CancelEndsAJobThatIsBeingSuspendedAtOnce) {
  const std::string id =
      commands_.Submit(Shell("deaf", "trap '' USR1; echo up > up; while :; do sleep 0.1; done",
                             "devices: [{count: 4}]\ncheckpoint: {interval: 1h, grace: 10m}\n"));
  ASSERT_TRUE(commands_.Comes(id, "running"));
  ASSERT_TRUE(Within(kLong, [&] { return Written("up") == "up\n"; }));
  EXPECT_EQ(commands_.Run({"jobs", "suspend", id}).code, 0);
  ASSERT_TRUE(commands_.Comes(id, "saving"));
  EXPECT_NE(commands_.Run({"jobs", "resume", id}).code, 0);
  EXPECT_EQ(commands_.Run({"jobs", "cancel", id}).code, 0);
  ASSERT_TRUE(commands_.Comes(id, "cancelled")) << commands_.Explain(id);
  EXPECT_NE(commands_.Run({"jobs", "suspend", id}).code, 0);
  EXPECT_EQ(Free(), 4u);
}

TEST_F(JobKinds, AVeryLongLogIsFollowedCompletely) {
  // Characters of three bytes, so that pieces of it end within one.
  const std::string id = commands_.Submit(Shell(
      "long",
      "while [ ! -e go ]; do sleep 0.05; done; i=0\n"
      "while [ $i -lt 20 ]; do i=$((i + 1)); printf '%.0s\xE6\xBD\xAE\xE6\xB1\x90\\n' $(seq 10000); done"));
  ASSERT_TRUE(commands_.Comes(id, "running"));
  std::thread begins([this] {
    Pause(milliseconds(700));
    std::ofstream(folder_ / "go") << "x";
  });
  const CliResult followed = commands_.Run({"jobs", "logs", id, "--follow"});
  begins.join();
  EXPECT_EQ(followed.code, 0) << followed.err;
  std::string all;
  for (int i = 0; i < 200'000; ++i) all += "\xE6\xBD\xAE\xE6\xB1\x90\n";
  EXPECT_EQ(followed.out.size(), all.size());
  EXPECT_TRUE(followed.out == all);
}

std::string Post(const std::string& job) {
  return tests::Post("/admin/v1/jobs", Json{{"job", job}, {"file", "job.yaml"}}.dump(),
                     Scaled::Credentials());
}

TEST_F(JobKinds, SubmittedJobsSurviveKillsAndEachAttemptStartsOnce) {
  const std::string job = Shell("once", "echo $TIDEGATE_JOB >> started; sleep 0.2");
  std::vector<std::string> acknowledged;
  for (int kill = 0; kill < 3; ++kill) {
    std::atomic<int> taken = 0;
    std::thread submits([&, port = scaled_.gateway.admin_port()] {
      while (taken < 100) {
        const Answer answer = RawClient(port).Ask(Post(job));
        if (answer.status == 0) return;
        if (answer.status != 201) continue;  // it is not known yet what runs
        acknowledged.push_back(answer.json()["jobs"][0]);
        ++taken;
      }
    });
    EXPECT_TRUE(Within(kLong, [&] { return taken > 0; }));
    Pause(milliseconds(60 + 90 * kill));
    scaled_.gateway.Kill();
    submits.join();
    scaled_.gateway.Start();
  }
  ASSERT_TRUE(Within(kLong, [&] { return commands_.Open().empty(); }));
  std::map<std::string, int> started;
  std::istringstream lines(Written("started"));
  for (std::string line; std::getline(lines, line);) ++started[line];
  for (const std::string& id : acknowledged) EXPECT_TRUE(started.contains(id)) << id;
  std::set<std::string> ids;
  for (const Json& one : commands_.List(true)) {
    EXPECT_EQ(one["state"], "done") << one;
    // An attempt whose gateway was killed before it could begin never ran, and one may be tried again because
    // nobody knows how it ended; but none runs twice.
    EXPECT_LE(started[one["id"]], one["attempt"].get<int>()) << one;
    EXPECT_TRUE(ids.insert(one["id"]).second);
  }
  EXPECT_GE(ids.size(), acknowledged.size());
  EXPECT_FALSE(acknowledged.empty());
  EXPECT_TRUE(scaled_.gateway.Verify().ok());
}

TEST(ManyJobs, EachIsListedOnceWhileTheListChangesAndOverARestart) {
  const TempDir folder;
  Scaled scaled({.replicas = "{min: 0, max: 1}"}, "cluster: [{kind: gpu, count: 4}]");
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(Within(kLong, [&] { return commands.Run({"jobs", "list"}).code == 0; }));
  const std::string holds =
      commands.Submit(fmt::format("name: all\ndirectory: {}\ndevices: [{{count: 4}}]\n"
                                  "command: [/bin/sh, -c, 'echo $$ > pid; exec sleep 1000']\n",
                                  folder.path()));
  ASSERT_TRUE(commands.Comes(holds, "running"));
  const std::string job = "name: many\ncommand: [/bin/true]\ndevices: [{count: 4}]\narray: {count: 400}\n";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(scaled.gateway.AskAdmin(Post(job)).status, 201);
  const auto count = [&] {
    const std::vector<std::string> open = commands.Open();
    EXPECT_EQ(std::set<std::string>(open.begin(), open.end()).size(), open.size());
    return open.size();
  };
  EXPECT_EQ(count(), 1201u);
  // A page goes on after a job that is over by now.
  const std::string page = "/admin/v1/jobs?state=open&limit=10";
  ASSERT_EQ(scaled.Admin(page)["next"], "many-2.8");
  EXPECT_EQ(commands.Run({"jobs", "cancel", "many-2.8"}).code, 0);
  EXPECT_EQ(scaled.Admin(page + "&after=many-2.8")["data"][0]["id"], "many-2.9");
  EXPECT_EQ(count(), 1200u);
  scaled.gateway.Restart();
  ASSERT_TRUE(Within(kLong, [&] { return count() == 1200; }));
  EXPECT_EQ(commands.StateOf(holds), "running");
  // To cancel them one by one would take long: nothing of them runs but this.
  scaled.gateway.Kill();
  kill(std::stoi(ReadFile(folder / "pid")), SIGKILL);
}

class JobsOnASmallDisk : public testing::Test {
 protected:
  SmallDisk disk_;
  TempDir folder_;
};

TEST_F(JobsOnASmallDisk, UnrecordableSubmissionsAreRefusedAndNothingIsLost) {
  if (!disk_.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  Scaled scaled({.replicas = "{min: 0, max: 1}"}, "cluster: [{kind: gpu, count: 4}]",
                {.replicas = {}, .ledger = "min_free_bytes: 1MiB", .state_dir = disk_.path() + "/state"});
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(Within(kLong, [&] { return commands.Run({"jobs", "list"}).code == 0; }));
  // Of more than a page: what is left of the last one of each file takes smaller ones.
  const std::string job = fmt::format(
      "name: waits\ndevices: [{{count: 4}}]\nenv: {{LONG: \"{}\"}}\n"
      "command: [/bin/sh, -c, 'while [ ! -e {} ]; do sleep 0.05; done']\n",
      std::string(16'000, 'x'), folder_ / "go");
  const std::string id = commands.Submit(job);
  ASSERT_TRUE(commands.Comes(id, "running"));
  disk_.Fill();
  {
    std::ofstream rest(disk_.path() + "/rest", std::ios::binary);
    while (rest.write(std::string(512, 'r').data(), 512) && rest.flush()) {
    }
  }
  std::ofstream(folder_ / "full.yaml") << job;
  for (int i = 0; i < 3; ++i) {
    const CliResult refused = commands.Run({"jobs", "submit", folder_ / "full.yaml"});
    EXPECT_NE(refused.code, 0);
    EXPECT_EQ(refused.out, "");
    EXPECT_NE(refused.err, "");
  }
  EXPECT_EQ(commands.List(true).size(), 1u);
  EXPECT_EQ(commands.StateOf(id), "running");
  std::ofstream(folder_ / "go") << "x";
  disk_.Empty();
  EXPECT_TRUE(commands.Comes(id, "done")) << commands.Explain(id);
  const std::string next = commands.Submit(job);
  EXPECT_TRUE(commands.Comes(next, "done"));
  scaled.gateway.Restart();
  EXPECT_TRUE(commands.Comes(id, "done"));
  EXPECT_EQ(commands.List(true).size(), 2u) << "what was refused is not there";
  EXPECT_TRUE(scaled.gateway.Verify().ok());
}

}  // namespace
}  // namespace tests
