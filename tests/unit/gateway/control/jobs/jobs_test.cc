// Jobs: what becomes of them when the planner, their members and operators do what they do.
#include "gateway/control/jobs/jobs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gateway/control/workloads/orphans.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/control/jobs/world.h"

namespace tests {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

constexpr std::string_view kGang = R"(
name: gang
command: [train]
members: 4
devices: [{kind: h100, count: 1}]
env: {A: b}
)";
constexpr std::string_view kSaves = R"(
name: gang
command: [train]
members: 4
devices: [{kind: h100, count: 2}]
checkpoint: {grace: 60s, interval: 30m, resume: [train, --resume]}
)";
constexpr std::string_view kElastic = R"(
name: gang
command: [train]
members: {min: 2, max: 4}
devices: [{kind: h100, count: 2}]
checkpoint: {grace: 60s, interval: 30m, resume: [train, --resume]}
)";

class JobsTest : public testing::Test {
 protected:
  JobsTest() { Restart(); }
  // As after kill -9: what was in memory is gone.
  void Restart() {
    const conf::TimePoint now = world ? world->now : conf::TimePoint(std::chrono::hours(24 * 20'000));
    gateway::config::ModelPolicy policy = world ? world->policy : gateway::config::ModelPolicy();
    world.reset();
    world = std::make_unique<JobsWorld>(store, launcher, now, std::move(policy));
  }
  std::string Run(const std::string& id, uint32_t attempt, uint32_t rank) const {
    return fmt::format("j-{}-{}-{}", id, attempt, rank);
  }

  TempDir dir;
  MemoryStore store;
  ScriptedLauncher launcher;
  std::unique_ptr<JobsWorld> world;
};

TEST_F(JobsTest, AGangStartsWithRanksAndAMeetingPlaceAndEndsWhenAllHave) {
  const std::string id = world->Submit(std::string(kGang));
  EXPECT_EQ(id, "gang-1");
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  EXPECT_EQ(launcher.Running(), 4u);
  std::set<int> devices;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const std::string run = Run(id, 1, rank);
    EXPECT_EQ(launcher.Env(run, "RANK"), std::to_string(rank));
    EXPECT_EQ(launcher.Env(run, "WORLD_SIZE"), "4");
    EXPECT_EQ(launcher.Env(run, "LOCAL_RANK"), "0");
    EXPECT_EQ(launcher.Env(run, "MASTER_ADDR"), "127.0.0.1");
    EXPECT_EQ(launcher.Env(run, "MASTER_PORT"), launcher.Env(Run(id, 1, 0), "MASTER_PORT"));
    EXPECT_EQ(launcher.Env(run, "TIDEGATE_JOB"), id);
    EXPECT_EQ(launcher.Env(run, "A"), "b");
    for (const uint8_t device : launcher.specs.at(run).grant.devices) devices.insert(device);
  }
  EXPECT_EQ(devices.size(), 4u);
  EXPECT_THAT(world->records, ElementsAre("job.submit gang-1", "job.start gang-1"));

  for (uint32_t rank = 0; rank < 4; ++rank) launcher.End(Run(id, 1, rank), 0);
  world->Settle();
  EXPECT_EQ(world->State(id), "done");
  EXPECT_EQ(world->records.back(), "job.ended gang-1");
  EXPECT_EQ(world->planner().jobs().Find(id), scheduler::kNone);
}

TEST_F(JobsTest, NothingIsDoneThatIsNotRecordedBefore) {
  const std::string id = world->Submit(std::string(kGang));
  world->record_result = absl::UnavailableError("the disk is full");
  world->Settle();
  EXPECT_EQ(world->State(id), "starting");
  EXPECT_TRUE(launcher.runs.empty());
  world->record_result = absl::OkStatus();
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(id), "running");
}

TEST_F(JobsTest, AMemberThatFailsStopsTheOthersAndTheGangStartsAgainUntilItsRestartsAreUsedUp) {
  const std::string id = world->Submit(std::string(kGang) + "restarts: 1\n");
  world->Settle();
  launcher.End(Run(id, 1, 2), 3);
  world->Settle();
  EXPECT_EQ(world->State(id), "pending") << "after a failure it waits a second";
  EXPECT_THAT(world->jobs->Explain((*world)[id]), Contains(HasSubstr("The next attempt starts at")));
  world->Pass(seconds(1));
  EXPECT_EQ(world->State(id), "running");
  EXPECT_EQ((*world)[id].attempt, 2u);
  EXPECT_THAT(launcher.told,
              IsSupersetOf({"stop " + Run(id, 1, 0), "stop " + Run(id, 1, 1), "stop " + Run(id, 1, 3)}));
  EXPECT_EQ(launcher.Running(), 4u);
  launcher.End(Run(id, 2, 0), 1);
  world->Settle();
  EXPECT_EQ(world->State(id), "failed");
  EXPECT_THAT((*world)[id].why, HasSubstr("member 0 exited with 1"));
  EXPECT_THAT((*world)[id].why, HasSubstr("restarts are used up"));
  EXPECT_EQ(launcher.Running(), 0u);
}

TEST_F(JobsTest, EachFailureIsFollowedByALongerPauseUntilTheJobHasRunForAMinute) {
  const std::string id = world->Submit("name: solo\ncommand: [train]\nrestarts: 9\n");
  world->Settle();
  uint32_t attempt = 1;
  for (const int pause : {1, 2, 4}) {
    launcher.End(Run(id, attempt, 0), 1);
    world->Settle();
    world->Pass(seconds(pause) - std::chrono::milliseconds(1));
    EXPECT_EQ(world->State(id), "pending") << pause;
    world->Pass(std::chrono::milliseconds(1));
    EXPECT_EQ(world->State(id), "running") << pause;
    ++attempt;
  }
  world->Pass(minutes(1));
  launcher.End(Run(id, attempt, 0), 1);
  world->Settle();
  world->Pass(seconds(1));
  EXPECT_EQ(world->State(id), "running");
}

