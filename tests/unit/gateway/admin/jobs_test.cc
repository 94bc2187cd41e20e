// Jobs through the admin API: who may do what, and what is said of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/admin/world.h"
#include "tests/unit/gateway/control/jobs/world.h"

namespace tests {
namespace {

using gateway::net::Task;
using plugins::auth::Role;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::string_view kJob = "name: gang\ncommand: [x]\nmembers: 4\ndevices: [{kind: h100, count: 2}]\n";

class AdminJobs : public testing::Test {
 protected:
  AdminJobs() : jobs(store, launcher, gateway::net::Now()) {
    launcher.logs = folder.path() + "/";
    world.operations.jobs = [this] { return jobs.jobs.get(); };
    world.operations.planner = [this] { return &jobs.planner(); };
  }

  World world;
  TempDir folder;
  MemoryStore store;
  ScriptedLauncher launcher;
  JobsWorld jobs;
};

TEST_F(AdminJobs, TheRoleOperatorDoesNotIncludeTheRightToSubmit) {
  using plugins::auth::Right;
  const std::string viewer = world.AdminKey(Role::kViewer);
  const std::string op = world.AdminKey(Role::kOperator);
  const std::string submitter = world.AdminKey(Role::kViewer, {Right::kSubmitJobs});
  const std::string admin = world.AdminKey(Role::kAdmin);
  const std::string body = json{{"job", kJob}, {"file", "train.yaml"}}.dump();
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    for (const std::string& key : {viewer, op}) {
      const Reply refused = co_await client.Call("POST", "/admin/v1/jobs", key, body);
      EXPECT_EQ(refused.status, 403) << refused.text;
      EXPECT_EQ(refused.code(), "permission_denied");
      EXPECT_THAT(refused.text, testing::HasSubstr("submit_jobs"));
    }
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs", submitter, body)).status, 201);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs", admin, body)).status, 201);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs/gang-1:cancel", submitter, "{}")).status, 403)
        << "it is no operator";
    // The right is made with the key, and goes to the key that replaces it.
    const Reply made = co_await client.Call("POST", "/admin/v1/keys", admin,
                                            R"({"role":"operator","rights":["submit_jobs"]})");
    EXPECT_EQ(made.status, 201) << made.text;
    EXPECT_EQ(made.body["rights"], json({"submit_jobs"}));
    const Reply rotated = co_await client.Call(
        "POST", "/admin/v1/keys/" + made.body["id"].get<std::string>() + ":rotate", admin, "{}");
    EXPECT_EQ(rotated.body["rights"], json({"submit_jobs"}));
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs", rotated.body["secret"], body)).status, 201);
    for (const char* const wrong :
         {R"({"role":"operator","rights":["submit"]})", R"({"tenant":"demo","rights":["submit_jobs"]})"})
      EXPECT_EQ((co_await client.Call("POST", "/admin/v1/keys", admin, wrong)).status, 400) << wrong;
  });
}

