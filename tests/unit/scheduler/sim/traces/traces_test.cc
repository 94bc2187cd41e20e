#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "scheduler/rng.h"
#include "scheduler/sim/traces/openb.h"
#include "scheduler/sim/traces/philly.h"
#include "scheduler/sim/traces/swf.h"

namespace scheduler::sim {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr std::string_view kPhillyHeader = "timestamp,duration,num_gpus,gpu_time,cluster\n";

TEST(Philly, GivesJobsInOrderOfTimeThoughTheFileIsNot) {
  const Trace trace = ReadPhilly(std::string(kPhillyHeader) +
                                     "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
                                     "2017-10-09 06:13:03,2951.5,1,2951.0,6214e9\n",
                                 "philly.csv", 8);
  ASSERT_EQ(trace.jobs.size(), 2u);
  EXPECT_EQ(trace.report.left_out, 0u);
  EXPECT_EQ(trace.jobs[0].line, 3);
  EXPECT_EQ(trace.jobs[0].run, std::chrono::milliseconds(2951500));
  EXPECT_EQ(trace.jobs[0].job.queue, "6214e9");
  EXPECT_EQ(trace.jobs[1].job.submitted - trace.jobs[0].job.submitted, seconds(48 * 60 + 52));
}

TEST(Philly, CutsLargeJobsIntoMembersThatFillANodeAndTheRemainder) {
  struct Case {
    int gpus;
    std::vector<std::pair<uint32_t, uint16_t>> roles;  // members, devices of each
  };
  const Case cases[] = {
      {1, {{1, 1}}}, {8, {{1, 8}}}, {9, {{1, 8}, {1, 1}}}, {24, {{3, 8}}}, {30, {{3, 8}, {1, 6}}}};
  for (const Case& c : cases) {
    const std::string row = "2017-10-09 07:01:55,66.0," + std::to_string(c.gpus) + ",66.0,q\n";
    const Trace trace = ReadPhilly(row, "philly.csv", 8);
    ASSERT_EQ(trace.jobs.size(), 1u);
    std::vector<std::pair<uint32_t, uint16_t>> roles;
    for (const Role& role : trace.jobs[0].job.roles) {
      roles.emplace_back(role.count, role.ask.devices[0].count);
      EXPECT_EQ(role.count, role.min_count);
    }
    EXPECT_EQ(roles, c.roles) << c.gpus;
  }
}

TEST(Philly, NamesEachRowThatIsWrongByFileAndLine) {
  struct Case {
    const char* row;
    const char* why;
  };
  const Case cases[] = {
      {"2017-10-09 07:01:55,66.0,1,66.0", "4 fields"},
      {"2017-10-09T07:01:55,66.0,1,66.0,q", "timestamp"},
      {"2017-13-09 07:01:55,66.0,1,66.0,q", "timestamp"},
      {"2017-10-09 07:01:55,-66.0,1,66.0,q", "duration: must not be negative"},
      {"2017-10-09 07:01:55,nan,1,66.0,q", "duration"},
      {"2017-10-09 07:01:55,1e300,1,66.0,q", "duration"},
      {"2017-10-09 07:01:55,66.0,0,66.0,q", "num_gpus"},
      {"2017-10-09 07:01:55,66.0,-8,66.0,q", "num_gpus"},
      {"2017-10-09 07:01:55,66.0,1.5,66.0,q", "num_gpus"},
      {"2017-10-09 07:01:55,66.0,1,66.0,", "cluster"},
  };
  for (const Case& c : cases) {
    const Trace trace =
        ReadPhilly(std::string(kPhillyHeader) + c.row + "\n2017-10-09 07:01:55,1,1,1,q\n", "philly.csv", 8);
    EXPECT_EQ(trace.jobs.size(), 1u) << c.row;
    EXPECT_EQ(trace.report.lines, 2u);
    EXPECT_EQ(trace.report.left_out, 1u);
    ASSERT_EQ(trace.report.problems.size(), 1u) << c.row;
    EXPECT_EQ(trace.report.problems[0].file, "philly.csv");
    EXPECT_EQ(trace.report.problems[0].line, 2);
    EXPECT_THAT(trace.report.problems[0].message, HasSubstr(c.why));
  }
}

TEST(Philly, CountsAllWrongRowsButKeepsOnlyTheFirst) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "nonsense\n";
  const Trace trace = ReadPhilly(text, "philly.csv", 8);
  EXPECT_EQ(trace.report.left_out, 1000u);
  EXPECT_EQ(trace.report.problems.size(), io::LineReport::kShown);
}

constexpr std::string_view kOpenbHeader =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\n";

