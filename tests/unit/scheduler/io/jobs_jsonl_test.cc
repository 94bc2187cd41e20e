#include "scheduler/io/jobs_jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/scheduler/io/problems.h"

namespace scheduler::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Line(const std::string& fields) {
  return R"({"id":"a","roles":[{"devices":[{"count":1}]}])" + (fields.empty() ? "" : "," + fields) + "}\n";
}

TimedJob Full() {
  TimedJob full;
  Job& job = full.job;
  job = {.id = "j \"1\" \xc3\xa9",
         .queue = "q",
         .user = "u",
         .tenant = "t",
         .work = WorkClass::kArray,
         .priority = -5,
         .topology = {"leaf", true, std::chrono::minutes(5)},
         .spread = true,
         .anti_affinity = true,
         .preemptible = false,
         .checkpoint = {std::chrono::minutes(30), std::chrono::seconds(20), std::chrono::milliseconds(1500)},
         .submitted = conf::TimePoint(conf::Duration(1'763'625'600'123'456'789)),
         .estimate = conf::Duration(9'007'199'254'740'993),  // not a double
         .limit = std::chrono::hours(5),
         .not_before = conf::TimePoint(std::chrono::seconds(7)),
         .after = {"x", "y"},
         .array = "sweep",
         .max_running = 3,
         .idle_timeout = std::chrono::hours(1),
         .restart_budget = 0};
  Role role{.name = "worker", .count = 4, .min_count = 2};
  role.ask = {.devices = {{.kinds = {"h100", "a100"}, .count = 8, .memory_mib = 1},
                          {.milli = 500},
                          {.profile = "1g"}},
              .cpu_milli = 1,
              .memory_mib = 2,
              .require = {{"zone", {"a", ""}}},
              .avoid = {{"spot", {"yes"}}},
              .prefer = {{"w", {"m"}}},
              .isolation = Isolation::kTenant};
  job.roles = {role, {.name = "head", .count = 1, .min_count = 1}};
  full.run = std::chrono::seconds(59);
  return full;
}

TEST(JobsJsonl, WritesEveryFieldSoThatItReadsBack) {
  std::string text;
  WriteJob(Full(), text);
  const Jobs read = ReadJobs(text, "jobs.jsonl");
  ASSERT_THAT(testing::Texts(read.report.problems), ElementsAre());
  ASSERT_EQ(read.jobs.size(), 1u);
  const Job& job = read.jobs[0].job;
  EXPECT_EQ(job.id, Full().job.id);
  EXPECT_EQ(job.submitted, Full().job.submitted);
  EXPECT_EQ(job.estimate, Full().job.estimate);
  EXPECT_EQ(job.restart_budget, 0u);
  EXPECT_EQ(job.roles[0].min_count, 2u);
  EXPECT_EQ(job.roles[0].ask.require[0].values, (std::vector<std::string>{"a", ""}));
  std::string again;
  WriteJob(read.jobs[0], again);
  EXPECT_EQ(again, text);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
}

TEST(JobsJsonl, ARoleWithoutMinCountIsAGang) {
  const Jobs read = ReadJobs(R"({"id":"a","roles":[{"count":16}]})", "f");
  ASSERT_EQ(read.jobs.size(), 1u);
  EXPECT_EQ(read.jobs[0].job.roles[0].min_count, 16u);
}

TEST(JobsJsonl, ResourcesMayBeAMapAsTheGatewaysJobsHaveThem) {
  const Jobs jobs = ReadJobs(R"({"id": "a", "roles": [{}], "resources": {"matlab": 1, "seat": 2}})"
                             "\n"
                             R"({"id": "b", "roles": [{}], "resources": {"matlab": "one"}})",
                             "jobs.jsonl");
  ASSERT_EQ(jobs.jobs.size(), 1u);
  const std::vector<ResourceAsk>& asks = jobs.jobs[0].job.resources;
  ASSERT_EQ(asks.size(), 2u);
  EXPECT_EQ(asks[0].name, "matlab");
  EXPECT_EQ(asks[1].count, 2u);
  ASSERT_EQ(jobs.report.problems.size(), 1u);
  EXPECT_EQ(jobs.report.problems[0].pointer, "/resources/matlab");
}

TEST(JobsJsonl, TimesMayBeSecondsAsTracesHaveThem) {
  const Jobs read = ReadJobs(Line(R"("submitted":1.5,"run":90,"limit":"2m")"), "f");
  ASSERT_EQ(read.jobs.size(), 1u);
  EXPECT_EQ(read.jobs[0].job.submitted.time_since_epoch(), std::chrono::milliseconds(1500));
  EXPECT_EQ(read.jobs[0].run, std::chrono::seconds(90));
  EXPECT_EQ(read.jobs[0].job.limit, std::chrono::minutes(2));
}

TEST(JobsJsonl, AWrongLineIsNamedCountedAndLeftOut) {
  const std::string text = "# jobs\n" + Line("") + "\n" + "{\"id\":\n" + Line("\"prioriti\":1") + Line("");
  const Jobs read = ReadJobs(text, "jobs.jsonl");
  EXPECT_EQ(read.jobs.size(), 1u);
  EXPECT_EQ(read.report.lines, 4u);
  EXPECT_EQ(read.report.left_out, 3u);
  EXPECT_THAT(testing::Texts(read.report.problems),
              ElementsAre(HasSubstr("jobs.jsonl (line 4): is not JSON: column "),
                          "jobs.jsonl (line 5): unknown key \"prioriti\", did you mean \"priority\"?",
                          "jobs.jsonl (line 6): job \"a\" is given twice, first on line 2"));
}

struct Case {
  const char* fields;
  const char* message;
};

class WrongJob : public ::testing::TestWithParam<Case> {};

TEST_P(WrongJob, IsRefusedWithACorrection) {
  const Jobs read = ReadJobs(GetParam().fields, "f");
  EXPECT_TRUE(read.jobs.empty());
  ASSERT_EQ(read.report.left_out, 1u);
  EXPECT_THAT(testing::Texts(read.report.problems), ElementsAre(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    JobsJsonl, WrongJob,
    ::testing::Values(
        Case{R"({"id":"","roles":[{}]})", "id must not be empty"},
        Case{R"({"roles":[{}]})", "\"id\" is required"}, Case{R"({"id":"a"})", "\"roles\" is required"},
        Case{R"({"id":"a","roles":[]})", "roles must not be empty"},
        Case{R"([1])", "expected an object, found a list"},
        Case{R"({"id":"a","id":"b","roles":[{}]})", "key \"id\" is given twice"},
        Case{R"({"id":"a","roles":[{"count":0}]})", "roles/0: count is 0"},
        Case{R"({"id":"a","roles":[{"count":2,"min_count":3}]})",
             "min_count 3 is not between 1 and count, 2"},
        Case{R"({"id":"a","roles":[{"count":-1}]})",
             "f:/roles/0/count (line 1): expected a whole number between 0"},
        Case{R"({"id":"a","roles":[{"cpu_milli":-1}]})", "cpu_milli -1 is negative"},
        Case{R"({"id":"a","roles":[{"devices":[{"milli":1000}]}]})", "milli 1000 is not below 1000"},
        Case{R"({"id":"a","roles":[{"devices":[{"count":1,"milli":5}]}]})", "more than one of count"},
        Case{R"({"id":"a","roles":[{"devices":[{"count":17}]}]})", "17 devices on one node, at most 16"},
        Case{R"({"id":"a","roles":[{}],"work":"trainig"})",
             "unknown word \"trainig\", did you mean \"training\"?"},
        Case{R"({"id":"a","roles":[{}],"run":-1})", "expected a duration with a unit"},
        Case{R"({"id":"a","roles":[{}],"run":"5"})", "expected a duration with a unit"},
        Case{R"({"id":"a","roles":[{}],"limit":1e300})", "expected a duration with a unit"},
        Case{R"({"id":"a","roles":[{}],"submitted":"yesterday"})", "expected a time such as"},
        Case{R"({"id":"a","roles":[{}],"priority":99999999999999999999})", "expected a whole number"},
        Case{R"({"id":"a","roles":[{}],"run":"3651d"})", "run 3651d is not between 0s and 3650d"},
        Case{R"({"id":"a","roles":[{}],"estimate":9e9})", "estimate 104166d16h is not between 0s and 3650d"},
        Case{R"({"id":"a","roles":[{}],"submitted":-1})", "is not between 1970 and 2100"},
        Case{R"({"id":"a","roles":[{}],"submitted":"2200-01-01"})", "submitted 2200-01-01"},
        Case{R"({"id":"a","roles":[{}],"not_before":"infinite-future"})", "is not between 1970 and 2100"},
        Case{R"({"id":"a","roles":[{}],"checkpoint":{"interval":"1ms"}})", "interval 1ms is shorter than 1s"},
        Case{R"({"id":"a","roles":[{"count":600000},{"count":600000}]})",
             "1200000 members, at most 1000000 fit"},
        Case{R"({"id":"a","roles":[{"cpu_milli":9223372036854775807}]})", "is above 1000000000000"},
        Case{"\xff\xfe{\"id\"", "is not JSON"},
        Case{"{\"id\":\"a\\u001b[31m\",\"id\":\"b\"}", "key \"id\" is given twice"},
        Case{R"({"id":"a","roles":[{}],"after":["a"]})", "after names the job itself"},
        Case{R"({"id":"a","roles":[{}],"topology":{"required":true}})", "required needs a level"},
        Case{R"({"id":"a","roles":[{}],"topology":{"wait":"1h"}})", "wait needs a level"},
        Case{R"({"id":"a","roles":[{}],"topology":{"level":"leaf","wait":"-1h"}})", "topology/wait"}));

TEST(JobsJsonl, DeepNestingAndManyKeysAreRefusedAtOnce) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_THAT(testing::Texts(ReadJobs(deep, "f").report.problems),
              ElementsAre(HasSubstr("is nested more than 64 deep")));
  std::string wide = R"({"id":"a","roles":[{}])";
  for (int i = 0; i < 100'000; ++i) wide += ",\"k" + std::to_string(i) + "\":1";
  EXPECT_EQ(ReadJobs(wide + "}", "f").report.problems.size(), LineReport::kShown);
}

TEST(JobsJsonl, EscapesTextFromALine) {
  const Jobs read =
      ReadJobs("{\"id\":\"a\",\"roles\":[{}],\"work\":\"\xc3\xa9\\u001b[2J\"}\n{\"\x1b[2J", "f");
  ASSERT_EQ(read.report.problems.size(), 2u);
  for (const std::string& text : testing::Texts(read.report.problems)) {
    EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; })) << text;
  }
}

TEST(JobsJsonl, AcceptsAnyLineEndsAndAByteOrderMark) {
  const Jobs read = ReadJobs(
      "\xef\xbb\xbf"
      R"({"id":"a","roles":[{}]})"
      "\r\n\r\n"
      R"({"id":"b","roles":[{}]})",
      "f");
  EXPECT_THAT(testing::Texts(read.report.problems), ElementsAre());
  EXPECT_EQ(read.jobs.size(), 2u);
}

TEST(JobsJsonl, TheShippedExamplesAreAccepted) {
  const auto files = testing::Shipped("jobs", ".jsonl");
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) {
    const Jobs read = ReadJobs(testing::ReadShipped(file), file.filename());
    EXPECT_THAT(testing::Texts(read.report.problems), ElementsAre());
    EXPECT_GE(read.jobs.size(), 5u);
    for (const TimedJob& job : read.jobs) EXPECT_TRUE(job.run) << job.job.id;
  }
}

}  // namespace
}  // namespace scheduler::io