TEST_F(AdminJobs, OperatorsSubmitAndCancelJobsThatViewersOnlySee) {
  const std::string viewer = world.AdminKey(Role::kViewer);
  const std::string op = world.AdminKey(Role::kOperator, {plugins::auth::Right::kSubmitJobs});
  const std::string body = json{{"job", kJob}, {"file", "train.yaml"}}.dump();
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs", viewer, body)).status, 403);
    const Reply made = co_await client.Call("POST", "/admin/v1/jobs", op, body);
    EXPECT_EQ(made.status, 201) << made.text;
    EXPECT_EQ(made.body["jobs"][0], "gang-1");
    (void)co_await client.Call("POST", "/admin/v1/jobs", op, body);
    jobs.Settle();
    std::ofstream(folder / "j-gang-1-1-2") << "begin\nstep 1\nstep 2\n";

    const Reply list = co_await client.Call("GET", "/admin/v1/jobs?state=open", viewer);
    EXPECT_EQ(list.status, 200) << list.text;
    EXPECT_THAT(list.body["data"], SizeIs(2));
    EXPECT_EQ(list.body["data"][0]["state"], "running");
    EXPECT_EQ(list.body["data"][0]["devices"], 8);
    EXPECT_EQ(list.body["data"][1]["state"], "pending");
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/jobs?state=runing", viewer)).status, 400);

    const Reply one = co_await client.Call("GET", "/admin/v1/jobs/gang-1", op);
    EXPECT_EQ(one.body["file"], kJob);
    // What a job was given and what it prints may be secret.
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/jobs/gang-1", viewer)).body["file"], json());
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/jobs/gang-1/logs", viewer)).status, 403);
    EXPECT_EQ(one.body["runs"][3]["run"], "j-gang-1-1-3");
    const Reply why = co_await client.Call("GET", "/admin/v1/jobs/gang-2/explain", viewer);
    EXPECT_THAT(why.text, AllOf(HasSubstr("pending"), HasSubstr("h100")));
    const Reply log = co_await client.Call("GET", "/admin/v1/jobs/gang-1/logs?rank=2&bytes=10", op);
    EXPECT_EQ(log.body["text"], "step 2\n") << log.text;
    EXPECT_EQ(log.body["cut"], true);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/jobs/gang-1/logs?rank=9", op)).status, 400);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/jobs/gang-2/logs", op)).status, 409);

    const Reply nodes = co_await client.Call("GET", "/admin/v1/nodes", viewer);
    EXPECT_EQ(nodes.body["data"][0]["free"], 0) << nodes.text;
    EXPECT_EQ(nodes.body["data"][0]["each"][7]["held_by"][0], "gang-1");
    const Reply queues = co_await client.Call("GET", "/admin/v1/queues", viewer);
    EXPECT_EQ(queues.body["data"][0]["used"], 8.0) << queues.text;
    EXPECT_EQ(queues.body["data"][0]["jobs_waiting"], 1);

    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs/gang-1:cancel", viewer)).status, 403);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs/gang-1:cancel", op)).status, 200);
    jobs.Settle();
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs/gang-1:cancel", op)).status, 409);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs/gang-9:cancel", op)).status, 404);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/jobs/gang-2", viewer)).body["state"], "running");
  });
}

TEST_F(AdminJobs, ReasonsShownToViewersHaveNoJobOutput) {
  const std::string viewer = world.AdminKey(Role::kViewer);
  const std::string op = world.AdminKey(Role::kOperator, {plugins::auth::Right::kSubmitJobs});
  const std::string body = json{{"job", std::string(kJob) + "restarts: 0\n"}}.dump();
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs", op, body)).status, 201);
    jobs.Settle();
    launcher.End("j-gang-1-1-1", 3);
    launcher.runs.at("j-gang-1-1-1").why = "it ended with exit code 3; its last lines: the \"token\" is 12";
    jobs.Settle();
    for (const char* const path :
         {"/admin/v1/jobs", "/admin/v1/jobs/gang-1", "/admin/v1/jobs/gang-1/explain"}) {
      const Reply hidden = co_await client.Call("GET", path, viewer);
      EXPECT_EQ(hidden.status, 200) << path;
      EXPECT_TRUE(hidden.body.is_object()) << hidden.text;
      EXPECT_THAT(hidden.text, testing::Not(HasSubstr("token"))) << path;
    }
    const Reply shown = co_await client.Call("GET", "/admin/v1/jobs/gang-1", op);
    EXPECT_THAT(shown.text, HasSubstr("the \\\"token\\\" is 12"));
  });
}

TEST_F(AdminJobs, AnArrayIsCancelledWhole) {
  const std::string op = world.AdminKey(Role::kOperator, {plugins::auth::Right::kSubmitJobs});
  const std::string body =
      json{{"job",
            "name: sweep\nwork: batch\ncommand: [x]\ndevices: [{kind: h100, count: 4}]\narray: {count: 5}\n"}}
          .dump();
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs", op, body)).status, 201);
    jobs.Settle();
    EXPECT_EQ(jobs.State("sweep-1.0"), "running");
    const Reply one = co_await client.Call("GET", "/admin/v1/jobs/sweep-1", op);
    EXPECT_THAT(one.text, HasSubstr("is an array; name one of its elements, such as sweep-1.0"));
    const Reply cancelled = co_await client.Call("POST", "/admin/v1/jobs/sweep-1:cancel", op);
    EXPECT_EQ(cancelled.status, 200) << cancelled.text;
    EXPECT_EQ(cancelled.body["id"], "sweep-1");
    EXPECT_EQ(cancelled.body["work"], "array");
    jobs.Settle();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(jobs.State(fmt::format("sweep-1.{}", i)), "cancelled") << i;
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs/sweep-1:cancel", op)).status, 409);
  });
}