TEST_F(JobsTest, ADependentStartsWhenAllItsJobsHaveSucceeded) {
  const std::string one = world->Submit("name: one\ncommand: [prepare]\n");
  const std::string two = world->Submit("name: two\ncommand: [prepare]\narray: {count: 2}\n");
  ASSERT_EQ(two, "two-2.0");
  const std::string last = world->Submit("name: last\ncommand: [train]\nafter: [one-1, two-2]\n");
  world->Settle();
  EXPECT_EQ(world->State(last), "pending");
  launcher.End(Run(one, 1, 0), 0);
  launcher.End(Run("two-2.0", 1, 0), 0);
  world->Settle();
  EXPECT_EQ(world->State(last), "pending");
  EXPECT_THAT(world->jobs->Explain((*world)[last]), Contains(HasSubstr("It waits for two-2")));
  Restart();
  world->Settle();
  EXPECT_EQ(world->State(last), "pending") << "it waits on after a restart";
  launcher.End(Run("two-2.1", 1, 0), 0);
  world->Settle();
  EXPECT_EQ(world->State(last), "running");
}

TEST_F(JobsTest, ADependentOfAFailedJobNeverStarts) {
  const std::string one = world->Submit("name: one\ncommand: [prepare]\nrestarts: 0\n");
  const std::string next = world->Submit("name: next\ncommand: [train]\nafter: [one-1]\n");
  const std::string last = world->Submit("name: last\ncommand: [train]\nafter: [next-2]\n");
  world->Settle();
  launcher.End(Run(one, 1, 0), 1);
  world->Settle();
  EXPECT_EQ(world->State(next), "failed");
  EXPECT_THAT((*world)[next].why, HasSubstr("its dependency one-1 failed or was cancelled"));
  EXPECT_EQ(world->State(last), "failed");
  EXPECT_THAT(
      world->Problems("name: late\ncommand: [train]\nafter: [one-1, gone-7]\n"),
      ElementsAre(HasSubstr("one-1 failed or was cancelled"), HasSubstr("no job has the id \"gone-7\"")));
}

TEST_F(JobsTest, AJobWaitsWhileItsTenantsDeviceBudgetIsUsedUpAlsoAfterAKill) {
  const std::string file = std::string(kSaves) + "tenant: research\n";
  const std::string first = world->Submit(file);
  const std::string second = world->Submit(file);
  world->Settle();
  ASSERT_EQ(world->State(first), "running");
  const std::vector<gateway::control::HeldDevices> held = world->workloads.Held(world->now);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].job, first);
  EXPECT_EQ(held[0].tenant, "acme/research");
  EXPECT_EQ(held[0].kind, "h100");
  EXPECT_EQ(held[0].milli, 8000);
  world->used_up["acme/research"] = "acme: device_budget_per_day is 2 device-hours, 2 used";
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(first), "running") << "what runs goes on";
  EXPECT_EQ(world->Submit(file), "") << "and no other is taken";
  ASSERT_TRUE(world->Ask(world->jobs->Cancel(first, "ada")).ok());
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(second), "pending");
  EXPECT_THAT(world->jobs->Explain((*world)[second]),
              Contains(HasSubstr("It is not placed: acme: device_budget")));
  const auto used_up = world->used_up;
  Restart();
  world->used_up = used_up;
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(second), "pending");
  world->used_up.clear();
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(second), "running");
}

TEST_F(JobsTest, AGangWithALateMemberIsStoppedAsAWhole) {
  launcher.comes_up = false;
  const std::string id = world->Submit(std::string(kGang) + "restarts: 0\nstart_timeout: 30s\n");
  world->Settle();
  for (uint32_t rank = 0; rank < 3; ++rank) launcher.runs.at(Run(id, 1, rank)).state = RunState::kRunning;
  world->Pass(seconds(29));
  EXPECT_EQ(world->State(id), "starting");
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(id), "failed");
  EXPECT_THAT((*world)[id].why, HasSubstr("member 3 did not start within 30s"));
  EXPECT_EQ(launcher.Running(), 0u);
}

TEST_F(JobsTest, AJobThatCanNeverStartFailsWithTheReason) {
  launcher.refuse = absl::InvalidArgumentError("there is no program \"train\"");
  const std::string id = world->Submit(std::string(kGang));
  world->Settle();
  EXPECT_EQ(world->State(id),
            "stopping");  // nobody knows that nothing runs of it, until the launcher says so
  world->Pass(seconds(4));
  EXPECT_EQ(world->State(id), "failed");
  EXPECT_THAT((*world)[id].why, HasSubstr("there is no program"));
}

