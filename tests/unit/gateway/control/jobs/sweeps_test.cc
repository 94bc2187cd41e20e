// Sweeps, placement, resources, data sets and provenance of jobs, over a real planner.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gateway/control/jobs/jobs.h"
#include "gateway/control/workloads/provenance.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/control/jobs/world.h"

namespace tests {
namespace {

using gateway::control::ParseReports;
using gateway::control::Submitted;
using gateway::control::SweepProgress;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Two machines in zones of their own, with licences.
scheduler::Cluster TwoMachines() {
  scheduler::Cluster cluster = Machine();
  cluster.nodes.push_back({.name = "other"});
  cluster.nodes[0].labels = {{"zone", "eu-1"}};
  cluster.nodes[1].labels = {{"zone", "us-1"}};
  cluster.resources = {{"matlab", 2}};
  return cluster;
}

class SweepsTest : public testing::Test {
 protected:
  SweepsTest() { Restart(); }
  void Restart() {
    const conf::TimePoint now = world ? world->now : conf::TimePoint(std::chrono::hours(24 * 20'000));
    auto residency = world ? world->residency : decltype(world->residency)();
    auto data = world ? world->data_sets : decltype(world->data_sets)();
    world.reset();
    world = std::make_unique<JobsWorld>(store, launcher, now, gateway::config::ModelPolicy(), false,
                                        TwoMachines());
    world->residency = std::move(residency);
    world->data_sets = std::move(data);
  }
  std::string Metric() const {
    return fmt::format("metric: {{name: loss, file: \"{}/{{id}}.jsonl\"}}", dir.path());
  }
  void Report(const std::string& id, uint64_t step, double value) {
    std::ofstream(fmt::format("{}/{}.jsonl", dir.path(), id), std::ios::app)
        << fmt::format("{{\"step\": {}, \"value\": {}}}\n", step, value);
  }
  std::vector<std::string> Problems(std::string text, std::string parameters = {}) {
    std::vector<std::string> out;
    const Submitted submitted =
        world->SubmitAs({.text = std::move(text), .file = "job.yaml", .parameters = std::move(parameters)});
    for (const conf::Problem& problem : submitted.problems) out.push_back(ToString(problem));
    return out;
  }

  TempDir dir;
  MemoryStore store;
  ScriptedLauncher launcher;
  std::unique_ptr<JobsWorld> world;
};

TEST_F(SweepsTest, EachElementIsToldItsParametersAndTheSeed) {
  const std::string first = world->Submit(
      "name: tune\ncommand: [train, --lr, \"{sweep.lr}\"]\nseed: 17\nenv: {NOTE: \"layers {sweep.layers}\"}\n"
      "sweep: {grid: {lr: [0.1, 0.01], layers: [2, 4]}}\n");
  EXPECT_EQ(first, "tune-1.0");
  world->Settle();
  const std::string run = "j-tune-1.1-1-0";
  EXPECT_THAT(launcher.specs.at(run).command, ElementsAre("train", "--lr", "0.01"));
  EXPECT_EQ(launcher.Env(run, "TIDEGATE_PARAM_LR"), "0.01");
  EXPECT_EQ(launcher.Env(run, "TIDEGATE_PARAM_LAYERS"), "2");
  EXPECT_EQ(launcher.Env(run, "TIDEGATE_PARAMS"), R"({"layers":"2","lr":"0.01"})");
  EXPECT_EQ(launcher.Env(run, "NOTE"), "layers 2");
  EXPECT_EQ(launcher.Env(run, "TIDEGATE_SEED"), "17");
  EXPECT_EQ(launcher.Env(run, "TIDEGATE_METRICS"), "(not set)");
}

TEST_F(SweepsTest, ElementsShareABudgetOfDevices) {
  world->Submit(
      "name: tune\ncommand: [train]\nmembers: 2\ndevices: [{count: 1}]\n"
      "sweep: {random: {count: 6, seed: 3, parameters: {lr: {log: [0.001, 0.1]}}}, max_devices: 5}\n");
  world->Settle();
  EXPECT_EQ(launcher.Running(), 4u);  // two elements of two devices
  EXPECT_EQ(world->State("tune-1.2"), "pending");
  for (const int rank : {0, 1}) launcher.End(fmt::format("j-tune-1.0-1-{}", rank), 0);
  world->Pass(seconds(1));
  EXPECT_EQ(world->State("tune-1.0"), "done");
  EXPECT_EQ(launcher.Running(), 4u);
}

TEST_F(SweepsTest, ParametersComeFromAFileAndStayTheSameAfterAKill) {
  const Submitted submitted = world->SubmitAs({.text = "name: tune\ncommand: [train]\nsweep: {file: p.csv}\n",
                                               .file = "job.yaml",
                                               .parameters = "lr,name\n0.1,\"a, b\"\n0.2,c\n"});
  ASSERT_THAT(submitted.jobs, SizeIs(2));
  Restart();
  world->Settle();
  EXPECT_EQ(launcher.Env("j-tune-1.0-1-0", "TIDEGATE_PARAM_NAME"), "a, b");
  EXPECT_EQ(launcher.Env("j-tune-1.1-1-0", "TIDEGATE_PARAM_LR"), "0.2");
}

TEST_F(SweepsTest, ElementsThatFallBehindAreStoppedEarlyAlsoAfterAKill) {
  world->Submit("name: tune\ncommand: [train]\nsweep: {grid: {lr: [1, 2, 3, 4]}, " + Metric() +
                ", halving: {first: 10, factor: 2}}\n");
  world->Settle();
  EXPECT_EQ(launcher.Env("j-tune-1.0-1-0", "TIDEGATE_METRICS"), fmt::format("{}/tune-1.0.jsonl", dir.path()));
  Report("tune-1.0", 5, 9);
  Report("tune-1.0", 10, 0.5);
  world->Pass(seconds(3));
  EXPECT_EQ(world->State("tune-1.0"), "running");
  Restart();
  Report("tune-1.1", 12, 0.9);
  world->Pass(seconds(3));
  world->Pass(seconds(3));
  EXPECT_EQ(world->State("tune-1.1"), "done");
  EXPECT_THAT((*world)["tune-1.1"].why,
              HasSubstr("its sweep stopped it early: at step 10 its value 0.9 ranks 2 of 2"));
  Report("tune-1.2", 10, 0.1);
  Report("tune-1.0", 20, 0.4);
  world->Pass(seconds(3));
  EXPECT_EQ(world->State("tune-1.2"), "running");
  EXPECT_EQ(world->State("tune-1.0"), "running");
  const Workload& best = (*world)["tune-1.0"];
  EXPECT_EQ(best.progress.step, 20u);
  EXPECT_EQ(best.progress.best, 0.4);
  EXPECT_THAT(best.progress.rungs, ElementsAre(0.5, 0.4));
  EXPECT_THAT(world->jobs->Explain(best),
              Contains(HasSubstr("Its last report: loss 0.4 at step 20, the best 0.4.")));
}

TEST_F(SweepsTest, ReportsOfARunWhoseUserIsANumberAreRead) {
  world->Submit("name: tune\ncommand: [train]\nsweep: {grid: {lr: [1, 2]}, " + Metric() + "}\n");
  world->Settle();
  launcher.runs.at("j-tune-1.0-1-0").user = std::to_string(geteuid());
  launcher.runs.at("j-tune-1.1-1-0").user = "4123456789";  // nobody's account
  world->Pass(seconds(3));
  Report("tune-1.0", 1, 0.5);
  Report("tune-1.1", 1, 0.5);
  world->Pass(seconds(3));
  EXPECT_EQ((*world)["tune-1.0"].progress.step, 1u) << (*world)["tune-1.0"].progress.unread;
  EXPECT_THAT(world->jobs->Explain((*world)["tune-1.1"]),
              Contains(HasSubstr("and not to 4123456789, the user of the run")));
}

TEST_F(SweepsTest, AJobAfterASweepStartsAlthoughElementsWereStoppedEarly) {
  world->Submit("name: tune\ncommand: [train]\nsweep: {grid: {lr: [1, 2]}, " + Metric() +
                ", halving: {first: 1, factor: 2}}\n");
  const std::string last = world->Submit("name: last\ncommand: [train]\nafter: [tune-1]\n");
  world->Settle();
  Report("tune-1.0", 1, 1);
  world->Pass(seconds(3));
  Report("tune-1.1", 1, 2);
  world->Pass(seconds(3));
  ASSERT_EQ(world->State("tune-1.1"), "done");
  launcher.End("j-tune-1.0-1-0", 0);
  world->Pass(seconds(1));
  world->Pass(seconds(1));
  EXPECT_EQ(world->State(last), "running");
}

TEST_F(SweepsTest, ReportsThatAreLinksOrOfOthersAreNotRead) {
  world->Submit("name: tune\ncommand: [train]\nsweep: {grid: {lr: [1, 2]}, " + Metric() + "}\n");
  world->Settle();
  Report("secret", 1, 1);
  std::filesystem::create_symlink(fmt::format("{}/secret.jsonl", dir.path()),
                                  fmt::format("{}/tune-1.0.jsonl", dir.path()));
  std::filesystem::create_hard_link(fmt::format("{}/secret.jsonl", dir.path()),
                                    fmt::format("{}/tune-1.1.jsonl", dir.path()));
  world->Pass(seconds(3));
  EXPECT_THAT((*world)["tune-1.0"].progress.unread, HasSubstr("is a link or not a folder"));
  EXPECT_THAT((*world)["tune-1.1"].progress.unread, HasSubstr("it is not a regular file with one name"));
  EXPECT_FALSE((*world)["tune-1.0"].progress.step.has_value());
}

TEST_F(SweepsTest, ExplainSaysThatNothingWasReportedAndWhereTheFolderIsMissing) {
  const auto explain = [&](const std::string& id) { return world->jobs->Explain((*world)[id]); };
  world->Submit("name: tune\ncommand: [train]\nsweep: {grid: {lr: [1]}, " + Metric() + "}\n");
  world->Submit(
      fmt::format("name: far\ncommand: [train]\nsweep: {{grid: {{lr: [1]}}, metric: {{name: loss, file: "
                  "\"{}/not-mounted/{{id}}.jsonl\"}}}}\n",
                  dir.path()));
  world->Settle();
  world->Pass(seconds(3));
  EXPECT_THAT(explain("tune-1.0"), Contains(HasSubstr("the gateway finds no file of its reports")));
  EXPECT_THAT(explain("far-2.0"),
              Contains(HasSubstr("Its reports are not read: the machine of the gateway does "
                                 "not have the file's folder.")));
  Report("tune-1.0", 1, 0.5);
  world->Pass(seconds(3));
  EXPECT_THAT(explain("tune-1.0"), Contains("Its last report: loss 0.5 at step 1, the best 0.5."));
}

TEST(SweepReports, LinesThatAreNoReportArePassedOver) {
  const auto reports = ParseReports(
      "{\"step\": 1, \"value\": 2.5}\nnonsense\n{\"step\": -1, \"value\": 2}\n{\"step\": 2, \"value\": "
      "\"x\"}\n"
      "{\"step\": 3, \"value\": 1e999}\n{\"step\": 4, \"value\": 7}\n{\"step\": 5,");
  ASSERT_THAT(reports.all, SizeIs(2));
  EXPECT_EQ(reports.all[0].value, 2.5);
  EXPECT_EQ(reports.all[1].step, 4u);
  EXPECT_EQ(reports.bytes,
            std::string_view("{\"step\": 1, \"value\": 2.5}\nnonsense\n{\"step\": -1, \"value\": 2}\n"
                             "{\"step\": 2, \"value\": \"x\"}\n{\"step\": 3, \"value\": 1e999}\n"
                             "{\"step\": 4, \"value\": 7}\n")
                .size());
}

TEST_F(SweepsTest, JobsRunWhereTheirLabelsAreAndUnknownOnesAreRefused) {
  const std::string id =
      world->Submit("name: eu\ncommand: [train]\ndevices: [{count: 1}]\nrequire: {zone: us-1}\n");
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  EXPECT_EQ(launcher.Env("j-eu-1-1-0", "TIDEGATE_NODE"), "other");
  EXPECT_THAT(
      Problems("name: a\ncommand: [train]\nrequire: {zoen: eu-1}\n"),
      ElementsAre(HasSubstr("job.yaml:/require/zoen (line 3): no node has the label \"zoen\", did you mean "
                            "\"zone\"?")));
  EXPECT_THAT(Problems("name: a\ncommand: [train]\navoid: {zone: [eu-1, mars]}\n"),
              ElementsAre(HasSubstr("no node has the label zone with the value \"mars\"")));
  EXPECT_THAT(Problems("name: a\ncommand: [train]\nspread: rack\n"), ElementsAre(HasSubstr("/spread")));
  EXPECT_THAT(
      Problems("name: a\ncommand: [train]\ndevices: [{count: 8}]\nmembers: 2\nrequire: {zone: eu-1}\n"),
      ElementsAre(HasSubstr("/members")));
}

TEST_F(SweepsTest, AnIsolatedJobSharesItsNodeWithItsTenantsAloneAlsoAfterAKill) {
  const std::string job = "tenant: research\ncommand: [train]\ndevices: [{count: 1}]\nisolation: tenant\n";
  world->Submit("name: one\n" + job);
  world->Settle();
  const std::string node = launcher.Env("j-one-1-1-0", "TIDEGATE_NODE");
  Restart();
  world->Submit("name: two\n" + job +
                fmt::format("require: {{zone: {}}}\n", node == "local" ? "eu-1" : "us-1"));
  const std::string other =
      world->Submit("name: other\ncommand: [train]\ndevices: [{count: 1}]\n" +
                    fmt::format("require: {{zone: {}}}\n", node == "local" ? "eu-1" : "us-1"));
  world->Settle();
  EXPECT_EQ(launcher.Env("j-two-2-1-0", "TIDEGATE_NODE"), node);
  EXPECT_EQ(world->State(other), "pending");
}

TEST_F(SweepsTest, AJobCannotWidenTheResidencyOfItsTenant) {
  world->residency["acme/research"] = {{"zone", {"us-1"}}};
  const std::string job = "name: r\ntenant: research\ncommand: [train]\ndevices: [{count: 8}]\n";
  const std::string first = world->Submit(job);
  const std::string second = world->Submit(job);
  world->Settle();
  ASSERT_EQ(world->State(first), "running");
  EXPECT_EQ(launcher.Env("j-r-1-1-0", "TIDEGATE_NODE"), "other");
  EXPECT_EQ(world->State(second), "pending");  // the other machine is free
  EXPECT_THAT(world->jobs->Explain((*world)[second]),
              Contains("The residency of tenant acme/research keeps it to nodes where zone is us-1."));
  EXPECT_THAT(
      Problems(job + "require: {zone: eu-1}\n"),
      ElementsAre(HasSubstr("is outside the residency of tenant acme/research, whose jobs run where zone is "
                            "us-1")));
  EXPECT_THAT(Problems("name: r\ntenant: research\ncommand: [train]\ndevices: [{count: 8}]\nmembers: 2\n"),
              ElementsAre(HasSubstr("job.yaml:/tenant")));
}

TEST_F(SweepsTest, ResourcesAreHeldUntilTheJobHasEndedAndCountedAfterAKill) {
  const std::string job = "name: m\ncommand: [train]\nresources: {matlab: 1}\n";
  world->Submit(job);
  world->Submit(job);
  const std::string third = world->Submit(job);
  world->Settle();
  EXPECT_EQ(launcher.Running(), 2u);
  EXPECT_THAT(world->jobs->Explain((*world)[third]), Contains(HasSubstr("waits for the resource matlab")));
  Restart();
  world->Settle();
  EXPECT_EQ(launcher.Running(), 2u);
  EXPECT_EQ(world->planner().resources().held("matlab"), 2u);
  launcher.End("j-m-1-1-0", 0);
  world->Pass(seconds(1));
  EXPECT_EQ(world->State(third), "running");
  EXPECT_THAT(Problems("name: m\ncommand: [train]\nresources: {matlab: 3}\n"),
              ElementsAre(HasSubstr(
                  "job.yaml:/resources/matlab (line 3): the cluster has 2 of the resource matlab")));
  EXPECT_THAT(Problems("name: m\ncommand: [train]\nresources: {matlib: 1}\n"),
              ElementsAre(HasSubstr("unknown resource \"matlib\", did you mean \"matlab\"?")));
}

constexpr std::string_view kDigest =
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST_F(SweepsTest, DataSetsAreBroughtByTheStepAndNamedInTheCommand) {
  gateway::config::DataSet corpus;
  corpus.name = "corpus";
  corpus.from.path = "/mnt/corpus";
  corpus.from.digest = kDigest;
  gateway::config::DataSet more = corpus;
  more.name = "more";
  more.from.digest.back() = '0';
  more.tenants = {"acme/*"};
  world->data_sets = {corpus, more};
  world->Submit(
      "name: d\ntenant: research\ncommand: [train, \"{data.corpus}/part\"]\ndata: [corpus, more]\n");
  world->Settle();
  const RunSpec& spec = launcher.specs.at("j-d-1-1-0");
  const std::string folder = "/store/" + ("sha256-" + std::string(kDigest.substr(7)));
  EXPECT_THAT(spec.command, ElementsAre("train", folder + "/part"));
  EXPECT_EQ(launcher.Env("j-d-1-1-0", "TIDEGATE_DATA_CORPUS"), folder);
  ASSERT_TRUE(spec.weights.has_value());
  EXPECT_EQ(spec.weights->digest, kDigest);
  EXPECT_THAT(spec.weights->also, ElementsAre(more.from.digest));
  EXPECT_THAT(spec.weights->order, HasSubstr("/mnt/corpus"));
  EXPECT_THAT(Problems("name: d\ncommand: [train]\ndata: [more]\n"),
              ElementsAre(HasSubstr("unknown data set \"more\"")));
  EXPECT_THAT(Problems("name: d\ncommand: [train]\ndata: [corpsu]\n"),
              ElementsAre(HasSubstr("did you mean \"corpus\"?")));
  EXPECT_THAT(Problems("name: d\ncommand: [train, \"{data.corpus}\", \"{data.shape}\"]\n"),
              ElementsAre(HasSubstr("lacks corpus, which the job names as {data.corpus}; add it")));
}

TEST_F(SweepsTest, ARerunHasTheSeedAndSaysWhatCannotBeTheSame) {
  gateway::config::DataSet corpus;
  corpus.name = "corpus";
  corpus.from.path = "/mnt/corpus";
  corpus.from.digest = kDigest;
  world->data_sets = {corpus};
  const std::string text = "name: t\ncommand: [train]\ndata: [corpus]\n";
  world->Submit(text);
  Restart();
  world->Settle();
  const gateway::control::Provenance first = (*world)["t-1"].of->provenance;
  EXPECT_EQ(first.version, TIDEGATE_VERSION);
  EXPECT_EQ(first.configuration, "0123456789abcdef");
  EXPECT_EQ(first.seed, gateway::control::SeedOf("t-1"));
  EXPECT_THAT(first.data, ElementsAre(std::pair("corpus", std::string(kDigest))));
  world->configuration = "fedcba9876543210";
  world->data_sets[0].from.digest.back() = '0';
  const Submitted again = world->SubmitAs({.text = text, .file = "job.yaml", .rerun_of = "t-1"});
  EXPECT_THAT(again.differences, Contains(HasSubstr("The gateway's configuration has changed since")));
  EXPECT_THAT(again.differences, Contains(HasSubstr("The data set corpus was " + std::string(kDigest))));
  world->Settle();
  EXPECT_EQ(launcher.Env("j-t-2-1-0", "TIDEGATE_SEED"), std::to_string(first.seed));
  const gateway::control::Provenance second = (*world)["t-2"].of->provenance;
  EXPECT_EQ(second.rerun_of, "t-1");
  EXPECT_EQ(second.command, first.command);
  EXPECT_EQ(second.file, first.file);
}

TEST_F(SweepsTest, DeviceTimeOfAllAttemptsIsCounted) {
  const std::string id = world->Submit("name: d\ncommand: [train]\ndevices: [{count: 2}]\n");
  world->Settle();
  launcher.runs.at("j-d-1-1-0").started = world->now;
  world->Pass(seconds(10));
  EXPECT_DOUBLE_EQ((*world)[id].DeviceSeconds(world->planning.cluster(), world->now), 20);
  launcher.runs.at("j-d-1-1-0").ended = world->now;
  launcher.End("j-d-1-1-0", 0);
  world->Pass(seconds(5));
  EXPECT_EQ(world->State(id), "done");
  EXPECT_DOUBLE_EQ((*world)[id].DeviceSeconds(world->planning.cluster(), world->now), 20);
  Restart();
  EXPECT_DOUBLE_EQ((*world)[id].DeviceSeconds(world->planning.cluster(), world->now), 20);
}

}  // namespace
}  // namespace tests