TEST(Openb, ReadsSharesWholeDevicesAndKinds) {
  const Trace trace = ReadOpenb(std::string(kOpenbHeader) +
                                    "a,6000,12288,1,460,,LS,Running,100,160,100\n"
                                    "b,12000,16384,2,1000,V100M16|V100M32,BE,Running,50,90,50\n"
                                    "c,8000,30517,0,0,,BE,Running,70,70,70\n",
                                "pods.csv");
  ASSERT_EQ(trace.jobs.size(), 3u);
  EXPECT_EQ(trace.jobs[0].job.id, "b");
  const Ask& whole = trace.jobs[0].job.roles[0].ask;
  EXPECT_EQ(whole.devices[0].count, 2);
  EXPECT_EQ(whole.devices[0].kinds, (std::vector<std::string>{"V100M16", "V100M32"}));
  EXPECT_TRUE(trace.jobs[1].job.roles[0].ask.devices.empty());
  const Ask& share = trace.jobs[2].job.roles[0].ask;
  EXPECT_EQ(share.devices[0].count, 0);
  EXPECT_EQ(share.devices[0].milli, 460);
  EXPECT_EQ(share.cpu_milli, 6000);
  EXPECT_EQ(trace.jobs[2].job.queue, "LS");
  EXPECT_EQ(trace.jobs[2].run, seconds(60));
}

TEST(Openb, ReadsListsWithoutTimesAsPodsThatStay) {
  const Trace trace =
      ReadOpenb("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,12000,16384,1,1000\n", "pods.csv");
  ASSERT_EQ(trace.jobs.size(), 1u);
  EXPECT_EQ(trace.jobs[0].run, std::nullopt);
}

TEST(Openb, FollowsAHeaderWithOtherColumnsInAnotherOrderAndQuotes) {
  const Trace trace = ReadOpenb(
      "\n"
      ",\"gpu_milli\",\"name\",num_gpu,cpu_milli,memory_mib,gpu_spec,deletion_time,creation_time\n"
      "0,\"460\",\"pod,a\",1.0,6000.0,12288,V100M16|V100M32,30,10\n"
      "1,1000,b,2,6000,12288,,30\n",
      "pods.csv");
  ASSERT_EQ(trace.jobs.size(), 1u);
  EXPECT_EQ(trace.jobs[0].job.id, "pod,a");
  EXPECT_EQ(trace.jobs[0].run, std::chrono::seconds(20));
  const Ask& ask = trace.jobs[0].job.roles[0].ask;
  EXPECT_EQ(ask.cpu_milli, 6000);
  EXPECT_EQ(ask.devices[0].milli, 460);
  EXPECT_EQ(ask.devices[0].kinds.size(), 2u);
  ASSERT_EQ(trace.report.left_out, 1u);
  EXPECT_NE(trace.report.problems[0].message.find("8 fields, the header has 9"), std::string::npos);
}

TEST(Openb, AHeaderWithoutTimesMeansPodsThatStay) {
  const Trace trace =
      ReadOpenb("num_gpu,gpu_milli,gpu_spec,name,cpu_milli,memory_mib\n1,1000,T4,a,0,0\n", "pods.csv");
  ASSERT_EQ(trace.jobs.size(), 1u);
  EXPECT_FALSE(trace.jobs[0].run.has_value());
  EXPECT_EQ(trace.jobs[0].job.roles[0].ask.devices[0].kinds[0], "T4");
}

TEST(Philly, FollowsAHeaderInAnotherOrder) {
  const Trace trace = ReadPhilly(
      "cluster,num_gpus,duration,timestamp\n"
      "vc,8,60,2017-10-09 07:01:55\n",
      "philly.csv", 8);
  ASSERT_EQ(trace.jobs.size(), 1u);
  EXPECT_EQ(trace.jobs[0].job.queue, "vc");
  EXPECT_EQ(trace.jobs[0].run, std::chrono::minutes(1));
}

TEST(Openb, LeavesOutInvalidRows) {
  const std::pair<const char*, const char*> cases[] = {
      {"a,6000,12288,1,460,,LS,Running,160,100,100", "out of order"},
      {"a,-6000,12288,1,460,,LS,Running,100,160,100", "cpu_milli"},
      {"a,6000,12288,1,1460,,LS,Running,100,160,100", "gpu_milli"},
      {"a,6000,12288,2,460,,LS,Running,100,160,100", "more than one GPU"},
      {"a,6000,12288,99,1000,,LS,Running,100,160,100", "num_gpu"},
      {"a,6000,12288,1,460,,LS,Running,x,160,100", "creation_time"},
      {"a,6000", "fields"},
  };
  for (const auto& [row, why] : cases) {
    const Trace trace = ReadOpenb(std::string(kOpenbHeader) + row + "\n", "pods.csv");
    ASSERT_EQ(trace.report.problems.size(), 1u) << row;
    EXPECT_THAT(trace.report.problems[0].message, HasSubstr(why));
    EXPECT_TRUE(trace.jobs.empty());
  }
}

