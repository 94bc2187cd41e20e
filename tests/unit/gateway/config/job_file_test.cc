// Job files: what is read, and what is refused with its path and reason, all at once.
#include "gateway/config/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "conf/text.h"
#include "gateway/config/tenant.h"
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
  EXPECT_EQ(files, 5u);
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
    testing::Values(
        Wrong{"members: {min: 3, max: 2}\n", "at most max, 2"},
        Wrong{"members: {min: 1, max: 2}\n", "give checkpoint"}, Wrong{"members: 5000\n", "from 1 to 4096"},
        Wrong{"work: notebook\nmembers: 2\n", "must be 1 for a notebook"},
        Wrong{"notebook: {idle_timeout: 1h}\n", "has an effect on notebooks only"},
        Wrong{"work: notebook\narray: {count: 2}\n", "has no effect on a notebook"},
        Wrong{"topology: {level: leaf, required: true, wait: 5m}\n", "has no effect"},
        Wrong{"array: {count: 1001}\n", "between 1 and 1000"},
        Wrong{"devices: [{count: 17}]\n", "between 1 and 16"}, Wrong{"limit: 0s\n", "longer than 0"},
        Wrong{"checkpoint: {grace: 1m}\n", "interval"}, Wrong{"devices: []\n", "must not be empty"},
        Wrong{"require: {}\n", "must not be empty"},
        Wrong{"require: [zone]\n", "expected labels with their values"},
        Wrong{"avoid: {zone: []}\n", "must name values of the label"},
        Wrong{"require: {tidegate.io/weights-0: held}\n", "is not a label of nodes that a file may name"},
        Wrong{"isolation: tenant\n", "needs a tenant"}, Wrong{"isolation: rack\n", "isolation"},
        Wrong{"resources: {matlab: 0}\n", "must be from 1 to 1000000"},
        Wrong{"data: [a, a]\n", "names a twice"},
        Wrong{"env: {A: \"{sweep.lr}\"}\n", "names {sweep.lr}, and the job has no sweep"},
        Wrong{"sweep: {parallel: 2}\n", "give one of grid, random and file"},
        Wrong{"sweep: {grid: {lr: [1]}, file: p}\n", "give one of grid, random and file"},
        Wrong{"sweep: {grid: {lr: []}}\n", "lr has no values"},
        Wrong{"sweep: {grid: {1r: [1]}}\n", "is not the name of a parameter"},
        Wrong{"sweep: {grid: {a-b: [1], a_b: [1]}}\n", "would both be the variable TIDEGATE_PARAM_A_B"},
        Wrong{"sweep: {random: {count: 2, parameters: {a: {uniform: [2, 1]}}}}\n", "the smaller first"},
        Wrong{"sweep: {random: {count: 2, parameters: {a: {log: [0, 1]}}}}\n", "must be above 0"},
        Wrong{"sweep: {random: {count: 2, parameters: {a: {log: [1, 2], choice: [x]}}}}\n",
              "give one of choice, uniform, log and integer"},
        Wrong{"sweep: {random: {count: 4000000000, parameters: {a: {choice: [x]}}}}\n", "between 1 and 1000"},
        Wrong{"sweep: {random: {count: 1001, parameters: {a: {choice: [x]}}}}\n", "between 1 and 1000"},
        Wrong{"sweep: {file: p.csv}\n", "was not sent with the job file"},
        Wrong{"sweep: {grid: {a: [1]}}\narray: {count: 2}\n", "cannot be given together with sweep"},
        Wrong{"sweep: {grid: {a: [1]}, max_devices: 2}\n", "has no effect on a job without devices"},
        Wrong{"devices: [{count: 4}]\nsweep: {grid: {a: [1]}, max_devices: 2}\n",
              "max_devices is 2, and one element takes 4"},
        Wrong{"sweep: {grid: {a: [1]}, halving: {first: 10}}\n", "needs metric"},
        Wrong{"sweep: {grid: {a: [1]}, metric: {file: /a/b}}\n", "must name {id}"},
        Wrong{"sweep: {grid: {a: [1]}, metric: {file: \"/a/../{id}\"}}\n", "must not have .. in it"},
        Wrong{"sweep: {grid: {a: [1]}, metric: {file: \"{id}\"}}\n", "must be an absolute path"}));