TEST_F(JobsTest, APreemptedGangSavesMakesRoomAndResumes) {
  const std::string id = world->Submit(std::string(kSaves));
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  world->SubmitReplica("r-1", 2);
  world->Settle();
  EXPECT_THAT(world->actions, Contains("preempt gang-1"));
  EXPECT_THAT(world->actions, Contains("start r-1"));
  EXPECT_THAT(world->records, IsSupersetOf({"job.preempt gang-1", "job.ended gang-1"}));
  EXPECT_THAT(launcher.told, Contains("signal 10 " + Run(id, 1, 3)));
  EXPECT_EQ(world->State(id), "pending");
  EXPECT_EQ(launcher.Running(), 0u);
  EXPECT_THAT(fmt::format("{}", fmt::join(world->jobs->Explain((*world)[id]), " ")), HasSubstr("h100"));

  world->planner().Ended(world->planner().jobs().Find("r-1"), world->now);
  world->Changed();
  world->Settle();
  EXPECT_EQ(world->State(id), "running");
  EXPECT_THAT(launcher.specs.at(Run(id, 2, 0)).command, ElementsAre("train", "--resume"));
  EXPECT_EQ(launcher.Env(Run(id, 2, 0), "TIDEGATE_RESUMES"), "1");
  EXPECT_NE(launcher.Env(Run(id, 2, 0), "MASTER_PORT"), launcher.Env(Run(id, 1, 0), "MASTER_PORT"));
}

TEST_F(JobsTest, AJobThatSucceedsBeforeThePreemptionSignalIsNotRestarted) {
  const std::string id = world->Submit("name: gang\ncommand: [work]\ndevices: [{kind: h100, count: 8}]\n");
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  store.refuses = absl::ResourceExhaustedError("the disk is full");
  world->SubmitReplica("r-1", 2);
  world->Settle();
  ASSERT_EQ(world->State(id), "stopping");
  EXPECT_THAT(launcher.told, testing::IsEmpty()) << "the store does not have it";
  launcher.End(Run(id, 1, 0), 0);
  world->Settle();
  store.refuses = absl::OkStatus();
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(id), "done");
  EXPECT_EQ(launcher.starts.size(), 1u);
}

TEST_F(JobsTest, AMemberThatIgnoresTheSaveSignalIsKilledAfterItsGrace) {
  launcher.saves_and_ends = false;
  const std::string id = world->Submit(std::string(kSaves));
  world->Settle();
  world->SubmitReplica("r-1", 2);
  world->Settle();
  EXPECT_EQ(world->State(id), "saving");
  world->Pass(seconds(59));
  EXPECT_EQ(world->State(id), "saving");
  EXPECT_EQ(launcher.Running(), 4u);
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(id), "pending");
  EXPECT_THAT(world->actions, Contains("start r-1"));
}

TEST_F(JobsTest, TheSaveSignalIsSentLaterWhereTheLeadCouldNotBeConfirmed) {
  launcher.saves_and_ends = false;
  const std::string id = world->Submit(std::string(kSaves));
  world->Settle();
  world->confirmed = absl::UnavailableError("the store does not answer");
  world->SubmitReplica("r-1", 2);
  world->Settle();
  ASSERT_EQ(world->State(id), "saving");
  EXPECT_THAT(launcher.told, testing::IsEmpty());
  world->confirmed = absl::OkStatus();
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(id), "saving");
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_THAT(launcher.told, Contains("signal 10 " + Run(id, 1, rank)));
}

TEST_F(JobsTest, TheSaveSignalIsSentAgainWhereTheLauncherCouldNotBeReached) {
  const std::string id = world->Submit(std::string(kSaves));
  world->Settle();
  launcher.signals = absl::UnavailableError("slurmrestd does not answer");
  world->SubmitReplica("r-1", 2);
  world->Settle();
  ASSERT_EQ(world->State(id), "saving");
  EXPECT_EQ(launcher.Running(), 4u);
  launcher.signals = absl::OkStatus();
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(id), "pending") << "each member was told, and has saved";
  EXPECT_EQ(launcher.Running(), 0u);
  EXPECT_THAT(launcher.told, testing::Each(HasSubstr("signal 10"))) << "no member had to be stopped";
}

TEST_F(JobsTest, RunsAreForgottenLaterWhereTheLeadCouldNotBeConfirmed) {
  const std::string id = world->Submit(std::string(kGang));
  world->Settle();
  for (uint32_t rank = 0; rank < 4; ++rank) launcher.End(Run(id, 1, rank), 0);
  world->Settle();
  ASSERT_EQ(world->State(id), "done");
  ASSERT_EQ(launcher.runs.size(), 4u);
  world->workloads.Drop(*world->workloads.Find(id));
  world->confirmed = absl::UnavailableError("the store does not answer");
  world->Settle();
  EXPECT_EQ(launcher.runs.size(), 4u);
  world->confirmed = absl::OkStatus();
  world->Pass(seconds(2));
  EXPECT_TRUE(launcher.runs.empty());
}

TEST_F(JobsTest, AGangThatMakesRoomDoesNotWaitForAMemberOnANodeThatFellSilent) {
  const std::string id = world->Submit(std::string(kSaves));
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  launcher.unreachable = Run(id, 1, 3);
  world->SubmitReplica("r-1", 2);
  world->Settle();
  world->Pass(seconds(3));
  EXPECT_EQ(world->State(id), "saving") << "the other members have saved; this one may yet";
  EXPECT_THAT(world->workloads.LateNodes(), ElementsAre("local"));

  world->silent = "local";
  world->Settle();
  EXPECT_EQ(world->State(id), "stopping");
  world->Pass(seconds(3));
  EXPECT_EQ(world->State(id), "pending");
  EXPECT_THAT(world->actions, Contains("start r-1"));
  EXPECT_THAT((*world)[id].members[3].why, HasSubstr("local does not answer"));
}

