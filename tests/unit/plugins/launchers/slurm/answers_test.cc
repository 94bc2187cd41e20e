// Answers as slurmrestd 22.05.8 has given them, and what is refused.
#include "plugins/launchers/slurm/answers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "plugins/launchers/slurm/runs.h"
#include "tests/support/shipped.h"

namespace plugins::launchers::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::json;

std::string Recorded(const std::string& name) {
  return tests::ReadShipped(tests::ConfDirectory().parent_path() /
                            ("tests/unit/plugins/launchers/slurm/recorded/" + name));
}

const Job& ById(const JobList& list, uint32_t id) {
  for (const Job& job : list.jobs) {
    if (job.id == id) return job;
  }
  ADD_FAILURE() << "no job " << id;
  return list.jobs.front();
}

TEST(SlurmAnswers, ContainTheDevicesAndNodesOfEachJob) {
  const auto list = ReadJobs(Recorded("jobs.json"));
  ASSERT_TRUE(list.ok()) << list.status();
  const Job& gang = ById(*list, 20);
  EXPECT_EQ(gang.state, JobState::kRunning);
  EXPECT_THAT(gang.nodes, ElementsAre("node2", "node3"));
  EXPECT_THAT(gang.gres, ElementsAre(ElementsAre(Gres{"gpu", "h100", 1, {0}}),
                                     ElementsAre(Gres{"gpu", "h100", 1, {3}})));
  EXPECT_EQ(gang.cpus, 2u);
  EXPECT_EQ(gang.memory_mib, 4000);
  EXPECT_EQ(gang.user, "root");
  EXPECT_FALSE(gang.ends);
  const Job& limited = ById(*list, 19);
  EXPECT_EQ(limited.partition, "scavenge");
  EXPECT_THAT(limited.gres, ElementsAre(ElementsAre(Gres{"gpu", "h100", 3, {0, 1, 2}})));
  EXPECT_EQ(limited.ends, limited.started + std::chrono::minutes(10));
  EXPECT_EQ(list->latest, 1795281411);
}

