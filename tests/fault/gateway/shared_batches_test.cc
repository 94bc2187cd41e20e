// Two gateways of one PostgreSQL and one bucket: any of them answers for all files and batches, and continues a batch
// whose gateway was killed or stands still, with one result for each line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fault/gateway/batch_calls.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/postgres_server.h"
#include "tests/support/run_cli.h"
#include "tests/support/s3_server.h"

namespace tests {
namespace {

constexpr size_t kLines = 300;
constexpr char kSharedAdminKey[] = "bootstrap-0123456789-0123456789-0123456789";
constexpr milliseconds kEndPatience{150'000};

class SharedBatches : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = PostgresServer::Missing(); !why.empty()) GTEST_SKIP() << why;
    database_ = std::make_unique<PostgresServer>();
    ASSERT_TRUE(database_->Start());
    ASSERT_TRUE(database_->MakeDatabase("shared"));
    std::ofstream(folder_ / "password") << PostgresServer::kPassword;
    std::filesystem::permissions(folder_ / "password", std::filesystem::perms::owner_read);
    std::ofstream(folder_ / "access") << S3Server::kAccessKey;
    std::ofstream(folder_ / "secret") << S3Server::kSecretKey;
    std::ofstream(folder_ / "admin") << kSharedAdminKey;
    std::ofstream(folder_ / "master") << std::string(64, 'a');
    engine_ = std::make_unique<EngineProcess>(std::vector<std::string>{
        "--preset", "demo", "--load-time", "0s", "--step-base", "40ms", "--step-per-sequence", "0s"});
    for (int i = 0; i < 2; ++i) gateways_.push_back(std::make_unique<GatewayProcess>(Config()));
  }

  GatewayConfig Config() const {
    return {.replicas = {engine_->port()},
            .ledger = fmt::format("content_key: 'file:{}'", folder_ / "master"),
            .sections = fmt::format(
                "state: {{url: \"{}\", password: \"file:{}\"}}\n"
                "files: {{s3: {{endpoint: '{}', bucket: {}, region: {}, access_key: 'file:{}', secret_key: "
                "'file:{}'}}}}\nbatches: {{max_in_flight: 4}}\nadmin: {{bootstrap_key: 'file:{}'}}\n",
                database_->Url("shared"), folder_ / "password", bucket_.url(), S3Server::kBucket,
                S3Server::kRegion, folder_ / "access", folder_ / "secret", folder_ / "admin")};
  }

  GatewayProcess& at(size_t i) { return *gateways_[i]; }
  uint64_t Done(size_t i, const std::string& batch) {
    return StateOf(at(i), batch)["request_counts"].value("completed", uint64_t{0});
  }
  bool Reaches(size_t i, const std::string& batch, uint64_t lines) {
    return Within(kEndPatience, [&] { return Done(i, batch) >= lines; });
  }
  // How many lines have reached the engine, once those that a gateway wrote before its end have.
  uint64_t Received() {
    uint64_t received = 0;
    EXPECT_TRUE(Within(kBatchPatience, [&] {
      const uint64_t before = std::exchange(received, engine_->Stat("/requests/received"));
      Pause(milliseconds(1000));
      return before == received;
    }));
    return received;
  }
  bool Ends(size_t i, const std::string& batch) {
    return Within(kEndPatience, [&] { return StateOf(at(i), batch).value("status", "") == "completed"; });
  }
  // At both: the batch is complete, and so are its files.
  void ExpectWhole(const std::string& batch) {
    for (size_t i = 0; i < gateways_.size(); ++i) {
      const Json ended = StateOf(at(i), batch);
      EXPECT_EQ(ended["status"], "completed") << ended.dump();
      EXPECT_EQ(ended["request_counts"]["total"], kLines);
      EXPECT_EQ(ended["request_counts"]["completed"], kLines);
      EXPECT_TRUE(ended["error_file_id"].is_null());
      ExpectOneEach(IdsIn(at(i), ended["output_file_id"]), kLines);
      const Answer input =
          at(i).Ask(Get(fmt::format("/v1/files/{}/content", ended.value("input_file_id", ""))));
      EXPECT_EQ(input.body, InputOf(kLines));
    }
  }
  // Nothing is in the bucket but the input and the results.
  void ExpectNoRemains() {
    EXPECT_TRUE(Within(kBatchPatience, [&] {
      return at(0).Metric("tidegate_files_removals_waiting") == 0.0 &&
             at(1).Metric("tidegate_files_removals_waiting") == 0.0;
    }));
    for (size_t i = 0; i < gateways_.size(); ++i) {
      EXPECT_TRUE(at(i).Settles());
      EXPECT_TRUE(Balance(at(i).Records()).none());
    }
  }