TEST_F(JobsTest, ASaveThatIsDoneIsSeenByItsFile) {
  launcher.saves_and_ends = false;
  world->now = conf::TimePoint(std::chrono::system_clock::now().time_since_epoch()) - minutes(5);
  const std::string saved = dir / "saved";
  const std::string id = world->Submit(
      "name: gang\ncommand: [train]\nmembers: 4\ndevices: [{kind: h100, count: 2}]\n"
      "checkpoint: {grace: 10m, interval: 30m, saved: " +
      saved + "}\n");
  world->Settle();
  world->SubmitReplica("r-1", 2);
  world->Settle();
  world->Pass(seconds(5));
  ASSERT_EQ(world->State(id), "saving");
  std::ofstream(saved) << "step 7";
  world->Pass(seconds(5));
  EXPECT_EQ(world->State(id), "pending");
  EXPECT_TRUE((*world)[id].resumes);
}

TEST_F(JobsTest, AnElasticGangShrinksForAReplicaAndGrowsBack) {
  const std::string id = world->Submit(std::string(kElastic));
  world->Settle();
  ASSERT_EQ((*world)[id].members.size(), 4u);
  world->SubmitReplica("r-1", 2);
  world->Settle();
  EXPECT_THAT(world->actions, Contains("shrink gang-1"));
  EXPECT_THAT(world->actions, Contains("start r-1"));
  EXPECT_EQ(world->State(id), "running");
  EXPECT_EQ((*world)[id].members.size(), 3u);
  EXPECT_EQ(launcher.Env(Run(id, 2, 2), "WORLD_SIZE"), "3");
  EXPECT_EQ(launcher.Env(Run(id, 2, 2), "RANK"), "2");
  EXPECT_THAT(world->records, Contains("job.resize gang-1"));

  world->planner().Ended(world->planner().jobs().Find("r-1"), world->now);
  world->Changed();
  world->Settle();
  EXPECT_EQ((*world)[id].members.size(), 4u);
  EXPECT_EQ(world->State(id), "running");
  EXPECT_EQ(launcher.Running(), 4u);
}

TEST_F(JobsTest, IsCancelledInEveryState) {
  const std::string running = world->Submit(std::string(kSaves));
  world->Settle();
  const std::string waits = world->Submit(std::string(kSaves));
  world->Settle();
  ASSERT_EQ(world->State(waits), "pending");
  EXPECT_TRUE(world->Ask(world->jobs->Cancel(waits, "ada")).ok());
  EXPECT_EQ(world->State(waits), "cancelled");
  EXPECT_TRUE(world->Ask(world->jobs->Cancel(running, "ada")).ok());
  world->Settle();
  EXPECT_EQ(world->State(running), "cancelled");
  EXPECT_EQ(launcher.Running(), 0u);
  EXPECT_THAT(launcher.told, testing::Not(Contains(HasSubstr("signal"))));
  EXPECT_TRUE(absl::IsFailedPrecondition(world->Ask(world->jobs->Cancel(running, "ada"))));
  EXPECT_TRUE(absl::IsNotFound(world->Ask(world->jobs->Cancel("gang-9", "ada"))));
  EXPECT_THAT(world->records, IsSupersetOf({"job.cancel gang-1", "job.cancel gang-2"}));
}

TEST_F(JobsTest, IsSuspendedAndResumed) {
  const std::string id = world->Submit(std::string(kSaves));
  world->Settle();
  EXPECT_TRUE(world->Ask(world->jobs->Suspend(id, "ada")).ok());
  world->Settle();
  EXPECT_EQ(world->State(id), "suspended");
  EXPECT_EQ(launcher.Running(), 0u);
  EXPECT_TRUE(absl::IsFailedPrecondition(world->Ask(world->jobs->Suspend(id, "ada"))));
  Restart();
  world->Settle();
  EXPECT_EQ(world->State(id), "suspended");
  EXPECT_TRUE(world->Ask(world->jobs->Resume(id, "ada")).ok());
  world->Settle();
  EXPECT_EQ(world->State(id), "running");
  EXPECT_TRUE((*world)[id].resumes);
}

TEST_F(JobsTest, SavedWorkShortensTheNextEstimate) {
  const std::string id = world->Submit(std::string(kSaves) + "estimate: 4h\nrestarts: 3\n");
  world->Settle();
  const auto left = [&] {
    scheduler::Planner& planner = world->planner();
    return planner.jobs().ExpectedRun(planner.jobs().Find(id), minutes(1));
  };
  EXPECT_EQ(left(), minutes(240));
  world->Pass(minutes(40));
  world->Pass(minutes(20));  // it saves every half hour
  launcher.End(Run(id, 1, 2), 1);
  world->Settle();
  world->Pass(seconds(5));
  ASSERT_EQ(world->State(id), "running");
  ASSERT_EQ((*world)[id].attempt, 2u);
  EXPECT_EQ(left(), minutes(200)) << "40 minutes are saved";
  EXPECT_THAT(world->jobs->Explain((*world)[id]),
              Contains("Its checkpoint holds 40m of its estimated run time of 4h."));
  world->Pass(minutes(10));
  ASSERT_TRUE(world->Ask(world->jobs->Suspend(id, "ada")).ok());
  world->Settle();
  ASSERT_EQ(world->State(id), "suspended");
  Restart();
  world->Settle();
  EXPECT_THAT(world->jobs->Explain((*world)[id]),
              Contains("Its checkpoint holds 50m of its estimated run time of 4h."));
  ASSERT_TRUE(world->Ask(world->jobs->Resume(id, "ada")).ok());
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  EXPECT_EQ(left(), minutes(190));
}

