// Batches, while the gateway is killed at any point, keys end, disks are slow and buckets away: one result for each
// line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "tests/fault/gateway/batch_calls.h"
#include "tests/fault/gateway/job_commands.h"
#include "tests/fault/gateway/scaling.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/run_cli.h"
#include "tests/support/s3_server.h"

namespace tests {
namespace {

TEST(Batches, KilledAgainAndAgainEachLineHasOneResult) {
  const EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "10ms", "--step-per-sequence", "0s"});
  GatewayProcess gateway(
      {.replicas = {engine.port()}, .sections = "files: {}\nbatches: {max_in_flight: 4}\n"});
  const std::string batch = Begin(gateway, InputOf(200));
  uint64_t completed = 0;
  for (int kill = 0; kill < 5; ++kill) {
    Pause(milliseconds(300 + 170 * kill));
    completed = StateOf(gateway, batch)["request_counts"].value("completed", uint64_t{0});
    gateway.Restart();
    // What was told as done stays so; the running batch is read while the gateway answers already.
    const auto until = std::chrono::steady_clock::now() + kBatchPatience;
    uint64_t after = 0;
    while (after < completed && std::chrono::steady_clock::now() < until) {
      after = StateOf(gateway, batch)["request_counts"].value("completed", uint64_t{0});
      Pause(milliseconds(20));
    }
    EXPECT_GE(after, completed) << kill;
  }
  const Json ended = Await(gateway, batch, "completed");
  EXPECT_EQ(ended["status"], "completed") << ended.dump();
  EXPECT_EQ(ended["request_counts"]["total"], 200);
  EXPECT_EQ(ended["request_counts"]["completed"], 200);
  EXPECT_TRUE(ended["error_file_id"].is_null());
  ExpectOneEach(IdsIn(gateway, ended["output_file_id"]), 200);
  // Lines that were under way at a kill are sent again, and no others.
  EXPECT_LE(engine.Stat("/requests/received"), 200u + 5 * 4);
  EXPECT_TRUE(gateway.Settles());
  EXPECT_TRUE(Balance(gateway.Records()).none());
}

// The bucket comes and goes, too; what it did not take, and what it did not remove, it does later.
TEST(Batches, WithABucketKilledAgainAndAgainEachLineHasOneResult) {
  const EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "10ms", "--step-per-sequence", "0s"});
  S3Server bucket;
  const TempDir secrets;
  std::ofstream(secrets / "access") << S3Server::kAccessKey;
  std::ofstream(secrets / "secret") << S3Server::kSecretKey;
  GatewayProcess gateway(
      {.replicas = {engine.port()},
       .sections = fmt::format("files: {{s3: {{endpoint: '{}', bucket: {}, region: {}, prefix: of/gw-1, "
                               "access_key: 'file:{}', secret_key: 'file:{}'}}}}\n"
                               "batches: {{max_in_flight: 4}}\n",
                               bucket.url(), S3Server::kBucket, S3Server::kRegion, secrets / "access",
                               secrets / "secret")});
  const std::string batch = Begin(gateway, InputOf(150));
  ASSERT_TRUE(Within(kBatchPatience, [&] {
    return StateOf(gateway, batch)["request_counts"].value("completed", uint64_t{0}) > 0;
  }));
  for (int kill = 0; kill < 4; ++kill) {
    Pause(milliseconds(200 + 100 * kill));
    if (kill == 1) bucket.FailWith(503);
    gateway.Restart();
  }
  const Answer refused = gateway.Ask(UploadOf("x"));
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(refused.code(), "store_unavailable");
  const auto all_done = [&] {
    return StateOf(gateway, batch)["request_counts"].value("completed", uint64_t{0}) == 150;
  };
  ASSERT_TRUE(Within(kBatchPatience, all_done));
  EXPECT_EQ(StateOf(gateway, batch)["status"], "in_progress") << "its results are not in the bucket yet";
  gateway.Restart();
  bucket.Recover();
  const Json ended = Await(gateway, batch, "completed");
  EXPECT_EQ(ended["status"], "completed") << ended.dump();
  EXPECT_EQ(ended["request_counts"]["completed"], 150);
  ExpectOneEach(IdsIn(gateway, ended["output_file_id"]), 150);
  EXPECT_LE(engine.Stat("/requests/received"), 150u + 5 * 4);
  const std::string folder = gateway.state_dir() + "/files";
  EXPECT_TRUE(Within(kBatchPatience, [&] { return std::filesystem::is_empty(folder); }));
  EXPECT_EQ(bucket.objects().size(), 2u);

  const std::string output = ended["output_file_id"];
  bucket.FailWith(0);
  EXPECT_EQ(gateway.Ask(Get(fmt::format("/v1/files/{}/content", output))).code(), "store_unavailable");
  for (const std::string& file : {output, ended["input_file_id"].get<std::string>()}) {
    const Answer removed =
        gateway.Ask(fmt::format("DELETE /v1/files/{} HTTP/1.1\r\nHost: gateway\r\n\r\n", file));
    EXPECT_EQ(removed.status, 200) << removed.body;
  }
  EXPECT_TRUE(
      Within(kBatchPatience, [&] { return gateway.Metric("tidegate_files_removals_waiting") == 2.0; }));
  gateway.Restart();
  bucket.Recover();
  EXPECT_TRUE(Within(kBatchPatience, [&] { return bucket.objects().empty(); }));
  EXPECT_TRUE(
      Within(kBatchPatience, [&] { return gateway.Metric("tidegate_files_removals_waiting") == 0.0; }));
  EXPECT_TRUE(gateway.Settles());
  EXPECT_TRUE(Balance(gateway.Records()).none());
}

