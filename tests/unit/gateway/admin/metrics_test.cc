#include "gateway/admin/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "tests/unit/gateway/admin/world.h"

namespace {

using gateway::LabelValues;
using gateway::MetricFamilies;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::World;

// The shard's cells as its thread would have filled them.
void Count(World& world) {
  gateway::ModelCells& model = world.shard.model(world.runtime->names(), gateway::ModelId{0});
  model.requests[static_cast<size_t>(gateway::ledger::EndReason::kDone)].Add(3);
  model.input_tokens.Observe(100);
  model.input_tokens.Observe(5000);
  model.output_tokens.Observe(4);
  model.cached_tokens.Add(64);
  model.cost_micro_usd.Add(1'500'000);
  model.duration.Observe(std::chrono::milliseconds(30));
  model.duration.Observe(std::chrono::hours(1));
  world.shard.replica(world.runtime->names(), gateway::ReplicaId{1}).timeouts.Add();
  world.shard.cells.auth_failures.Add(7);
}

TEST(Metrics, ShowTheCounters) {
  World world;
  Count(world);
  const std::string text = world.metrics.Render();
  for (const char* line :
       {"tidegate_requests_total{model=\"chat-small\",reason=\"done\"} 3\n",
        "gen_ai_client_token_usage_sum{gen_ai_request_model=\"chat-small\",gen_ai_token_type=\"input\"} "
        "5100\n",
        "gen_ai_client_token_usage_bucket{gen_ai_request_model=\"chat-small\",gen_ai_token_type=\"input\",le="
        "\"256\"} 1\n",
        "gen_ai_client_token_usage_count{gen_ai_request_model=\"chat-small\",gen_ai_token_type=\"output\"} "
        "1\n",
        "gen_ai_server_request_duration_seconds_bucket{gen_ai_request_model=\"chat-small\",le=\"0.04\"} 1\n",
        "gen_ai_server_request_duration_seconds_bucket{gen_ai_request_model=\"chat-small\",le=\"+Inf\"} 2\n",
        "gen_ai_server_request_duration_seconds_sum{gen_ai_request_model=\"chat-small\"} 3600.03\n",
        "tidegate_cached_input_tokens_total{model=\"chat-small\"} 64\n",
        "tidegate_cost_usd_total{model=\"chat-small\"} 1.5\n",
        "tidegate_replica_failures_total{model=\"chat-small\",replica=\"b\",kind=\"timeout\"} 1\n",
        "tidegate_replica_health{model=\"chat-large\",replica=\"c\",state=\"unknown\"} 1\n",
        "tidegate_replica_breaker_phase{model=\"chat-large\",replica=\"c\",phase=\"closed\"} 1\n",
        "tidegate_auth_failures_total 7\n",
        "tidegate_limit_capacity{tenant=\"demo\",limit=\"requests_per_minute\",model=\"any\",device_kind="
        "\"any\"} 600\n",
        "tidegate_limit_remaining{tenant=\"demo\",limit=\"budget_per_day\",model=\"any\",device_kind=\"any\"}"
        " 20\n",
        "tidegate_ledger_healthy 1\n", "tidegate_keys{kind=\"application\",state=\"active\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("tidegate_config_info{sha256=\"" + world.runtime->hash() + "\"} 1\n"));
}

// A cluster with two queues, of which one borrows from the other.
gateway::control::Status ClusterWithQueues() {
  gateway::control::Status status;
  status.launcher = "process";
  gateway::control::ClusterStatus& cluster = status.cluster;
  cluster.known = true;
  cluster.now = {.gar = 0.75,
                 .gfr = 0.5,
                 .fragmentation = 0.125,
                 .capacity = 16'000,
                 .held = 12'000,
                 .waiting = 8'000,
                 .nodes = {2, 0, 1, 0},
                 .kinds = {{.kind = "h100", .held = 12'000, .free = 4'000, .unused = 500}},
                 .queues = {{.name = "training",
                             .deserved = 8'000,
                             .share = 8'000,
                             .used = 12'000,
                             .asked = 12'000,
                             .borrowed = 4'000,
                             .running = 3},
                            {.name = "research",
                             .deserved = 8'000,
                             .share = 8'000,
                             .asked = 8'000,
                             .lent = 4'000,
                             .waiting = 1,
                             .oldest_wait = std::chrono::seconds(90)}},
                 .tenants = {{.tenant = "demo", .held = 12'000, .running = 3},
                             {.tenant = "made-at-run-time", .waiting = 1}}};
  cluster.sor = 0.625;
  cluster.capacity_seconds = 1000;
  cluster.held_seconds = 625;
  gateway::control::WaitsOfJobs waits;
  waits.counts[1] = 2;
  waits.sum = 6;
  cluster.waits[{"training", 0}] = waits;
  return status;
}

TEST(Metrics, ShowTheClusterItsQueuesAndItsTenants) {
  World world;
  EXPECT_THAT(world.metrics.Render(), Not(HasSubstr("tidegate_cluster_")));
  world.operations.scaling = ClusterWithQueues;
  const std::string text = world.metrics.Render();
  for (const char* line :
       {"tidegate_cluster_allocation_rate 0.75\n", "tidegate_cluster_occupation_rate 0.625\n",
        "tidegate_cluster_node_fragmentation_rate 0.5\n", "tidegate_cluster_fragmented_share 0.125\n",
        "tidegate_cluster_device_seconds_total{what=\"capacity\"} 1000\n",
        "tidegate_cluster_device_seconds_total{what=\"held\"} 625\n",
        "tidegate_cluster_devices{device_kind=\"h100\",state=\"unused\"} 0.5\n",
        "tidegate_cluster_nodes{health=\"healthy\"} 2\n", "tidegate_cluster_nodes{health=\"draining\"} 1\n",
        "tidegate_cluster_waiting_devices 8\n", "tidegate_job_queue_borrowed_devices{queue=\"training\"} 4\n",
        "tidegate_job_queue_lent_devices{queue=\"research\"} 4\n",
        "tidegate_job_queue_jobs{queue=\"research\",state=\"waiting\"} 1\n",
        "tidegate_job_queue_oldest_wait_seconds{queue=\"research\"} 90\n",
        "tidegate_job_wait_seconds_bucket{queue=\"training\",size=\"<8\",le=\"1\"} 0\n",
        "tidegate_job_wait_seconds_bucket{queue=\"training\",size=\"<8\",le=\"5\"} 2\n",
        "tidegate_job_wait_seconds_sum{queue=\"training\",size=\"<8\"} 6\n",
        "tidegate_tenant_devices{tenant=\"demo\"} 12\n",
        "tidegate_tenant_jobs{tenant=\"other\",state=\"waiting\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("made-at-run-time")));
}

TEST(Metrics, PromtoolFindsNoProblem) {
  if (!std::filesystem::exists("/usr/bin/promtool")) GTEST_SKIP() << "promtool is not installed";
  World world;
  Count(world);
  world.outbound.sharing.emplace();
  world.outbound.traces.emplace();
  world.operations.scaling = ClusterWithQueues;
  world.outbound.sinks.emplace_back().name = "siem";
  world.issuers = {{"https://issuer", true, "", 2, std::chrono::seconds(3)},
                   {"https://never", false, "connection refused", 7, std::nullopt}};
  const std::string page = world.dir / "page";
  std::FILE* out = std::fopen(page.c_str(), "w");
  ASSERT_NE(out, nullptr);
  std::fputs(world.metrics.Render().c_str(), out);
  std::fclose(out);
  std::FILE* promtool = popen(("promtool check metrics < " + page + " 2>&1").c_str(), "r");
  ASSERT_NE(promtool, nullptr);
  std::string said;
  for (int c; (c = std::fgetc(promtool)) != EOF;) said += static_cast<char>(c);
  EXPECT_EQ(pclose(promtool), 0) << said;
  EXPECT_EQ(said, "");
}

TEST(Metrics, ShowTheAgeOfAKeySetOnceItWasFetched) {
  World world;
  world.issuers = {{"https://issuer", true, "", 2, std::chrono::milliseconds(3500)},
                   {"https://never", false, "connection refused", 7, std::nullopt}};
  EXPECT_THAT(world.metrics.Render(),
              AllOf(HasSubstr("tidegate_jwks_age_seconds{issuer=\"https://issuer\"} 3.5\n"),
                    HasSubstr("tidegate_jwks_failures_total{issuer=\"https://issuer\"} 2\n"),
                    HasSubstr("tidegate_jwks_usable{issuer=\"https://never\"} 0\n"),
                    HasSubstr("tidegate_jwks_failures_total{issuer=\"https://never\"} 7\n"),
                    Not(HasSubstr("tidegate_jwks_age_seconds{issuer=\"https://never\"}"))));
}

TEST(Metrics, LabelsAreBounded) {
  World world(
      "admin: {bootstrap_key: env:BOOT}\n"
      "telemetry: {metrics: {max_label_values: 1}}\n");
  Count(world);
  world.shard.model(world.runtime->names(), gateway::ModelId{1}).streams.Add(5);
  const std::string text = world.metrics.Render();
  EXPECT_THAT(text, AllOf(HasSubstr("{model=\"other\""), HasSubstr("{tenant=\"demo\"")));
  // Which one has its own name is the first that was asked for, and stays.
  EXPECT_EQ(world.metrics.Render().find("tidegate_streams_total{model=\"chat-large\"}") == std::string::npos,
            text.find("tidegate_streams_total{model=\"chat-large\"}") == std::string::npos);
}

TEST(Metrics, KeysMakeNoSeries) {
  World world;
  plugins::auth::KeySpec spec;
  spec.tenant = "demo";
  spec.limits = R"({"concurrency":2})";
  ASSERT_TRUE(world.shared.ledger->Stop().ok());
  const std::string id = world.MakeKey(spec).substr(3, 10);
  EXPECT_FALSE(world.Await(world.key_events->CarryOver()).ok());
  ASSERT_TRUE(
      world.shared.limits.AddKey({"demo/" + id, {{router::limits::Dimension::kConcurrency, 2, {}, ""}}})
          .ok());
  EXPECT_THAT(world.metrics.Render(),
              AllOf(Not(HasSubstr(id)), HasSubstr("tidegate_keys{kind=\"application\",state=\"active\"} 1\n"),
                    HasSubstr("tidegate_key_events_unrecorded 1\n")));
}

TEST(LabelValues, KeepsTheFirstAndCallsTheRestOther) {
  LabelValues values;
  EXPECT_EQ(values.Bounded("a", 2), "a");
  EXPECT_EQ(values.Bounded("b", 2), "b");
  EXPECT_EQ(values.Bounded("c", 2), "other");
  EXPECT_EQ(values.Bounded("a", 1), "a");
}

TEST(MetricFamilies, AddsUpSamplesOfTheSameLabels) {
  MetricFamilies families;
  families.Counter("a_total", "a")
      .Add(1.0, {{"x", "other"}})
      .Add(2.0, {{"x", "other"}})
      .Add(4.0, {{"x", "y"}});
  families.Gauge("empty", "without samples");
  const auto all = families.Take();
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].metric.size(), 2u);
  EXPECT_EQ(all[0].metric[0].counter.value, 3);
}

}  // namespace