TEST_F(JobsTest, AJobWithoutCheckpointRestartsFromTheBeginning) {
  const std::string id = world->Submit(std::string(kGang) + "estimate: 4h\n");
  world->Settle();
  world->Pass(minutes(60));
  launcher.End(Run(id, 1, 2), 1);
  world->Settle();
  world->Pass(seconds(5));
  ASSERT_EQ((*world)[id].attempt, 2u);
  EXPECT_EQ((*world)[id].done, conf::Duration::zero());
  EXPECT_THAT(world->jobs->Explain((*world)[id]), testing::SizeIs(1));
}

TEST_F(JobsTest, AnIdleNotebookIsSuspended) {
  world->now = conf::TimePoint(std::chrono::system_clock::now().time_since_epoch());
  const std::string activity = dir / "activity";
  std::ofstream(activity) << "x";
  const std::string id = world->Submit(
      "name: nb\nwork: notebook\ncommand: [jupyter]\ndevices: [{count: 1}]\n"
      "notebook: {idle_timeout: 10m, activity: " +
      activity + "}\n");
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  world->Pass(minutes(5));
  EXPECT_EQ(world->State(id), "running");
  world->Pass(minutes(6));
  EXPECT_EQ(world->State(id), "suspended");
  EXPECT_TRUE(world->Ask(world->jobs->Resume(id, "ada")).ok());
  world->Settle();
  EXPECT_EQ(world->State(id), "running");
}

TEST_F(JobsTest, AUsedNotebookContinuesAndSavesByItsFile) {
  launcher.saves_and_ends = false;
  world->now = conf::TimePoint(std::chrono::system_clock::now().time_since_epoch()) - minutes(20);
  const std::string id = world->Submit(fmt::format(
      "name: nb\nwork: notebook\ncommand: [jupyter]\ndevices: [{{count: 1}}]\n"
      "notebook: {{idle_timeout: 10m, activity: {0}}}\ncheckpoint: {{interval: 1h, grace: 1h, saved: {1}}}\n",
      dir / "used", dir / "saved"));
  world->Settle();
  world->Pass(minutes(9));
  std::ofstream(dir / "used") << "x";
  std::filesystem::last_write_time(
      dir / "used", std::filesystem::file_time_type::clock::now() - minutes(12));  // at 8m of its run
  world->Pass(minutes(2));
  ASSERT_EQ(world->State(id), "running");
  world->Pass(minutes(8));
  ASSERT_EQ(world->State(id), "saving") << "nobody has used it since";
  world->Pass(minutes(2));
  ASSERT_EQ(world->State(id), "saving");
  std::ofstream(dir / "saved") << "x";
  world->Pass(seconds(5));
  EXPECT_EQ(world->State(id), "suspended");
  EXPECT_TRUE((*world)[id].resumes);
}

TEST_F(JobsTest, RunningJobsAreAdoptedAfterAKillWithoutDuplicates) {
  const std::string id = world->Submit(std::string(kGang));
  world->Settle();
  const std::string waits = world->Submit(std::string(kSaves));
  world->Settle();
  Restart();
  world->Settle();
  EXPECT_EQ(world->State(id), "running");
  EXPECT_EQ(world->State(waits), "pending");
  EXPECT_EQ(launcher.Running(), 4u);
  for (const auto& [run, starts] : launcher.starts) EXPECT_EQ(starts, 1) << run;
  EXPECT_TRUE(launcher.told.empty());
  // Its devices are taken: who comes now gets them when it has made room.
  world->SubmitReplica("r-1", 6);
  world->Settle();
  EXPECT_THAT(world->actions, ElementsAre("preempt gang-1", "start r-1"));
  EXPECT_EQ(launcher.Running(), 0u);
}

TEST_F(JobsTest, AKillDuringAStartStartsNoMemberTwice) {
  launcher.comes_up = false;
  const std::string id = world->Submit(std::string(kGang));
  world->Settle();
  ASSERT_EQ(world->State(id), "starting");
  launcher.runs.erase(Run(id, 1, 3));  // it had not come to that one
  launcher.starts.erase(Run(id, 1, 3));
  launcher.comes_up = true;
  Restart();
  for (auto& [run, status] : launcher.runs) status.state = RunState::kRunning;
  world->Settle();
  EXPECT_EQ(world->State(id), "running");
  EXPECT_EQ(launcher.Running(), 4u);
  for (const auto& [run, starts] : launcher.starts) EXPECT_EQ(starts, 1) << run;
}

TEST_F(JobsTest, AKillInTheMiddleOfAPreemptionLeavesItToBeFinished) {
  launcher.saves_and_ends = false;
  const std::string id = world->Submit(std::string(kSaves));
  world->Settle();
  world->SubmitReplica("r-1", 2);
  world->Settle();
  ASSERT_EQ(world->State(id), "saving");
  for (uint32_t rank = 0; rank < 4; ++rank) launcher.End(Run(id, 1, rank), 0);
  Restart();
  world->Settle();
  // The replica is not asked for here: the gang goes on from what it saved.
  EXPECT_EQ(world->State(id), "running");
  EXPECT_EQ((*world)[id].attempt, 2u);
  EXPECT_TRUE((*world)[id].resumes);
}

TEST_F(JobsTest, AJobThatEndedWithoutAGatewayIsSettled) {
  const std::string id = world->Submit(std::string(kGang));
  world->Settle();
  for (uint32_t rank = 0; rank < 4; ++rank) launcher.End(Run(id, 1, rank), 0);
  Restart();
  world->Settle();
  EXPECT_EQ(world->State(id), "done");
}