TEST(JobFile, ASweepHasAnElementForEachSetOfParameters) {
  const JobFile grid = Read(
      "name: a\ncommand: [x]\ndevices: [{kind: h100, count: 2}, {kind: a100, count: 4}]\n"
      "sweep: {grid: {lr: [0.1, 1e-3], opt: [adam, sgd, lion]}, max_devices: 9, parallel: 5}\n");
  EXPECT_EQ(grid.elements, 6u);
  EXPECT_EQ(grid.job.max_running, 2u);  // each may take four devices
  EXPECT_THAT(ParametersOf(grid, 4), ElementsAre(std::pair("lr", "1e-3"), std::pair("opt", "sgd")));
  EXPECT_THAT(ParametersOf(grid, 6), testing::IsEmpty());
  constexpr std::string_view kRandom =
      "name: a\ncommand: [x]\nsweep: {random: {count: 50, seed: 7, parameters: {lr: {log: [0.001, 0.1]}, n: "
      "{integer: "
      "[1, 3]}, p: {uniform: [0, 1]}, o: {choice: [x, y]}}}}\n";
  const JobFile random = Read(kRandom);
  EXPECT_EQ(random.elements, 50u);
  for (uint32_t i = 0; i < 50; ++i) {
    const ParameterSet& set = ParametersOf(random, i);
    ASSERT_EQ(set.size(), 4u);
    EXPECT_GE(std::stod(set[0].second), 0.001);
    EXPECT_LE(std::stod(set[0].second), 0.1);
    EXPECT_THAT(set[1].second, testing::AnyOf("1", "2", "3"));
    EXPECT_EQ(set, ParametersOf(Read(kRandom), i)) << "the seed makes the same sets again";
  }
}

TEST(JobFile, ASweepReadsItsParametersFromAFile) {
  constexpr std::string_view kText = "name: a\ncommand: [x, \"{sweep.lr}\"]\nsweep: {file: p.jsonl}\n";
  EXPECT_EQ(ParameterFileOf(kText), "p.jsonl");
  EXPECT_EQ(ParameterFileOf("name: a\n"), "");
  const auto read = [&](std::string_view parameters) {
    return ReadJobFile(kText, "j.yaml", ReferencesOnly(), parameters);
  };
  const auto why = [&](std::string_view parameters) {
    const auto loaded = read(parameters);
    return loaded.problems.empty() ? std::string() : ToString(loaded.problems.front());
  };
  const auto lines = read("{\"lr\": 0.1, \"deep\": true}\n\n{\"deep\": false, \"lr\": \"x\"}\r\n");
  ASSERT_TRUE(lines.value.has_value());
  EXPECT_THAT(ParametersOf(*lines.value, 1), ElementsAre(std::pair("deep", "false"), std::pair("lr", "x")));
  const auto csv = read("lr,b\n1,2\n3,\"4,5\"\n");
  ASSERT_TRUE(csv.value.has_value());
  EXPECT_THAT(ParametersOf(*csv.value, 1), ElementsAre(std::pair("b", "4,5"), std::pair("lr", "3")));
  EXPECT_THAT(why("{\"lr\": 1}\n{\"lr\": 1, \"b\": 2}\n"), HasSubstr("line 2: has other parameters"));
  EXPECT_THAT(why("{\"lr\": [1]}\n"), HasSubstr("line 1: lr must be a number"));
  EXPECT_THAT(why("lr,b\n1\n"), HasSubstr("line 2: has 1 values"));
  EXPECT_THAT(why("lr\n"), HasSubstr("has no set of parameters"));
  EXPECT_THAT(why("{\"b\": 1}\n"),
              HasSubstr("names {sweep.lr}, and the sweep has no parameter of that name"));
}

TEST(JobFile, CommandsAndVariablesMayHaveSeveralLines) {
  const JobFile job = Read(R"(
name: a
command:
  - bash
  - -c
  - |
    set -e
    if true; then
      python3 train.py
    fi
env: {CONFIG: "{\n\t\"lr\": 1\n}"}
checkpoint: {interval: 5m, resume: [sh, -c, "a\nb"]}
)");
  EXPECT_THAT(job.command, ElementsAre("bash", "-c", HasSubstr("set -e\nif true; then\n")));
  EXPECT_EQ(job.env.at("CONFIG"), "{\n\t\"lr\": 1\n}");
  EXPECT_THAT(job.checkpoint.resume, ElementsAre("sh", "-c", "a\nb"));
  EXPECT_THAT(Problems("name: a\ncommand: [x, \"\\e[2J\"]\nenv: {A: \"\\0\", B: [1]}\ncheckpoint: {interval: "
                       "5m, resume: [\"\\a\"]}\n"),
              ElementsAre(AllOf(HasSubstr("/command/1"), HasSubstr("other than line breaks and tabs")),
                          AllOf(HasSubstr("/env/A"), HasSubstr("other than line breaks and tabs")),
                          AllOf(HasSubstr("/env/B"), HasSubstr("expected a text")),
                          HasSubstr("/checkpoint/resume/0")));
  EXPECT_THAT(Problems("name: a\ncommand: []\n"), ElementsAre(HasSubstr("must not be empty")));
}

