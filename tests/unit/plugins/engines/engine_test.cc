#include "plugins/engines/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plugins/engines/prometheus_text.h"

namespace plugins::engines {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

EngineReport Read(std::string_view engine, std::string_view path, std::string_view body) {
  for (const EngineSource& source : FindEngineAdapter(engine)->sources) {
    if (source.path == path) return source.read(body);
  }
  ADD_FAILURE() << engine << " has no " << path;
  return {};
}

TEST(PrometheusText, SamplesWithLabelsEscapesAndTimestamps) {
  std::vector<std::string> seen;
  ForEachSample(
      "# HELP a What\n# TYPE a gauge\na 1\nb{x=\"1\",path=\"q\\\"}{\"} 2.5e3 1700000000\r\n c{} +Inf\nd NaN",
      [&](const Sample& s) {
        seen.push_back(std::string(s.name) + "=" + std::to_string(s.value) + " " +
                       std::string(s.Label("path").value_or("-")));
      });
  EXPECT_THAT(seen, ElementsAre("a=1.000000 -", "b=2500.000000 q\\\"}{", "c=inf -", "d=nan -"));
}

TEST(PrometheusText, LinesThatAreNotSamplesAreSkipped) {
  for (const char* line :
       {"", "name", "{} 1", "a{x=\"1\" 2", "a{x=\"1} 2", "a one", "a 1e999999x", "\"a\"", "a  "}) {
    ForEachSample(line, [&](const Sample& s) { ADD_FAILURE() << line << " gave " << s.name; });
  }
}

TEST(EngineAdapters, VllmAddsItsEngineCoresUpAndReadsOldAndNewNames) {
  const EngineReport report = Read("vllm", "/metrics", R"(
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 5.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting{engine="1",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 600.0
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="1000"} 1.0
vllm:lora_requests_info{max_lora="4",running_lora_adapters="old",waiting_lora_adapters=""} 100.0
vllm:lora_requests_info{max_lora="4",running_lora_adapters="a, b",waiting_lora_adapters="c"} 200.0
vllm:lora_requests_info{max_lora="4",running_lora_adapters="older",waiting_lora_adapters=""} 50.0
process_start_time_seconds 1.7e+09
)");
  EXPECT_THAT(report.running, Optional(8));
  EXPECT_THAT(report.waiting, Optional(2));
  EXPECT_THAT(report.kv_use, Optional(0.5));
  EXPECT_THAT(report.kv_tokens, Optional(32'000));
  EXPECT_THAT(report.prefix_queries, Optional(1'000));
  EXPECT_THAT(report.prefix_hits, Optional(600));
  EXPECT_THAT(report.max_lora, Optional(4u));
  EXPECT_THAT(report.lora_running, ElementsAre("a", "b"));
  EXPECT_THAT(report.lora_waiting, ElementsAre("c"));
  EXPECT_THAT(report.started_at, Optional(1.7e9));
  EXPECT_TRUE(report.complete());
  EXPECT_THAT(Read("vllm", "/metrics", "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n").kv_use,
              Optional(0.5));
}

TEST(EngineAdapters, WhatOneSourceDoesNotSayIsTakenFromTheNext) {
  EngineReport report;
  report.running = 1;
  report.FillFrom(Read("vllm", "/metrics", R"(
vllm:num_requests_running 3
vllm:num_requests_waiting 2
vllm:lora_requests_info{max_lora="4",running_lora_adapters="a",waiting_lora_adapters="b"} 100
process_start_time_seconds 1.7e+09
)"));
  EXPECT_THAT(report.running, Optional(1));
  EXPECT_THAT(report.waiting, Optional(2));
  EXPECT_THAT(report.max_lora, Optional(4u));
  EXPECT_THAT(report.lora_running, ElementsAre("a"));
  EXPECT_THAT(report.lora_waiting, ElementsAre("b"));
  EXPECT_THAT(report.started_at, Optional(1.7e9));
}

TEST(EngineAdapters, WhatIsAbsentOrNoNumberIsLeftOut) {
  const EngineReport report = Read("vllm", "/metrics", R"(
vllm:num_requests_running NaN
vllm:num_requests_waiting -1
vllm:kv_cache_usage_perc 1.5
vllm:cache_config_info{block_size="sixteen",num_gpu_blocks="1000"} 1.0
)");
  EXPECT_FALSE(report.running || report.waiting || report.kv_use || report.kv_tokens);
  for (const EngineAdapter& adapter : EngineAdapters()) {
    for (const EngineSource& source : adapter.sources) {
      for (const char* body :
           {"", "<html>not found</html>", "{\"loads\":3}", "[1,null,{}]", "{", "[[[[", "\xff\xfe"}) {
        EXPECT_FALSE(source.read(body).complete()) << adapter.name << source.path << body;
      }
    }
  }
}

TEST(EngineAdapters, TheSameShareUnderTwoNamesStaysAShare) {
  const EngineReport report =
      Read("vllm", "/metrics", "vllm:kv_cache_usage_perc 0.75\nvllm:gpu_cache_usage_perc 0.75\n");
  EXPECT_THAT(report.kv_use, Optional(0.75));
}

TEST(EngineAdapters, FiguresStayFiniteWhenTheyAreAddedUpOrMultiplied) {
  EXPECT_TRUE(std::isfinite(
      *Read("vllm", "/metrics", "vllm:num_requests_running 1e308\nvllm:num_requests_running 1e308\n")
           .running));
  EXPECT_FALSE(
      Read("trtllm", "/metrics", "trtllm_kv_cache_max_blocks 1e308\ntrtllm_kv_cache_tokens_per_block 1e308\n")
          .kv_tokens);
}

TEST(EngineAdapters, SglangCountsTensorParallelRanksOnce) {
  const EngineReport report = Read("sglang", "/metrics", R"(
sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 4
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 4
sglang:num_running_reqs{dp_rank="1",tp_rank="0"} 6
sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} 1
sglang:token_usage{dp_rank="0",tp_rank="0"} 0.5
sglang:token_usage{dp_rank="1",tp_rank="0"} 0.7
sglang:max_total_num_tokens{dp_rank="0",tp_rank="0"} 50000
sglang:lora_pool_slots_total{dp_rank="0",tp_rank="0"} 8
)");
  EXPECT_THAT(report.max_lora, Optional(8u));
  EXPECT_THAT(report.running, Optional(10));
  EXPECT_THAT(report.waiting, Optional(1));
  EXPECT_THAT(report.kv_use, Optional(::testing::DoubleNear(0.6, 1e-9)));
  EXPECT_THAT(report.kv_tokens, Optional(50'000));
}

TEST(EngineAdapters, SglangLoadsAreWeighedByTheirCaches) {
  const EngineReport report = Read("sglang", "/v1/loads", R"({"loads":[
    {"dp_rank":0,"num_running_reqs":4,"num_waiting_reqs":1,"token_usage":0.5,"max_total_num_tokens":1000,"max_running_requests":16},
    {"dp_rank":1,"num_running_reqs":2,"num_waiting_reqs":0,"token_usage":0.9,"max_total_num_tokens":3000,"max_running_requests":16,"lora":{"slots_used":1,"slots_total":4}}]})");
  EXPECT_THAT(report.max_lora, Optional(4u));
  EXPECT_THAT(report.running, Optional(6));
  EXPECT_THAT(report.waiting, Optional(1));
  EXPECT_THAT(report.kv_use, Optional(0.8));
  EXPECT_THAT(report.max_running, Optional(32));
  EXPECT_TRUE(report.complete());
}

TEST(EngineAdapters, TensorRtLlmMultipliesBlocks) {
  const EngineReport report = Read("trtllm", "/prometheus/metrics", R"(
trtllm_num_requests_running{model_name="m"} 2
trtllm_num_requests_waiting{model_name="m"} 3
trtllm_kv_cache_utilization{model_name="m"} 0.4
trtllm_kv_cache_max_blocks{model_name="m"} 100
trtllm_kv_cache_tokens_per_block{model_name="m"} 32
)");
  EXPECT_TRUE(report.complete());
  EXPECT_THAT(report.kv_tokens, Optional(3'200));
}

TEST(EngineAdapters, TgiReadsItsBatchAndItsQueue) {
  const EngineReport report = Read(
      "tgi", "/metrics", "tgi_batch_current_size 7\ntgi_queue_size 2\ntgi_batch_current_max_tokens 9000\n");
  EXPECT_TRUE(report.complete());
  EXPECT_THAT(report.running, Optional(7));
}

TEST(EngineAdapters, LlamaCppTakesItsQueueFromMetricsAndItsSizeFromSlots) {
  EngineReport report =
      Read("llamacpp", "/metrics", "llamacpp:requests_processing 1\nllamacpp:requests_deferred 4\n");
  EXPECT_FALSE(report.complete());
  report.FillFrom(
      Read("llamacpp", "/slots",
           R"([{"id":0,"n_ctx":4096,"is_processing":true},{"id":1,"n_ctx":4096,"is_processing":true}])"));
  EXPECT_TRUE(report.complete());
  EXPECT_THAT(report.running, Optional(1)) << "what is known already stays";
  EXPECT_THAT(report.waiting, Optional(4));
  EXPECT_THAT(report.max_running, Optional(2));
  EXPECT_THAT(report.kv_tokens, Optional(8'192));
}

TEST(EngineAdapters, ProvidersHaveNone) {
  EXPECT_EQ(FindEngineAdapter("openai"), nullptr);
  EXPECT_NE(FindEngineAdapter("sglang"), nullptr);
}

}  // namespace
}  // namespace plugins::engines