TEST_F(JobsTest, AnUnknownRunIsReported) {
  launcher.runs["j-lost-1-1-0"] = {.id = "j-lost-1-1-0", .state = RunState::kRunning};
  launcher.runs["r-model-1"] = {.id = "r-model-1", .state = RunState::kRunning};
  world->Submit(std::string(kGang));
  world->Settle();
  ASSERT_EQ(launcher.runs.size(), 6u);
  std::vector<std::string> unknown;
  world->reconciler.on_unknown = [&](const RunStatus& run) { unknown.push_back(run.id); };
  world->reconciler.Compare(launcher.Now(), world->now);
  EXPECT_THAT(unknown, ElementsAre("j-lost-1-1-0", "r-model-1"));
}

TEST_F(JobsTest, ArrayElementsGetTheirIndexAndRunWithinTheLimit) {
  const std::string id = world->Submit(
      "name: sweep\nwork: batch\ncommand: [x]\ndevices: [{kind: h100, count: 1}]\narray: {count: 5, "
      "max_running: 2}\n");
  EXPECT_EQ(id, "sweep-1.0");
  world->Settle();
  EXPECT_EQ(launcher.Running(), 2u);
  EXPECT_EQ(launcher.Env("j-sweep-1.1-1-0", "TIDEGATE_ARRAY_INDEX"), "1");
  EXPECT_EQ(launcher.Env("j-sweep-1.1-1-0", "TIDEGATE_ARRAY_COUNT"), "5");
  for (int round = 0; round < 5; ++round) {
    for (auto& [run, status] : launcher.runs) launcher.End(run, 0);
    world->Settle();
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(world->State(fmt::format("sweep-1.{}", i)), "done");
}

TEST_F(JobsTest, EveryWaitingElementOfAnArraySaysTheSameReasonAsItsExplanation) {
  world->Submit(
      "name: wide\nwork: batch\ncommand: [x]\ndevices: [{kind: h100, count: 4}]\narray: {count: 6}\n");
  world->Submit("name: sweep\nwork: batch\ncommand: [x]\narray: {count: 5, max_running: 2}\n");
  world->Settle();
  for (const auto& [array, elements] : {std::pair("wide-1", 6), std::pair("sweep-2", 5)}) {
    std::string reason;
    for (int i = 2; i < elements; ++i) {
      const std::string id = fmt::format("{}.{}", array, i);
      EXPECT_EQ(world->State(id), "pending");
      const Workload& job = (*world)[id];
      EXPECT_NE(job.unplaced, "") << id;
      if (i > 2) EXPECT_EQ(job.unplaced, reason) << id;
      reason = job.unplaced;
      EXPECT_THAT(world->jobs->Explain(job), Contains(testing::HasSubstr(reason))) << id;
      EXPECT_THAT(world->jobs->Explain(job), testing::Not(Contains(testing::HasSubstr("can start")))) << id;
    }
  }
  EXPECT_EQ((*world)["sweep-2.4"].unplaced, "2 elements of its array run, which is the most allowed");
}

TEST_F(JobsTest, RefusesImpossibleJobsWithASuggestion) {
  const auto problem = [&](const std::string& text) {
    const std::vector<std::string> all = world->Problems("name: big\ncommand: [x]\n" + text);
    return all.empty() ? std::string("(accepted)") : all.front();
  };
  EXPECT_EQ(
      problem("devices: [{kind: h100, count: 16}]\n"),
      "job.yaml:/devices (line 3): no node of the cluster holds a member with 16 h100; ask for at most 8 a "
      "member, or spread them over more members");
  EXPECT_THAT(problem("members: 3\ndevices: [{kind: h100, count: 4}]\n"),
              testing::HasSubstr("job.yaml:/members (line 3): 3 members with 4 h100 each do not fit in the "
                                 "cluster, even if nothing else ran; at most 2 do"));
  EXPECT_THAT(problem("cpu: 100\n"), testing::HasSubstr("ask for less cpu"));
  EXPECT_THAT(problem("memory: 2TiB\n"), testing::HasSubstr("ask for less memory"));
  EXPECT_EQ(
      problem("devices: [{kind: h100, count: 4}]\nmembers: {min: 1, max: 4}\ncheckpoint: {interval: 1h}\n"),
      "(accepted)")
      << "it runs with fewer, too";
  EXPECT_EQ(problem("devices: [{kind: h100, count: 8}]\narray: {count: 20}\n"), "(accepted)")
      << "its elements need not run at the same time";
}

TEST_F(JobsTest, NumbersAreNotUsedAgain) {
  EXPECT_EQ(world->Submit(std::string(kGang)), "gang-1");
  Restart();
  EXPECT_EQ(world->State("gang-1"), "pending");
  EXPECT_EQ(world->Submit(std::string(kGang)), "gang-2");
  Restart();
  EXPECT_EQ(world->State("gang-2"), "pending");
}

TEST_F(JobsTest, NothingIsDoneThatIsNotInTheStore) {
  const std::string id = world->Submit(std::string(kGang));
  store.refuses = absl::ResourceExhaustedError("the disk is full");
  world->Settle();
  EXPECT_EQ(world->State(id), "starting");
  EXPECT_TRUE(launcher.runs.empty());
  store.refuses = absl::OkStatus();
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(id), "running");
  EXPECT_EQ(std::ranges::count(world->records, "job.start gang-1"), 1) << "the ledger had it already";
}

