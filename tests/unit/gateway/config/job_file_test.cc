// Job files: what is read, and what is refused with its path and reason, all at once.
#include "gateway/config/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "conf/text.h"
#include "tests/support/shipped.h"

namespace gateway::config {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

JobFile Read(std::string_view text) {
  auto loaded = ReadJobFile(text, "j.yaml", ReferencesOnly());
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << ToString(problem);
  return loaded.value.value_or(JobFile());
}

std::vector<std::string> Problems(std::string_view text) {
  std::vector<std::string> problems;
  for (const conf::Problem& problem : ReadJobFile(text, "j.yaml", ReferencesOnly()).problems)
    problems.push_back(ToString(problem));
  return problems;
}

TEST(JobFile, EveryShippedOneIsRead) {
  size_t files = 0;
  const auto read = [&](const std::filesystem::path& path) {
    ++files;
    auto loaded = ReadJobFile(tests::ReadShipped(path), path.filename().string(), ReferencesOnly());
    for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << ToString(problem);
  };
  for (const auto& entry : std::filesystem::directory_iterator(tests::ConfDirectory() / "jobs")) {
    if (entry.path().extension() == ".yaml") read(entry.path());
  }
  read(tests::ConfDirectory() / "demo" / "training.yaml");
  EXPECT_EQ(files, 4u);
}

TEST(JobFile, IsReadAsAWhole) {
  const JobFile job = Read(tests::ReadShipped("jobs/training.yaml"));
  EXPECT_EQ(job.name, "finetune-qwen");
  EXPECT_EQ(job.job.queue, "research");
  EXPECT_EQ(job.job.priority, 100);
  ASSERT_EQ(job.job.roles.size(), 1u);
  const scheduler::Role& role = job.job.roles[0];
  EXPECT_EQ(role.min_count, 2u);
  EXPECT_EQ(role.count, 4u);
  ASSERT_EQ(role.ask.devices.size(), 2u);
  EXPECT_THAT(role.ask.devices[0].kinds, ElementsAre("h100"));
  EXPECT_EQ(role.ask.devices[0].count, 2);
  EXPECT_EQ(role.ask.devices[1].memory_mib, 80 * 1024);
  EXPECT_EQ(role.ask.cpu_milli, 16'000);
  EXPECT_EQ(job.job.topology.level, "leaf");
  EXPECT_EQ(job.job.estimate, std::chrono::hours(6));
  EXPECT_EQ(job.checkpoint.signal, SIGUSR1);
  EXPECT_EQ(job.checkpoint.saved, "/srv/finetune/last");
  EXPECT_EQ(job.job.checkpoint.interval, std::chrono::minutes(30));
  EXPECT_THAT(job.checkpoint.resume, ElementsAre("python3", "train.py", "--resume"));
}

TEST(JobFile, WhatIsNotSaidHasItsDefault) {
  const JobFile job = Read("name: a\ncommand: [x]\n");
  EXPECT_EQ(job.job.roles[0].count, 1u);
  EXPECT_EQ(job.job.roles[0].min_count, 1u);
  EXPECT_TRUE(job.job.roles[0].ask.devices.empty());
  EXPECT_FALSE(job.checkpoint.given);
  EXPECT_TRUE(job.job.preemptible);
  EXPECT_EQ(Read("name: a\ncommand: [x]\ndevices: [{kind: h100}]\n").job.roles[0].ask.devices[0].count, 1);
  EXPECT_EQ(Read("name: a\ncommand: [x]\ndevices: [{share: 0.25}]\n").job.roles[0].ask.devices[0].milli, 250);
}

TEST(JobFile, ReportsEveryProblemAtOnceWithWhatWouldBeRight) {
  EXPECT_THAT(
      Problems(R"(
name: Bad Name
comand: [x]
members: 0
devices: [{kind: h100, count: 2, share: 0.5}]
priority: hihg
checkpoint: {signal: KILL, grace: 10s, interval: 5m, save: 20s}
env: {RANK: "1", "1A": x}
secret_env: {TOKEN: abc}
)"),
      AllOf(SizeIs(11), Contains(HasSubstr("/name")), Contains(HasSubstr("did you mean \"command\"")),
            Contains(HasSubstr("/members")), Contains(HasSubstr("only one of count, share and profile")),
            Contains(HasSubstr("/priority")), Contains(HasSubstr("/checkpoint/signal")),
            Contains(HasSubstr("longer than grace, 10s")),
            Contains(HasSubstr("RANK is set by Tidegate for each member")),
            Contains(HasSubstr("\"1A\" is not")), Contains(HasSubstr("/secret_env/TOKEN"))));
}

struct Wrong {
  const char* text;
  const char* why;
};

class WrongJobFile : public testing::TestWithParam<Wrong> {};

TEST_P(WrongJobFile, IsRefused) {
  EXPECT_THAT(Problems(std::string("name: a\ncommand: [x]\n") + GetParam().text),
              Contains(HasSubstr(GetParam().why)));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongJobFile,
    testing::Values(Wrong{"members: {min: 3, max: 2}\n", "at most max, 2"},
                    Wrong{"members: {min: 1, max: 2}\n", "give checkpoint"},
                    Wrong{"members: 5000\n", "from 1 to 4096"},
                    Wrong{"work: notebook\nmembers: 2\n", "must be 1 for a notebook"},
                    Wrong{"notebook: {idle_timeout: 1h}\n", "has an effect on notebooks only"},
                    Wrong{"work: notebook\narray: {count: 2}\n", "has no effect on a notebook"},
                    Wrong{"topology: {level: leaf, required: true, wait: 5m}\n", "has no effect"},
                    Wrong{"array: {count: 1001}\n", "between 1 and 1000"},
                    Wrong{"devices: [{count: 17}]\n", "between 1 and 16"},
                    Wrong{"limit: 0s\n", "longer than 0"}, Wrong{"checkpoint: {grace: 1m}\n", "interval"},
                    Wrong{"devices: []\n", "must not be empty"}));

TEST(JobFile, NamesThatTheClusterDoesNotHaveAreFoundWithSuggestions) {
  const JobFile job = Read(
      "name: a\ncommand: [x]\nqueue: reserch\ndevices: [{kind: h10}, {kind: tpu}]\ntopology: {level: "
      "spine}\n");
  scheduler::Cluster cluster;
  cluster.fabric = scheduler::FlatFabric();
  cluster.kinds = {{.name = "h100"}};
  std::vector<std::string> problems;
  for (const conf::Problem& problem : CheckJob(job, cluster, {{.name = "research", .parent = ""}}))
    problems.push_back(ToString(problem));
  EXPECT_THAT(problems,
              ElementsAre(AllOf(HasSubstr("j.yaml:/queue"), HasSubstr("did you mean \"research\"?")),
                          AllOf(HasSubstr("/topology/level"), HasSubstr("node")),
                          AllOf(HasSubstr("/devices/0/kind"), HasSubstr("did you mean \"h100\"?")),
                          AllOf(HasSubstr("/devices/1/kind"), HasSubstr("there are h100"))));
}

}  // namespace
}  // namespace gateway::config