TEST(Batches, RequestsOfOthersGoBeforeLinesThatWait) {
  const EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "20ms", "--step-per-sequence", "0s"});
  const GatewayProcess gateway({.replicas = {engine.port()},
                                .model = "queue: {max_running: 2}",
                                .sections = "files: {}\nbatches: {max_in_flight: 16}\n"});
  const std::string batch = Begin(gateway, InputOf(200));
  const auto done = [&] { return StateOf(gateway, batch)["request_counts"].value("completed", uint64_t{0}); };
  ASSERT_TRUE(Within(kBatchPatience, [&] { return done() > 0; }));
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = done();
    const Answer answer = gateway.Ask(Chat({{"max_tokens", 1}}));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_LT(done() - before, 12u) << "those that ran already, and none of the sixteen that wait";
  }
  EXPECT_LT(done(), 200u) << "there were lines all the time";
}

TEST(Batches, AModelAtZeroIsStartedForLinesWhereItsPolicySaysSoAndAnyJobTakesItsDevicesBack) {
  const std::string placement = "placement: {devices: [{kind: h100, count: 1}]}\n";
  ScaledModel model;
  model.more = placement;
  Scaled scaled(model, "cluster: [{kind: h100, count: 2}]",
                {.replicas = {}, .sections = "files: {}\nbatches: {max_in_flight: 8}\n"});
  const GatewayProcess& gateway = scaled.gateway;
  const std::string batch = Begin(gateway, InputOf(20));
  EXPECT_EQ(Await(gateway, batch, "in_progress")["status"], "in_progress");
  Pause(std::chrono::seconds(1));
  EXPECT_EQ(scaled.Replicas().size(), 0u) << "its policy starts none for batches";
  EXPECT_EQ(StateOf(gateway, batch)["request_counts"]["completed"], 0);
  model.more = placement + "batch: {may_start: true}\n";
  scaled.WritePolicy(model);
  scaled.gateway.Reload();
  const Json ended = Await(gateway, batch, "completed");
  EXPECT_EQ(ended["request_counts"]["completed"], 20) << ended.dump();
  const std::vector<gateway::ledger::Record> actions = scaled.Actions();
  const auto launch = std::ranges::find(actions, "replica.launch", &gateway::ledger::Record::action);
  ASSERT_NE(launch, actions.end());
  EXPECT_THAT(launch->detail, testing::HasSubstr("of batches to run"));
  EXPECT_EQ(scaled.Names("replica.launch"), 1);

  // The replica is still there, in case that more lines come.
  EXPECT_EQ(scaled.Replicas().size(), 1u);
  const JobCommands commands(gateway);
  const std::string job = commands.Submit(
      "name: low\nwork: batch\npriority: batch\ncommand: [/bin/sleep, \"600\"]\n"
      "devices: [{kind: h100, count: 2}]\n");
  EXPECT_TRUE(commands.Comes(job, "running")) << commands.Explain(job) << scaled.Replicas();
  EXPECT_EQ(scaled.Replicas().size(), 0u);
  const std::vector<gateway::ledger::Record> after = scaled.Actions();
  const auto drain = std::ranges::find(after, "replica.drain", &gateway::ledger::Record::action);
  ASSERT_NE(drain, after.end());
  EXPECT_THAT(drain->detail, testing::HasSubstr("makes room for " + job));
  EXPECT_TRUE(commands.CancelAll());
}