TEST_F(JobsTest, ADeposedLeaderRecordsNeitherASubmissionNorACancellation) {
  const conf::TimePoint now = world->now;
  world.reset();
  world = std::make_unique<JobsWorld>(store, launcher, now, gateway::config::ModelPolicy(), true);
  const std::string id = world->Submit(std::string(kGang));
  EXPECT_EQ(store.Count("ledger_event"), 1u) << "written with the job";
  EXPECT_EQ(world->State(id), "pending");
  store.refuses = absl::PermissionDeniedError("another gateway leads");
  EXPECT_FALSE(world->TrySubmit(std::string(kGang)).ok());
  EXPECT_FALSE(world->Ask(world->jobs->Cancel(id, "ada")).ok());
  EXPECT_EQ(store.Count("ledger_event"), 1u);
  EXPECT_THAT(world->records, testing::IsEmpty());
}

TEST_F(JobsTest, ASharedStoreHasEachEventWithItsChangeAndOnce) {
  const conf::TimePoint now = world->now;
  world.reset();
  world = std::make_unique<JobsWorld>(store, launcher, now, gateway::config::ModelPolicy(), true);
  store.refuses = absl::UnavailableError("it is away");
  EXPECT_FALSE(world->TrySubmit(std::string(kGang)).ok());
  store.refuses = absl::OkStatus();
  const std::string id = world->Submit(std::string(kGang));
  EXPECT_EQ(store.Count("ledger_event"), 1u) << "the one that was refused left none";
  EXPECT_TRUE(world->Ask(world->jobs->Suspend(id, "ada")).ok());
  EXPECT_TRUE(world->Ask(world->jobs->Resume(id, "ada")).ok());
  store.loses_answer = true;
  EXPECT_FALSE(world->Ask(world->jobs->Cancel(id, "ada")).ok());
  store.loses_answer = false;
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(id), "cancelled");
  EXPECT_EQ(store.Count("ledger_event"), 4u);
}

TEST_F(JobsTest, AWriteWithALostAnswerIsRecovered) {
  const std::string id = world->Submit(std::string(kGang));
  store.loses_answer = true;
  world->Settle();
  EXPECT_TRUE(launcher.runs.empty()) << "nobody knows whether it is written";
  store.loses_answer = false;
  world->Pass(seconds(2));
  EXPECT_EQ(world->State(id), "running");
}

TEST_F(JobsTest, ASubmissionThatCannotBeWrittenLeavesNothing) {
  store.refuses = absl::ResourceExhaustedError("the disk is full");
  EXPECT_FALSE(world->TrySubmit(std::string(kGang)).ok());
  store.refuses = absl::OkStatus();
  EXPECT_EQ(world->Submit(std::string(kGang)), "gang-2");
  EXPECT_EQ(store.Count("workload"), 1u);
  EXPECT_EQ(world->jobs->all().size(), 1u);
}

TEST_F(JobsTest, DevicesAreChargedFromTheFirstStartToTheLastEndHoweverLateThatIsSeen) {
  const std::string id = world->Submit(std::string(kGang));
  const conf::TimePoint begin = world->now;
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  for (auto& [run, status] : launcher.runs) status.started = begin + seconds(1);
  world->Pass(seconds(10));
  ASSERT_EQ(world->workloads.Held(begin).size(), 1u);
  EXPECT_EQ(world->workloads.Held(begin)[0].since, begin + seconds(1));
  EXPECT_EQ(world->workloads.Held(begin)[0].milli, 4000);
  EXPECT_FALSE(world->workloads.Held(begin)[0].until);
  // All end while no gateway runs, and the next one comes an hour later.
  for (uint32_t rank = 0; rank < 4; ++rank) {
    launcher.End(Run(id, 1, rank), 0);
    launcher.runs[Run(id, 1, rank)].ended = begin + seconds(20 + rank);
  }
  Restart();
  world->now += std::chrono::hours(1);
  world->reconciler.Compare(launcher.Now(), world->now);
  ASSERT_EQ(world->workloads.Held(begin).size(), 1u);
  EXPECT_EQ(world->workloads.Held(begin)[0].since, begin + seconds(1));
  EXPECT_EQ(world->workloads.Held(begin)[0].until, begin + seconds(23));
  world->Settle();
  EXPECT_EQ(world->State(id), "done");
}

TEST_F(JobsTest, ARunWithoutARecordKeepsItsDevicesUntilItHasEnded) {
  launcher.runs["j-lost-1-1-0"] = {
      .id = "j-lost-1-1-0",
      .state = RunState::kRunning,
      .grant = {.node = "local", .kind = "h100", .devices = {0, 1, 2, 3, 4, 5, 6, 7}},
      .orphan = true};
  launcher.unreachable = "j-lost-1-1-0";
  gateway::control::Orphans orphans(world->context, world->workloads);
  world->workloads.Use(gateway::control::Kind::kOrphan, orphans);
  world->reconciler.on_unknown = [&](const RunStatus& run) { orphans.Found(run, true); };
  world->reconciler.TakeOver({}, launcher.Now());
  const std::string id = world->Submit(std::string(kGang));
  world->Settle();
  EXPECT_THAT(launcher.told, ElementsAre("stop j-lost-1-1-0"));
  EXPECT_THAT(world->records, Contains("job.stop j-lost-1-1-0"));
  EXPECT_EQ(world->State(id), "pending") << "all devices are taken";
  launcher.unreachable.clear();
  launcher.End("j-lost-1-1-0", std::nullopt, 15);
  world->Settle();
  EXPECT_FALSE(launcher.runs.contains("j-lost-1-1-0"));
  EXPECT_EQ(world->State(id), "running");
}