TEST_F(AdminJobs, AJobIsRerunFromItsFileByCallersWhoMaySubmitIt) {
  const std::string viewer = world.AdminKey(Role::kViewer);
  const std::string op = world.AdminKey(Role::kOperator, {plugins::auth::Right::kSubmitJobs});
  const std::string array =
      "name: embed\ncommand: [x]\nwork: batch\ndevices: [{count: 1}]\narray: {count: 2}\n";
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    (void)co_await client.Call("POST", "/admin/v1/jobs", op,
                               json{{"job", kJob}, {"file", "train.yaml"}}.dump());
    (void)co_await client.Call("POST", "/admin/v1/jobs", op, json{{"job", array}}.dump());
    (void)co_await client.Call("POST", "/admin/v1/jobs/gang-1:cancel", op, "{}");
    const Reply again = co_await client.Call("POST", "/admin/v1/jobs/gang-1:rerun", op, "{}");
    EXPECT_EQ(again.status, 201) << again.text;
    EXPECT_EQ(again.body["jobs"], json({"gang-3"}));
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/jobs/gang-3", op)).body["file"], kJob);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs/embed-2:rerun", op, "{}")).body["jobs"],
              json({"embed-4.0", "embed-4.1"}));
    const Reply element = co_await client.Call("POST", "/admin/v1/jobs/embed-2.1:rerun", op, "{}");
    EXPECT_EQ(element.status, 409);
    EXPECT_THAT(element.text, HasSubstr("rerun embed-2"));
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs/gang-9:rerun", op, "{}")).status, 404);
    EXPECT_EQ((co_await client.Call("POST", "/admin/v1/jobs/gang-1:rerun", viewer, "{}")).status, 403);
  });
}

TEST_F(AdminJobs, TooManyJobsAreNoFailureOfTheLedger) {
  const std::string op = world.AdminKey(Role::kOperator, {plugins::auth::Right::kSubmitJobs});
  const std::string body =
      json{{"job", "name: sweep\ncommand: [x]\ndevices: [{kind: h100, count: 1}]\narray: {count: 1000}\n"}}
          .dump();
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    Reply last;
    for (int i = 0; i < 11; ++i) last = co_await client.Call("POST", "/admin/v1/jobs", op, body);
    EXPECT_EQ(last.status, 429) << last.text;
    EXPECT_EQ(last.code(), "too_many_jobs");
  });
}

TEST_F(AdminJobs, ReportsEveryProblemOfAJobFile) {
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const std::string body = json{{"job", "name: a\ncommand: [x]\nqueue: nowhere\ndevices: [{kind: h10}]\n"},
                                  {"file", "train.yaml"}}
                                 .dump();
    const Reply refused = co_await client.Call("POST", "/admin/v1/jobs", std::string(kBootstrapKey), body);
    EXPECT_EQ(refused.status, 400) << refused.text;
    EXPECT_THAT(refused.body["error"]["details"], SizeIs(2));
    EXPECT_THAT(refused.message(),
                AllOf(HasSubstr("train.yaml:/queue"), HasSubstr("did you mean \"h100\"?")));
    EXPECT_TRUE(jobs.jobs->all().empty());
  });
}

TEST_F(AdminJobs, AGatewayThatSchedulesNothingSaysSo) {
  world.operations.jobs = [] { return nullptr; };
  world.operations.planner = [] { return nullptr; };
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    for (const char* path : {"/admin/v1/jobs", "/admin/v1/jobs/a-1", "/admin/v1/nodes", "/admin/v1/queues"}) {
      const Reply refused = co_await client.Call("GET", path, std::string(kBootstrapKey));
      EXPECT_EQ(refused.status, 409) << path;
      EXPECT_THAT(refused.message(), HasSubstr("no section scaling"));
    }
  });
}

}  // namespace
}  // namespace tests