  TempDir folder_;
  std::unique_ptr<PostgresServer> database_;
  S3Server bucket_;
  std::unique_ptr<EngineProcess> engine_;
  std::vector<std::unique_ptr<GatewayProcess>> gateways_;
};

TEST_F(SharedBatches, WhoeverOfThemIsKilledTheOtherContinues) {
  const std::string batch = Begin(at(0), InputOf(kLines));
  uint64_t done = 0;
  for (size_t kill = 0; kill < 2; ++kill) {
    const size_t runner = kill % 2;
    const size_t other = 1 - runner;
    ASSERT_TRUE(Reaches(other, batch, done + 40));
    at(runner).Kill();
    done = Done(other, batch);
    EXPECT_LT(done, kLines);
    const uint64_t sent = Received();
    ASSERT_TRUE(Reaches(other, batch, done + 1)) << StateOf(at(other), batch).dump();
    EXPECT_GE(Done(other, batch), done) << "what was told as done stays so";
    at(runner).Start();
    if (kill + 1 < 2) continue;
    ASSERT_TRUE(Ends(other, batch));
    // What was committed is not sent again.
    EXPECT_LE(engine_->Stat("/requests/received"), sent + kLines - done);
  }
  ExpectWhole(batch);
  ExpectNoRemains();
  EXPECT_EQ(at(0).Metric("tidegate_batches_taken_over_total"), 1.0);
  // Whoever did not make them deletes them.
  const Json ended = StateOf(at(1), batch);
  for (const char* const file : {"output_file_id", "input_file_id"}) {
    const Answer removed = at(1).Ask(
        fmt::format("DELETE /v1/files/{} HTTP/1.1\r\nHost: gateway\r\n\r\n", ended.value(file, "")));
    EXPECT_EQ(removed.status, 200) << removed.body;
  }
  EXPECT_TRUE(Within(kBatchPatience, [&] { return bucket_.objects().empty(); }));
}

TEST_F(SharedBatches, AGatewayThatStoodStillChangesNothingAfterwards) {
  const std::string batch = Begin(at(0), InputOf(kLines));
  ASSERT_TRUE(Reaches(1, batch, 40));
  at(0).process().Signal(SIGSTOP);
  const uint64_t done = Done(1, batch);
  const uint64_t sent = Received();
  ASSERT_TRUE(Reaches(1, batch, done + 20));
  // It wakes up while the other one works, with lines that were answered meanwhile.
  at(0).process().Signal(SIGCONT);
  EXPECT_TRUE(Within(kBatchPatience, [&] { return at(0).Metric("tidegate_batch_lines_waiting") == 0.0; }));
  ASSERT_TRUE(Ends(1, batch));
  EXPECT_LE(engine_->Stat("/requests/received"), sent + kLines - done) << "it has sent none";
  ExpectWhole(batch);
  ExpectNoRemains();
  EXPECT_EQ(at(1).Metric("tidegate_batches{state=\"completed\"}"), 1.0);
  EXPECT_EQ(at(0).Metric("tidegate_batches{state=\"completed\"}"), 0.0);
}

TEST_F(SharedBatches, WhileTheDatabaseIsAwayNothingIsSentAndAfterwardsNothingIsTakenOver) {
  const std::string batch = Begin(at(0), InputOf(kLines));
  ASSERT_TRUE(Reaches(1, batch, 40));
  database_->Stop();
  uint64_t sent = 0;
  // Longer than others wait for a gateway that says nothing.
  EXPECT_TRUE(Within(kBatchPatience, [&] {
    const uint64_t before = std::exchange(sent, engine_->Stat("/requests/received"));
    Pause(std::chrono::seconds(6));
    return before == sent;
  }));
  EXPECT_LT(sent, kLines);
  ASSERT_TRUE(database_->Start());
  ASSERT_TRUE(Ends(1, batch));
  EXPECT_EQ(engine_->Stat("/requests/received"), kLines) << "no line is repeated";
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(at(i).Metric("tidegate_batches_taken_over_total"), 0.0) << i;
  ExpectWhole(batch);
  ExpectNoRemains();
}