TEST(SlurmAnswers, NameNoMoreHostsThanMemoryIsMeantFor) {
  Json answer = Json::parse(Recorded("jobs.json"));
  Json job = answer["jobs"][1];
  job["nodes"] = "n[1-65536]";
  job["gres_detail"] = Json::array();
  answer["jobs"] = Json(std::vector<Json>(kMaxHostsOfJobs / 65'536, job));
  EXPECT_TRUE(ReadJobs(answer.dump()).ok());
  answer["jobs"].push_back(job);
  EXPECT_THAT(ReadJobs(answer.dump()).status().message(), HasSubstr("more than 1048576 hosts"));
}

TEST(SlurmAnswers, SayWhyAJobWaitsOrHasEnded) {
  const auto list = ReadJobs(Recorded("jobs.json"));
  ASSERT_TRUE(list.ok()) << list.status();
  struct Case {
    uint32_t job;
    JobState state;
    std::string why;
  };
  for (const Case& c : {Case{4, JobState::kFailed, "job 4 exited with 3"},
                        Case{5, JobState::kCancelled, "job 5 was cancelled through Slurm"},
                        Case{8, JobState::kFailed, "Slurm could not start job 8: JobLaunchFailure"},
                        Case{9, JobState::kFailed, "Slurm could not start job 9: BadConstraints"},
                        Case{23, JobState::kCancelled, "job 23 was cancelled through Slurm"}}) {
    const Job& job = ById(*list, c.job);
    EXPECT_EQ(job.state, c.state) << c.job;
    EXPECT_EQ(WhyEnded(job, false), c.why);
    EXPECT_TRUE(IsOver(job.state)) << c.job;
  }
  EXPECT_EQ(WhyEnded(ById(*list, 23), true), "");
  EXPECT_EQ(WhyWaiting(ById(*list, 21)),
            "job 21 waits in Slurm: its node is down, drained or reserved (ReqNodeNotAvail)");
  EXPECT_EQ(WhyWaiting(ById(*list, 17)), "job 17 waits in Slurm: Slurm starts it later (BeginTime)");
  EXPECT_EQ(ById(*list, 17).restarts, 1u);
  EXPECT_EQ(WhyWaiting(ById(*list, 22)), "");
}

TEST(SlurmAnswers, DescribeNodes) {
  const auto nodes = ReadNodes(Recorded("nodes.json"));
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_EQ(nodes->size(), 4u);
  const Node& drained = nodes->back();
  EXPECT_EQ(drained.name, "node4");
  EXPECT_EQ(drained.address, "127.0.0.1");
  EXPECT_EQ(drained.state, "idle");
  EXPECT_THAT(drained.flags, ElementsAre("DRAIN"));
  EXPECT_EQ(drained.reason, "bad fan");
  EXPECT_THAT(drained.partitions, ElementsAre("main", "scavenge"));
  EXPECT_THAT(drained.gres, ElementsAre(Gres{"gpu", "h100", 8, {}}));
  EXPECT_EQ(drained.cpus, 64u);
  EXPECT_EQ(drained.memory_mib, 512'000);
}

TEST(SlurmAnswers, AreRefusedWhenAMemberIsMissingOrOfAnotherType) {
  const Json whole = Json::parse(Recorded("jobs.json"));
  for (const char* key : {"job_id", "name", "job_state", "nodes", "comment", "user_name", "exit_code",
                          "gres_detail", "start_time"}) {
    Json without = whole;
    without["jobs"][1].erase(key);
    const auto missing = ReadJobs(without.dump());
    EXPECT_TRUE(absl::IsDataLoss(missing.status())) << key << " " << missing.status();
    EXPECT_THAT(std::string(conf::Std(missing.status().message())), HasSubstr(fmt::format("jobs/1/{}", key)));
    Json other = whole;
    other["jobs"][1][key] = Json::object();
    EXPECT_TRUE(absl::IsDataLoss(ReadJobs(other.dump()).status())) << key;
  }
  Json uneven = whole;
  uneven["jobs"][6]["gres_detail"] = {"gpu:h100:1(IDX:0)"};  // of two nodes
  EXPECT_TRUE(absl::IsDataLoss(ReadJobs(uneven.dump()).status()));
  for (const char* text : {"", "{", "[]", "{}", R"({"errors":[]})", R"({"errors":[],"jobs":{}})",
                           R"({"errors":[],"jobs":[1]})", "Authentication failure"}) {
    EXPECT_TRUE(absl::IsDataLoss(ReadJobs(text).status())) << text;
    EXPECT_TRUE(absl::IsDataLoss(ReadNodes(text).status())) << text;
    EXPECT_TRUE(absl::IsDataLoss(ReadSubmitted(text).status())) << text;
  }
}

TEST(SlurmAnswers, WithAnErrorSayNothingElse) {
  struct Case {
    const char* errors;
    absl::StatusCode code;
  };
  for (
      const Case& c :
      {Case{R"([{"error_code":2014,"error":"Requested node configuration is not available"}])",
            absl::StatusCode::kInvalidArgument},
       Case{R"([{"description":"Unknown key \"x\"","error_number":1,"error":"Operation not permitted"},
                 {"error_code":9001,"error":"Failure during parsing"}])",
            absl::StatusCode::kInvalidArgument},
       Case{R"([{"error_code":1800,"error":"Unable to contact slurm controller"}])",
            absl::StatusCode::kUnavailable},
       Case{R"([{"error":"Unspecified error","errno":-1}])", absl::StatusCode::kUnavailable},
       Case{
           R"([{"description":"Unable to find JobId=9999","error_number":2017,"error":"Invalid job id specified"}])",
           absl::StatusCode::kNotFound},
       Case{R"([{"error_number":2021,"error":"Job/step already completing or completed"}])",
            absl::StatusCode::kFailedPrecondition},
       Case{R"([{"error_code":2002,"error":"Access/permission denied"}])",
            absl::StatusCode::kPermissionDenied},
       Case{R"([7])", absl::StatusCode::kDataLoss}}) {
    const std::string body = fmt::format(R"({{"errors":{},"jobs":[],"nodes":[],"job_id":7}})", c.errors);
    EXPECT_EQ(ReadJobs(body).status().code(), c.code) << c.errors;
    EXPECT_EQ(ReadNodes(body).status().code(), c.code) << c.errors;
    EXPECT_EQ(ReadSubmitted(body).status().code(), c.code) << c.errors;
    EXPECT_EQ(ErrorOf(body).code(), c.code) << c.errors;
  }
  EXPECT_EQ(*ReadSubmitted(R"({"errors":[],"job_id":23,"step_id":"BATCH"})"), 23u);
}

TEST(SlurmAnswers, ReadDevices) {
  EXPECT_THAT(*ReadGres(""), IsEmpty());
  EXPECT_THAT(*ReadGres("(null)"), IsEmpty());
  EXPECT_THAT(*ReadGres("gpu:8"), ElementsAre(Gres{"gpu", "", 8, {}}));
  EXPECT_THAT(*ReadGres("gpu:h100:0(IDX:N/A)"), ElementsAre(Gres{"gpu", "h100", 0, {}}));
  EXPECT_THAT(*ReadGres("gpu:a100:4(S:0-1),npu:910b:2(IDX:0,5),bandwidth:lustre:4G"),
              ElementsAre(Gres{"gpu", "a100", 4, {}}, Gres{"npu", "910b", 2, {0, 5}},
                          Gres{"bandwidth", "lustre", UINT32_MAX, {}}));
  for (const char* text : {"gpu", ":8", "gpu:x", "gpu:8(IDX:0", "gpu:8(IDX:a)", "gpu:8(S:0)x"}) {
    EXPECT_FALSE(ReadGres(text).ok()) << text;
  }
}

}  // namespace
}  // namespace plugins::launchers::slurm