constexpr std::string_view kSwf =
    "; UnixStartTime: 1000\n"
    "; a comment\n"
    "  1 0 5 100 16 -1 -1 20 300 -1 1 7 1 1 2 -1 -1 -1\n"
    "  2 60 5 -1 16 -1 -1 20 300 -1 1 7 1 1 2 -1 -1 -1\n"
    "\n"
    "  3 60 5 50 4 -1 -1 -1 -1 -1 1 8 1 1 -1 -1 1 10\n"
    "  4 59 5 50 4 -1 -1 -1 -1 -1 1 8 1 1 -1 -1 -1 -1\n";

TEST(Swf, ReadsSubmissionSizeEstimateAndPredecessor) {
  const Trace trace = ReadSwf(kSwf, "log.swf", 8);
  ASSERT_EQ(trace.jobs.size(), 2u);
  const Job& first = trace.jobs[0].job;
  EXPECT_EQ(first.id, "1");
  EXPECT_EQ(first.submitted, conf::TimePoint(seconds(1000)));
  EXPECT_EQ(first.estimate, seconds(300));
  EXPECT_EQ(first.user, "user-7");
  EXPECT_EQ(first.queue, "queue-2");
  EXPECT_EQ(DeviceMilli(first), 20'000);  // requested, not the 16 allocated
  EXPECT_EQ(trace.jobs[0].run, seconds(100));
  const Job& second = trace.jobs[1].job;
  EXPECT_EQ(second.submitted, conf::TimePoint(seconds(1060)));
  EXPECT_EQ(second.estimate, std::nullopt);
  EXPECT_EQ(second.after, std::vector<std::string>{"1"});
  EXPECT_EQ(DeviceMilli(second), 4'000);
}

TEST(Swf, LeavesOutNegativeRunTimesAndLinesOutOfOrder) {
  const Trace trace = ReadSwf(kSwf, "log.swf", 8);
  EXPECT_EQ(trace.report.lines, 4u);
  ASSERT_EQ(trace.report.problems.size(), 2u);
  EXPECT_EQ(trace.report.problems[0].line, 4);
  EXPECT_THAT(trace.report.problems[0].message, HasSubstr("run time must not be negative"));
  EXPECT_EQ(trace.report.problems[1].line, 7);
  EXPECT_THAT(trace.report.problems[1].message, HasSubstr("out of order"));
}

TEST(Traces, TimesThatNoClockFollowsAreLeftOut) {
  const std::pair<const char*, Trace> kTraces[] = {
      {"runs for more than 3650d", ReadPhilly("2017-10-09 07:01:55,9e9,8,1,c\n", "t", 8)},
      {"after 2100", ReadPhilly("2117-10-09 07:01:55,9,8,1,c\n", "t", 8)},
      {"after 2100", ReadOpenb("a,1,1,1,1000,,LS,Running,5000000000,5000000001,0\n", "t")},
      {"runs for more than 3650d", ReadOpenb("a,1,1,1,1000,,LS,Running,0,400000000,0\n", "t")},
      {"cpu_milli", ReadOpenb("a,9223372036854775807,1,1,1000,,LS,Running,0,1,0\n", "t")},
      {"after 2100", ReadSwf("1 9000000000 5 9 8 -1 -1 8 -1 -1 1 1 1 1 1 1 -1 -1\n", "t", 8)},
      {"are estimated", ReadSwf("1 1 5 9 8 -1 -1 8 9000000000 -1 1 1 1 1 1 1 -1 -1\n", "t", 8)},
  };
  for (const auto& [why, trace] : kTraces) {
    EXPECT_TRUE(trace.jobs.empty()) << why;
    ASSERT_EQ(trace.report.problems.size(), 1u) << why;
    EXPECT_THAT(trace.report.problems[0].message, HasSubstr(why));
  }
}

TEST(Traces, JobsOfOneMomentStayInTheOrderOfTheTrace) {
  Rng rng(3);
  for (const size_t count : {0u, 1u, 2u, 100u}) {
    std::vector<TraceJob> jobs(count);
    std::vector<std::pair<conf::TimePoint, int>> order;
    for (size_t i = 0; i < count; ++i) {
      jobs[i].line = static_cast<int>(i);
      jobs[i].job.submitted = conf::TimePoint(seconds(rng.Uniform(20)));
      order.emplace_back(jobs[i].job.submitted, jobs[i].line);
    }
    SortBySubmission(jobs);
    std::ranges::sort(order);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(jobs[i].line, order[i].second);
  }
}

TEST(Traces, ASkippedRowDoesNotAffectLaterRows) {
  // Were the first kept in mind, the second would be out of order.
  const Trace trace = ReadSwf(
      "1 9000000000 5 9 8 -1 -1 8 -1 -1 1 1 1 1 1 1 -1 -1\n"
      "1 60 5 9 8 -1 -1 8 -1 -1 1 1 1 1 1 1 -1 -1\n",
      "t", 8);
  ASSERT_EQ(trace.jobs.size(), 1u);
  EXPECT_EQ(trace.jobs[0].line, 2);
}

}  // namespace
}  // namespace scheduler::sim