TEST_F(SharedBatches, AnyGatewayTakesAnyCall) {
  const Answer file = at(0).Ask(UploadOf(InputOf(kLines)));
  ASSERT_EQ(file.status, 200) << file.body;
  const std::string id = file.json()["id"];
  const Answer made = at(1).Ask(Create(id));  // at once
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string batch = made.json()["id"];
  EXPECT_EQ(at(0).Ask(Get("/v1/batches")).json()["data"].size(), 1u);
  EXPECT_EQ(at(1).Ask(Get("/v1/files")).json()["data"].size(), 1u);
  const Answer used = at(0).Ask(fmt::format("DELETE /v1/files/{} HTTP/1.1\r\nHost: gateway\r\n\r\n", id));
  EXPECT_EQ(used.code(), "conflict") << used.body;
  ASSERT_TRUE(Reaches(0, batch, 4));
  const Answer cancel = at(0).Ask(Post("/v1/batches/" + batch + "/cancel", ""));
  EXPECT_EQ(cancel.status, 200) << cancel.body;
  const Json ended = Await(at(0), batch, "cancelled");
  EXPECT_EQ(ended["status"], "cancelled");
  std::map<std::string, int> ids = IdsIn(at(0), ended["output_file_id"]);
  EXPECT_EQ(ids.size(), ended["request_counts"]["completed"]);
  for (const auto& [line, times] : IdsIn(at(1), ended["error_file_id"])) ids[line] += times;
  ExpectOneEach(ids, kLines);
}

TEST_F(SharedBatches, ErasingTheContentOfATenantErasesItForAllGateways) {
  const auto upload = [&] { return at(0).Ask(UploadOf("secret")).json().value("id", ""); };
  const auto read = [&](size_t i, const std::string& id) {
    return at(i).Ask(Get(fmt::format("/v1/files/{}/content", id)));
  };
  const std::string first = upload();
  EXPECT_EQ(read(1, first).body, "secret");
  // Of one that runs, and of one that does not.
  const Answer erased = at(1).AskAdmin(Post("/admin/v1/content:erase", Json{{"tenant", "demo"}}.dump(),
                                            fmt::format("Authorization: Bearer {}\r\n", kSharedAdminKey)));
  EXPECT_EQ(erased.status, 200) << erased.body;
  EXPECT_EQ(erased.json()["erased"].size(), 2u) << "the gateway's own key, and the shared one";
  EXPECT_EQ(read(0, first).status, 404);
  const std::string second = upload();
  EXPECT_EQ(read(1, second).body, "secret");
  EXPECT_EQ(at(1).Stop(), 0);
  const CliResult offline = RunCli({"audit", "erase-content", "demo", "-c", at(1).config_path()});
  EXPECT_EQ(offline.code, 0) << offline.err;
  EXPECT_EQ(read(0, second).status, 404);
  at(1).Start();
  const std::string third = upload();
  EXPECT_EQ(read(1, third).body, "secret");
  EXPECT_TRUE(Within(kBatchPatience, [&] {
    const std::vector<gateway::ledger::Record> records = at(1).Records();
    return std::ranges::count(records, "content.erase", &gateway::ledger::Record::action) == 4;
  }));
}

TEST_F(SharedBatches, AGatewayThatStopsLeavesItsBatchAtOnce) {
  const std::string batch = Begin(at(0), InputOf(kLines));
  ASSERT_TRUE(Reaches(1, batch, 40));
  EXPECT_EQ(at(0).Stop(), 0);
  ASSERT_TRUE(Ends(1, batch));
  EXPECT_EQ(engine_->Stat("/requests/received"), kLines) << "no line is repeated";
  at(0).Start();
  ExpectWhole(batch);
  ExpectNoRemains();
}

}  // namespace
}  // namespace tests