TEST(JobFile, WhatALauncherWouldRefuseLaterIsRefusedAtOnce) {
  const JobFile job = Read(R"(
name: a
command: [serve, "--at={host}:{port}"]
env: {CUDA_DEVICE_ORDER: PCI_BUS_ID, NCCL_DEBUG: INFO}
secret_env: {CUDA_MPS_PIPE_DIRECTORY: env:PIPES}
checkpoint: {interval: 5m, resume: [serve, "{port}"]}
)");
  std::vector<std::string> problems;
  for (const conf::Problem& problem : CheckJob(job, {}, {})) problems.push_back(ToString(problem));
  EXPECT_THAT(problems,
              ElementsAre(AllOf(HasSubstr("/command/1"), HasSubstr("names {port}")),
                          HasSubstr("/checkpoint/resume/1"),
                          AllOf(HasSubstr("/env/CUDA_DEVICE_ORDER"), HasSubstr("is set by Tidegate")),
                          HasSubstr("/secret_env/CUDA_MPS_PIPE_DIRECTORY")));
}

TEST(JobFile, APairOfBracesMoreStandsForTheTextOfAPlaceholder) {
  const JobFile job =
      Read("name: a\ncommand: [x, \"{{sweep.lr}} {sweep.lr} {{port}} {{id}}\"]\nsweep: {grid: {lr: [1]}}\n");
  EXPECT_EQ(FillParameters(job.command[1], ParametersOf(job, 0)), "{sweep.lr} 1 {{port}} {{id}}");
  EXPECT_THAT(Problems("name: a\ncommand: [x, \"{{sweep.lr}}\"]\n"), SizeIs(0));
  // A job that was kept has to be read; a new one is refused.
  const JobFile uneven = Read("name: a\ncommand: [x, \"{{id}\", \"{rank}}\"]\nenv: {A: \"{{{data.set}}\"}\n");
  std::vector<std::string> problems;
  for (const conf::Problem& problem : CheckJob(uneven, {}, {})) problems.push_back(ToString(problem));
  EXPECT_THAT(problems, ElementsAre(AllOf(HasSubstr("/command/1"),
                                          HasSubstr("names {{id}, which is ambiguous: write {id} "
                                                    "for the value, or {{id}} for the text {id}")),
                                    HasSubstr("/env/A")));
}

TEST(JobFile, LabelsAndResourcesThatTheClusterDoesNotHaveAreFound) {
  const JobFile job = Read(
      "name: a\ncommand: [x]\nrequire: {zone: [a, c]}\nprefer: {dsk: nvme}\nspread: rack\nresources: "
      "{matlab: 3, "
      "ansys: 1}\n");
  scheduler::Cluster cluster;
  cluster.fabric = scheduler::FlatFabric();
  cluster.types.push_back({.name = "t"});
  cluster.nodes = {
      {.name = "n", .labels = {{"zone", "a"}, {"disk", "nvme"}, {"tidegate.io/weights-0", "held"}}}};
  cluster.resources = {{"matlab", 2}};
  std::vector<std::string> problems;
  for (const conf::Problem& problem : CheckJob(job, cluster, {})) problems.push_back(ToString(problem));
  EXPECT_THAT(problems,
              ElementsAre(AllOf(HasSubstr("/resources/ansys"), HasSubstr("there are matlab")),
                          AllOf(HasSubstr("/resources/matlab"), HasSubstr("has 2 of the resource matlab")),
                          AllOf(HasSubstr("/require/zone"), HasSubstr("\"c\"")),
                          AllOf(HasSubstr("/prefer/dsk"), HasSubstr("did you mean \"disk\"?")),
                          AllOf(HasSubstr("/spread"), HasSubstr("\"rack\""))));
}

TEST(Residency, ATenantKeepsToItsOwnRulesAndThoseOfItsParents) {
  std::vector<Tenant> tenants(3);
  tenants[0].name = "acme";
  tenants[0].residency.rules = {{"region", {"eu"}}};
  tenants[1].name = "search";
  tenants[1].parent = "acme";
  tenants[1].residency.rules = {{"zone", {"a", "b"}}};
  tenants[2].name = "acmee";
  EXPECT_EQ(ResidencyOf(tenants, "acme/search").size(), 2u);
  EXPECT_EQ(ResidencyOf(tenants, "acme/search/made-at-run-time").size(), 2u);
  EXPECT_EQ(ResidencyOf(tenants, "acme").size(), 1u);
  EXPECT_THAT(ResidencyOf(tenants, "acmee"), testing::IsEmpty());
  EXPECT_THAT(ResidencyOf(tenants, ""), testing::IsEmpty());
}

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