class ReplicasTest : public JobsTest {
 protected:
  ReplicasTest() {
    world->policy = Policy();
    launcher.port = 8000;
  }
  static gateway::config::ModelPolicy Policy() {
    gateway::config::ModelPolicy policy;
    policy.scaling.model = "m";
    policy.placement.devices = {{{.kinds = {"h100"}, .count = 8}}};
    policy.replica.emplace();
    policy.replica->command = {"serve"};
    return policy;
  }
  void Settle() {
    for (int i = 0; i < 6; ++i) {
      world->replicas.Tick();
      world->Settle();
      world->replicas.Publish();
    }
  }
  Workload* Find(const std::string& id) { return world->workloads.Find(id); }
};

TEST_F(ReplicasTest, WhenItDiesItEndsAndTheReasonIsReported) {
  const std::string id = world->replicas.Add("m", "one is wanted").id;
  Settle();
  ASSERT_EQ(launcher.Running(), 1u);
  EXPECT_EQ(launcher.Env(id, "MASTER_ADDR"), "(not set)") << "it is alone";
  world->workloads.Enter(*Find(id), gateway::control::State::kRunning, "it answers");
  Settle();
  launcher.End(id, 3);
  Settle();
  EXPECT_EQ(Find(id), nullptr);
  EXPECT_TRUE(launcher.runs.empty());
  EXPECT_THAT(world->failures, ElementsAre(HasSubstr("it exited with 3")));
  EXPECT_EQ(store.Count("workload"), 0u);
  world->replicas.Add("m", "one is wanted");
  Settle();
  EXPECT_EQ(launcher.Running(), 1u) << "its devices are free again";
}

TEST_F(ReplicasTest, ARestartAdoptsAllMembersAndChecksReadinessAgain) {
  const std::string id = world->replicas.Add("m", "one is wanted").id;
  Settle();
  Restart();
  Settle();
  ASSERT_NE(Find(id), nullptr);
  EXPECT_TRUE(Find(id)->adopted);
  EXPECT_EQ(Find(id)->state, gateway::control::State::kStarting);
  EXPECT_THAT(world->records, ElementsAre("replica.adopt " + id));
  for (const auto& [run, starts] : launcher.starts) EXPECT_EQ(starts, 1) << run;
}

TEST_F(ReplicasTest, AReplicaOfWhichNothingRunsAfterARestartIsForgotten) {
  const std::string id = world->replicas.Add("m", "one is wanted").id;
  Settle();
  launcher.runs.clear();
  Restart();
  Settle();
  EXPECT_EQ(Find(id), nullptr);
}

TEST_F(ReplicasTest, RunsHaveNamesThatLaunchersTakeAndNoneTwice) {
  std::set<std::string> runs;
  for (int i = 0; i < 100; ++i) runs.insert(world->replicas.Add("Org/Model_7B", "why").id);
  EXPECT_EQ(runs.size(), 100u);
  runs.insert(world->replicas.Add(std::string(200, 'x'), "why").id + "-255");
  for (const std::string& run : runs) {
    EXPECT_LE(run.size(), 63u);
    EXPECT_EQ(run.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-"), std::string::npos) << run;
    EXPECT_TRUE(gateway::control::IsReplicaRun(run));
  }
}

TEST_F(ReplicasTest, ReplicasThatStopAreNoneForTheAutoscaler) {
  using gateway::control::State;
  using scheduler::autoscale::ReplicaPhase;
  const uint32_t waiting = world->replicas.Add("m", "").number;
  Workload& coming = world->replicas.Add("m", "");
  world->workloads.Enter(coming, State::kStarting, "");
  world->workloads.Enter(world->replicas.Add("m", ""), State::kRunning, "");
  world->workloads.Enter(world->replicas.Add("m", ""), State::kDraining, "");
  world->replicas.Add("other", "");
  const auto views = world->replicas.Views("m");
  ASSERT_EQ(views.size(), 3u);
  EXPECT_EQ(views[0].id, waiting);
  EXPECT_EQ(views[0].phase, ReplicaPhase::kUnplaced);
  EXPECT_EQ(views[1].phase, ReplicaPhase::kPending);
  EXPECT_EQ(views[2].phase, ReplicaPhase::kReady);
}

TEST_F(ReplicasTest, AReplicaPushesAsideOnlyTheWorkThatItsPolicyNames) {
  const std::string id =
      world->Submit("name: t\ncommand: [x]\npriority: batch\ndevices: [{kind: h100, count: 8}]\n");
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  world->policy.placement.may_preempt = {gateway::config::Victim::kNotebook};
  Workload& replica = world->replicas.Add("m", "one is wanted");
  const std::string waits = replica.id;
  Settle();
  EXPECT_EQ(world->State(id), "running");
  world->replicas.Retire(*Find(waits), "not wanted any more");
  world->policy.placement.may_preempt = {gateway::config::Victim::kTraining};
  world->replicas.Add("m", "one is wanted");
  Settle();
  EXPECT_NE(world->State(id), "running");
}

TEST_F(ReplicasTest, OneForBatchesMakesRoomForAnyJobAndEnds) {
  const std::string id = world->replicas.Add("m", "lines wait", gateway::control::Replicas::For::kBatches).id;
  Settle();
  ASSERT_NE(Find(id), nullptr);
  EXPECT_TRUE(Find(id)->holds());
  const std::string job = world->Submit("name: t\ncommand: [x]\ndevices: [{kind: h100, count: 8}]\n");
  world->Settle();
  Settle();
  EXPECT_EQ(Find(id), nullptr) << "it does not wait to start again";
  EXPECT_EQ(world->State(job), "running");
}

}  // namespace
}  // namespace tests