TEST(Batches, AReplicaForLinesGoesOnForRequestsWithoutAnotherStart) {
  ScaledModel model;
  model.more = "placement: {devices: [{kind: h100, count: 1}]}\nbatch: {may_start: true}\n";
  Scaled scaled(model, "cluster: [{kind: h100, count: 1}]",
                {.replicas = {}, .sections = "files: {}\nbatches: {max_in_flight: 8}\n"});
  const std::string batch = Begin(scaled.gateway, InputOf(20));
  EXPECT_EQ(Await(scaled.gateway, batch, "completed")["request_counts"]["completed"], 20);
  const auto taken = [&] {
    EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 100}})).status, 200);
    return std::ranges::any_of(scaled.Actions(), [](const gateway::ledger::Record& action) {
      return action.action == "replica.ready" &&
             action.detail.find("no longer for lines of batches alone") != std::string::npos;
    });
  };
  EXPECT_TRUE(Within(kBatchPatience, taken));
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  EXPECT_EQ(scaled.Names("replica.launch"), 1);
  EXPECT_EQ(scaled.Names("replica.drain"), 0);
}

TEST(Batches, ACancelledBatchKeepsWhatWasDoneAndNamesTheRest) {
  const EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "20ms", "--step-per-sequence", "0s"});
  GatewayProcess gateway(
      {.replicas = {engine.port()}, .sections = "files: {}\nbatches: {max_in_flight: 2}\n"});
  const std::string batch = Begin(gateway, InputOf(100));
  while (StateOf(gateway, batch)["request_counts"].value("completed", 0) < 4) Pause(milliseconds(20));
  const Answer cancel = gateway.Ask(Post("/v1/batches/" + batch + "/cancel", ""));
  EXPECT_EQ(cancel.status, 200) << cancel.body;
  EXPECT_EQ(cancel.json().value("status", ""), "cancelling");
  const Json ended = Await(gateway, batch, "cancelled");
  EXPECT_EQ(ended["status"], "cancelled");
  std::map<std::string, int> ids = IdsIn(gateway, ended["output_file_id"]);
  EXPECT_EQ(ids.size(), ended["request_counts"]["completed"]);
  for (const auto& [id, times] : IdsIn(gateway, ended["error_file_id"])) ids[id] += times;
  ExpectOneEach(ids, 100);
  EXPECT_EQ(gateway.Ask(Post("/v1/batches/" + batch + "/cancel", "")).status, 409);
}

TEST(Batches, ABadLineFailsTheBatchAndNothingIsSent) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .sections = "files: {}\n"});
  const std::string batch = Begin(gateway, InputOf(3) + "no JSON\n" + InputOf(1, "unknown"));
  const Json failed = Await(gateway, batch, "failed");
  EXPECT_EQ(failed["status"], "failed");
  ASSERT_EQ(failed["errors"]["data"].size(), 2u) << failed.dump();
  EXPECT_EQ(failed["errors"]["data"][0]["code"], "invalid_json_line");
  EXPECT_EQ(failed["errors"]["data"][0]["line"], 4);
  EXPECT_EQ(failed["errors"]["data"][1]["code"], "duplicate_custom_id");
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
}

TEST(Batches, LinesWaitForTheLimitOfTheTenant) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()},
                          .tenant = "limits: {concurrency: 1}",
                          .sections = "files: {}\nbatches: {max_in_flight: 4}\n"});
  const std::string batch = Begin(gateway, InputOf(20));
  const Json ended = Await(gateway, batch, "completed");
  EXPECT_EQ(ended["request_counts"]["completed"], 20) << ended.dump();
  ExpectOneEach(IdsIn(gateway, ended["output_file_id"]), 20);
}

