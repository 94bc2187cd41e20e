#include "plugins/launchers/slurm/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plugins::launchers::slurm {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr conf::TimePoint kNow{1'000'000s};
const std::map<std::string, std::string> kAddresses = {{"node1", "10.0.0.1"}, {"node2", "10.0.0.2"}};

Job JobOf(uint32_t id, const std::string& name, JobState state, const std::string& owner = "chat") {
  Job job;
  job.id = id;
  job.name = name;
  job.user = "svc";
  job.state = state;
  job.comment = Render(Mark{"s1", owner, "demo", 21'000});
  if (state != JobState::kPending) job.nodes = {"node1"};
  job.submitted = kNow;
  job.started = kNow + 1s;
  if (IsOver(state)) job.ended = kNow + 2s;
  return job;
}

RunSpec SpecOf(const std::string& id) {
  RunSpec spec;
  spec.id = id;
  spec.owner = "chat";
  spec.grant.node = "node1";
  return spec;
}

class SlurmRuns : public testing::Test {
 protected:
  Runs::Outcome Apply(const std::vector<Job>& jobs) {
    return runs_.Apply(jobs, kAddresses, runs_.Stamp(), kNow);
  }
  RunStatus Status(const std::string& id) const {
    const Runs::Run* run = runs_.Find(id);
    return run ? run->status : RunStatus{};
  }
  Runs runs_{{"s1", "svc"}, {21'000, 21'003}};
};

TEST_F(SlurmRuns, AdoptsOurRunningJobs) {
  Job of_other_state = JobOf(2, "b", JobState::kRunning);
  of_other_state.comment = Render(Mark{"s2", "chat", "demo", 1});
  Job of_other_user = JobOf(3, "c", JobState::kRunning);
  of_other_user.user = "mallory";  // a comment is easily copied
  EXPECT_THAT(Apply({JobOf(1, "a", JobState::kRunning), of_other_state, of_other_user}).changed,
              ElementsAre("a"));
  ASSERT_EQ(runs_.List().size(), 1u);
  const RunStatus status = runs_.List().front();
  EXPECT_EQ(status.id, "a");
  EXPECT_EQ(status.owner, "chat");
  EXPECT_EQ(status.state, RunState::kRunning);
  EXPECT_EQ(status.host, "10.0.0.1");
  EXPECT_EQ(status.port, 21'000);
  EXPECT_THAT(Apply({JobOf(1, "a", JobState::kRunning)}).changed, IsEmpty());
}

TEST_F(SlurmRuns, OfTwoJobsWithOneNameTheYoungerIsCancelled) {
  const auto outcome = Apply({JobOf(8, "a", JobState::kPending), JobOf(7, "a", JobState::kRunning),
                              JobOf(5, "a", JobState::kFailed)});
  EXPECT_THAT(outcome.kill, ElementsAre(8));
  EXPECT_EQ(runs_.Find("a")->job, 7u);
  EXPECT_EQ(Status("a").state, RunState::kRunning);
}

TEST_F(SlurmRuns, AListAskedForBeforeASubmissionSaysNothingOfIt) {
  const uint64_t before = runs_.Stamp();
  runs_.Ask(SpecOf("a"), "10.0.0.1", 21'000, kNow);
  EXPECT_THAT(runs_.Apply({}, kAddresses, runs_.Stamp(), kNow).changed, IsEmpty());
  runs_.Submitted("a", 7);
  EXPECT_THAT(runs_.Apply({}, kAddresses, before, kNow).changed, IsEmpty());
  EXPECT_EQ(Status("a").state, RunState::kStarting);
  EXPECT_THAT(Apply({}).changed, ElementsAre("a"));
  EXPECT_EQ(Status("a").state, RunState::kEnded);
  EXPECT_EQ(Status("a").why, "Slurm no longer knows job 7");
}

RunResult ResultOf(int exit_code) {
  RunResult result;
  result.beginning = {.child = 1, .child_ticks = 0, .started = kNow - 90s};
  result.end = {.ended = kNow - 30s, .exit_code = exit_code, .signal = {}, .killed = false};
  return result;
}

TEST_F(SlurmRuns, TimesAndDevicesOfARunComeFromSlurmctld) {
  Job job = JobOf(1, "a", JobState::kRunning);
  job.nodes = {"node1"};
  job.gres = {{{.name = "gpu", .type = "h100", .count = 2, .places = {4, 5}}}};
  job.started = kNow - 60s;
  Apply({job});
  EXPECT_EQ(Status("a").started, kNow - 60s);
  EXPECT_EQ(Status("a").ended, std::nullopt);
  EXPECT_EQ(Status("a").witness, Witness::kManager);
  EXPECT_EQ(Status("a").grant.node, "node1");
  EXPECT_EQ(Status("a").grant.kind, "h100");
  EXPECT_THAT(Status("a").grant.devices, ElementsAre(4, 5));
  job.state = JobState::kCompleted;
  job.ended = kNow - 1s;
  job.gres.clear();  // Slurm shows what a job has, not what it had
  Apply({job});
  EXPECT_EQ(Status("a").ended, kNow - 1s);
  EXPECT_THAT(Status("a").grant.devices, ElementsAre(4, 5));
  EXPECT_EQ(Status("a").witness, Witness::kManager);
}

TEST_F(SlurmRuns, ARunsOwnResultGoesBeforeSlurmctldsAndStays) {
  Job job = JobOf(1, "a", JobState::kCompleted);
  job.started = kNow - 95s;
  job.ended = kNow - 25s;
  Apply({job});
  EXPECT_THAT(runs_.WithoutResult(), ElementsAre("a"));
  EXPECT_TRUE(runs_.AddResult("a", {}, ResultOf(0)));
  EXPECT_FALSE(runs_.AddResult("a", {}, ResultOf(0)));
  EXPECT_THAT(runs_.WithoutResult(), IsEmpty());
  EXPECT_THAT(Apply({job}).changed, IsEmpty());
  EXPECT_EQ(Status("a").started, kNow - 90s);
  EXPECT_EQ(Status("a").ended, kNow - 30s);
  EXPECT_EQ(Status("a").witness, Witness::kWrapper);
}

TEST_F(SlurmRuns, ARunThatSlurmctldForgotEndedAsItsResultSays) {
  Apply({JobOf(1, "seen", JobState::kRunning)});
  EXPECT_FALSE(runs_.AddResult("seen", {}, ResultOf(3))) << "it runs, as far as Slurm knows";
  Apply({});
  EXPECT_THAT(Status("seen").why, HasSubstr("no longer knows job 1"));
  EXPECT_TRUE(runs_.AddResult("seen", {}, ResultOf(3)));
  EXPECT_EQ(Status("seen").exit_code, 3);
  EXPECT_EQ(Status("seen").why, "it exited with 3");
  // And one that this gateway never saw.
  EXPECT_TRUE(runs_.AddResult("before", {"s1", "chat", "demo", 0}, ResultOf(0)));
  EXPECT_EQ(Status("before").state, RunState::kEnded);
  EXPECT_EQ(Status("before").owner, "chat");
  EXPECT_EQ(Status("before").exit_code, 0);
  EXPECT_EQ(Status("before").why, "");
  EXPECT_THAT(Apply({}).changed, IsEmpty());
  runs_.Forget("before");
  EXPECT_FALSE(runs_.AddResult("before", {}, ResultOf(0)));
}

TEST_F(SlurmRuns, SlurmsVerdictOverridesTheResultFile) {
  Job job = JobOf(1, "a", JobState::kTimeout);
  Apply({job});
  runs_.AddResult("a", {}, ResultOf(0));
  EXPECT_EQ(Status("a").exit_code, std::nullopt);
  EXPECT_THAT(Status("a").why, HasSubstr("time limit"));
  EXPECT_EQ(Status("a").ended, kNow - 30s);
}

TEST_F(SlurmRuns, ALostSubmissionIsListedOnlyOnceItIsSeen) {
  runs_.Ask(SpecOf("a"), "10.0.0.1", 21'000, kNow);
  runs_.Lost("a");
  EXPECT_THAT(runs_.List(), IsEmpty());
  EXPECT_FALSE(runs_.Moving());
  Apply({});
  EXPECT_TRUE(runs_.Find("a")->lost);
  EXPECT_THAT(Apply({JobOf(7, "a", JobState::kPending)}).changed, ElementsAre("a"));
  EXPECT_EQ(runs_.List().size(), 1u);
}

TEST_F(SlurmRuns, ALostSubmissionWithAStopRequestIsCancelledOnArrival) {
  runs_.Ask(SpecOf("a"), "10.0.0.1", 21'000, kNow);
  runs_.Lost("a");
  runs_.ToldToStop("a", std::nullopt, kNow);
  EXPECT_THAT(Apply({JobOf(7, "a", JobState::kRunning)}).kill, ElementsAre(7));
}

TEST_F(SlurmRuns, IsKilledOnceItsGraceIsOver) {
  Apply({JobOf(7, "a", JobState::kRunning)});
  runs_.ToldToStop("a", kNow + 5s, kNow);
  EXPECT_EQ(Status("a").state, RunState::kStopping);
  EXPECT_THAT(Apply({JobOf(7, "a", JobState::kRunning)}).kill, IsEmpty());
  EXPECT_THAT(runs_.Due(kNow + 4s), IsEmpty());
  EXPECT_THAT(runs_.Due(kNow + 5s), ElementsAre(7));
  runs_.ToldToStop("a", kNow + 60s, kNow);
  EXPECT_THAT(runs_.Due(kNow + 5s), ElementsAre(7)) << "a longer grace takes none back";
  Job ended = JobOf(7, "a", JobState::kCancelled);
  ended.wait_status = 15;
  Apply({ended});
  EXPECT_THAT(runs_.Due(kNow + 5s), IsEmpty());
  EXPECT_EQ(Status("a").signal, 15);
  EXPECT_EQ(Status("a").why, "");
}

TEST_F(SlurmRuns, SaysHowARunEnded) {
  struct Case {
    JobState state;
    std::string reason;
    int wait_status;
    std::optional<int> code;
    std::optional<int> signal;
    std::string why;
  };
  for (const Case& c :
       {Case{JobState::kCompleted, "None", 0, 0, {}, ""},
        Case{JobState::kFailed, "NonZeroExitCode", 768, 3, {}, "job 7 exited with 3"},
        Case{JobState::kFailed, "NonZeroExitCode", 11, {}, 11, "job 7 was ended by signal 11"},
        Case{JobState::kFailed,
             "JobLaunchFailure",
             4021,
             {},
             {},
             "Slurm could not start job 7: JobLaunchFailure"},
        Case{JobState::kTimeout, "TimeLimit", 0, {}, {}, "job 7 ran into its time limit"},
        Case{JobState::kOutOfMemory, "OutOfMemory", 9, {}, {}, "job 7 ran out of memory: it had 0 MiB"},
        Case{JobState::kPreempted, "None", 0, {}, {}, "job 7 was preempted by Slurm"},
        Case{JobState::kNodeFail, "None", 0, {}, {}, "node1 failed under job 7"}}) {
    Runs runs({"s1", "svc"}, {21'000, 21'003});
    Job job = JobOf(7, "a", c.state);
    job.reason = c.reason;
    job.wait_status = c.wait_status;
    runs.Apply({job}, kAddresses, runs.Stamp(), kNow);
    const RunStatus status = runs.Find("a")->status;
    EXPECT_EQ(status.state, RunState::kEnded) << c.why;
    EXPECT_EQ(status.exit_code, c.code) << c.why;
    EXPECT_EQ(status.signal, c.signal) << c.why;
    EXPECT_EQ(status.why, c.why);
    EXPECT_EQ(status.since, kNow + 2s);
  }
}

TEST_F(SlurmRuns, AForgottenRunDoesNotReturnWhileSlurmListsIt) {
  const std::vector<Job> ended = {JobOf(7, "a", JobState::kCompleted)};
  Apply(ended);
  runs_.Forget("a");
  EXPECT_THAT(Apply(ended).changed, IsEmpty());
  EXPECT_THAT(runs_.List(), IsEmpty());
  EXPECT_THAT(Apply(ended).changed, IsEmpty());
}

TEST_F(SlurmRuns, APortBelongsToOneRunOnAnAddress) {
  std::set<uint16_t> ports;
  for (const char* id : {"a", "b", "c", "d"}) {
    const uint16_t port = runs_.PickPort(id, "10.0.0.1");
    EXPECT_EQ(port, runs_.PickPort(id, "10.0.0.1")) << "the same for the same run";
    runs_.Ask(SpecOf(id), "10.0.0.1", port, kNow);
    ports.insert(port);
  }
  EXPECT_THAT(ports, ElementsAre(21'000, 21'001, 21'002, 21'003));
  EXPECT_EQ(runs_.PickPort("e", "10.0.0.1"), 0) << "none is free";
  EXPECT_NE(runs_.PickPort("e", "10.0.0.2"), 0);
}

}  // namespace
}  // namespace plugins::launchers::slurm