TEST(Batches, LinesWaitForATenantThatAReloadHasRemoved) {
  const EngineProcess engine;
  GatewayConfig config{.replicas = {engine.port()},
                       .tenants = "  - {name: brief, models: ['*']}\n",
                       .sections = "files: {}\nbatches: {max_in_flight: 2}\n"};
  GatewayProcess gateway(config);
  const CliResult made = RunCli({"keys", "create", "--tenant", "brief", "--config", gateway.config_path()});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string key =
      fmt::format("Authorization: Bearer {}\r\n", made.out.substr(0, made.out.find('\n')));
  const Json file = gateway.Ask(UploadOf(InputOf(200), key)).json();
  const std::string order =
      Json{{"input_file_id", file["id"]}, {"endpoint", "/v1/chat/completions"}, {"completion_window", "24h"}}
          .dump();
  const std::string batch = gateway.Ask(Post("/v1/batches", order, key)).json()["id"];
  const auto state = [&] { return gateway.Ask(Get("/v1/batches/" + batch, key)).json(); };
  ASSERT_TRUE(Within(kBatchPatience, [&] { return state()["request_counts"]["completed"] > 0; }));

  const std::string had = std::exchange(config.tenants, {});
  gateway.WriteConfig(config);
  gateway.Reload();
  EXPECT_EQ(gateway.Ask(Get("/v1/batches/" + batch, key)).status, 403);
  ASSERT_TRUE(Within(kBatchPatience, [&] { return gateway.Metric("tidegate_batch_lines_in_flight") == 0; }));
  EXPECT_LT(engine.Stat("/requests/received"), 200u);

  config.tenants = had;
  gateway.WriteConfig(config);
  gateway.Reload();
  ASSERT_TRUE(Within(kBatchPatience, [&] { return state()["status"] == "completed"; })) << state().dump();
  EXPECT_EQ(state()["request_counts"]["completed"], 200);
  EXPECT_EQ(state()["request_counts"]["failed"], 0);
}

TEST(Batches, LinesHaveThePriceOfBatches) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()},
                          .model = "batch_price: {input: 100, output: 300}",
                          .price = "price: {input: 1000, output: 2000}",
                          .sections = "files: {}\n"});
  const std::string batch = Begin(gateway, InputOf(3));
  Await(gateway, batch, "completed");
  ASSERT_EQ(gateway.Ask(Chat({{"max_tokens", 4}})).status, 200);
  ASSERT_TRUE(gateway.Settles());
  int lines = 0;
  for (const gateway::ledger::Record& record : gateway.Records()) {
    if (record.kind != gateway::ledger::Kind::kClose || record.input == 0) continue;
    const bool of_batch = record.cost_micro_usd == record.input * 100 + record.output * 300;
    EXPECT_TRUE(of_batch || record.cost_micro_usd == record.input * 1000 + record.output * 2000);
    lines += of_batch ? 1 : 0;
  }
  EXPECT_EQ(lines, 3);
}

TEST(Batches, AnUploadIsWithinItsLimitsAndAFileInUseStays) {
  const EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "50ms", "--step-per-sequence", "0s"});
  GatewayProcess gateway({.replicas = {engine.port()},
                          .sections = "files: {file_bytes: 4KiB, tenant_bytes: 64KiB, tenant_files: 2}\n"});
  const Answer large = gateway.Ask(UploadOf(std::string(8000, ' ')));
  EXPECT_EQ(large.status, 413) << large.body;
  const Answer file = gateway.Ask(UploadOf(InputOf(20)));
  ASSERT_EQ(file.status, 200) << file.body;
  EXPECT_EQ(gateway.Ask(UploadOf("x")).status, 200);
  EXPECT_EQ(gateway.Ask(UploadOf("x")).code(), "file_storage_limit");
  const std::string id = file.json()["id"];
  const std::string batch = gateway.Ask(Create(id)).json().value("id", "");
  const std::string remove = fmt::format("DELETE /v1/files/{} HTTP/1.1\r\nHost: gateway\r\n\r\n", id);
  EXPECT_EQ(gateway.Ask(remove).code(), "conflict");
  Await(gateway, batch, "completed");
  EXPECT_EQ(gateway.Ask(remove).status, 200);
  EXPECT_EQ(gateway.Ask(Get("/v1/files/" + id)).code(), "not_found");
}

TEST(Batches, WithoutTheSectionThereAreNoFiles) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}});
  EXPECT_EQ(gateway.Ask(Get("/v1/files")).code(), "not_found");
  EXPECT_EQ(gateway.Ask(Get("/v1/batches")).code(), "not_found");
  EXPECT_EQ(gateway.Ask(UploadOf("x")).code(), "not_found");
}

}  // namespace
}  // namespace tests
