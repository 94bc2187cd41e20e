#include "tools/engine/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "conf/json_text.h"

namespace tidegate_engine {
namespace {

// vLLM's own bounds.
constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                        1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
constexpr double kInterTokenBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                        0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
constexpr double kRequestTimeBounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                         30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kTokenBounds[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                   500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

void Declare(std::string_view name, std::string_view type, std::string_view help, std::string& out) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

// The adapters in the form of vLLM's label: "a,b".
std::string Named(const std::vector<uint32_t>& adapters, std::span<const std::string> loras) {
  std::string list;
  for (const uint32_t adapter : adapters) list += (list.empty() ? "" : ",") + loras[adapter - 1];
  return conf::Quoted(list);
}

double UnixSeconds(conf::TimePoint t) {
  return static_cast<double>(conf::ToUnixMicros(t)) * 1e-6;
}

}  // namespace

void Histogram::Observe(double value) {
  auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += value;
}

void Histogram::Write(std::string_view name, std::string_view labels, std::string& out) const {
  uint64_t total = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, total);
  }
  fmt::format_to(std::back_inserter(out), "{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, sum_, name,
                 labels, total);
}

Metrics::Metrics(std::string model_name, conf::TimePoint start)
    : labels_(fmt::format("model_name={},engine=\"0\"", conf::Quoted(model_name))),
      time_to_first_token_(kFirstTokenBounds),
      inter_token_latency_(kInterTokenBounds),
      request_time_(kRequestTimeBounds),
      prompt_tokens_(kTokenBounds),
      generation_tokens_(kTokenBounds),
      started_(UnixSeconds(start)) {}

void Metrics::FirstToken(conf::Duration since_submit) {
  time_to_first_token_.Observe(conf::ToSeconds(since_submit));
}

void Metrics::NextToken(conf::Duration since_last) {
  inter_token_latency_.Observe(conf::ToSeconds(since_last));
}

void Metrics::Finished(conf::Duration since_submit, uint64_t prompt_tokens, uint64_t generation_tokens,
                       bool length) {
  ++(length ? at_length_ : stopped_);
  request_time_.Observe(conf::ToSeconds(since_submit));
  prompt_tokens_.Observe(static_cast<double>(prompt_tokens));
  generation_tokens_.Observe(static_cast<double>(generation_tokens));
}

std::string Metrics::Render(const scheduler::engine::Model& model, conf::TimePoint now,
                            std::span<const std::string> loras, const HandoverCounts& handovers) const {
  const scheduler::engine::Counters& counters = model.counters();
  const scheduler::engine::Profile& profile = model.profile();
  std::string out;
  auto gauge = [&](std::string_view name, double value, std::string_view help) {
    Declare(name, "gauge", help, out);
    fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", name, labels_, value);
  };
  auto counter = [&](std::string_view name, uint64_t value, std::string_view help) {
    Declare(name, "counter", help, out);
    fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", name, labels_, value);
  };
  auto histogram = [&](std::string_view name, const Histogram& values, std::string_view help) {
    Declare(name, "histogram", help, out);
    values.Write(name, labels_, out);
  };
  gauge("vllm:num_requests_running", model.running(), "Number of requests in model execution batches.");
  gauge("vllm:num_requests_waiting", model.waiting(), "Number of requests waiting to be processed.");
  gauge("vllm:kv_cache_usage_perc", model.kv_use(), "KV-cache usage. 1 means 100 percent usage.");
  counter("vllm:prefix_cache_queries_total", counters.prefix_queries,
          "Prefix cache queries, in queried tokens.");
  counter("vllm:prefix_cache_hits_total", counters.prefix_hits, "Prefix cache hits, in cached tokens.");
  counter("vllm:num_preemptions_total", counters.preemptions, "Cumulative number of preemptions.");
  counter("vllm:prompt_tokens_total", counters.prompt_tokens, "Number of prefill tokens processed.");
  counter("vllm:generation_tokens_total", counters.generated_tokens,
          "Number of generation tokens processed.");

  counter("engine:prompts_offered_total", handovers.offered, "Prompts computed for other engines.");
  counter("engine:prompts_taken_total", handovers.taken, "Prompts that other engines have taken.");
  counter("engine:prompts_received_total", handovers.received, "Prompts taken from other engines.");
  counter("engine:prompts_recomputed_total", handovers.recomputed,
          "Prompts that another engine should have computed, but that could not be fetched.");

  Declare("vllm:request_success_total", "counter", "Count of successfully processed requests.", out);
  for (auto [reason, count] : {std::pair{"stop", stopped_}, {"length", at_length_}, {"abort", aborted_}}) {
    fmt::format_to(std::back_inserter(out), "vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n",
                   labels_, reason, count);
  }
  histogram("vllm:time_to_first_token_seconds", time_to_first_token_, "Time to first token in seconds.");
  histogram("vllm:inter_token_latency_seconds", inter_token_latency_, "Inter-token latency in seconds.");
  histogram("vllm:e2e_request_latency_seconds", request_time_, "End-to-end request latency in seconds.");
  histogram("vllm:request_prompt_tokens", prompt_tokens_, "Number of prefill tokens of a request.");
  histogram("vllm:request_generation_tokens", generation_tokens_,
            "Number of generation tokens of a request.");

  Declare("vllm:cache_config_info", "gauge", "Information of the cache configuration.", out);
  fmt::format_to(std::back_inserter(out),
                 "vllm:cache_config_info{{block_size=\"{}\",num_gpu_blocks=\"{}\",enable_prefix_caching=\"{}"
                 "\",engine=\"0\"}} 1\n",
                 profile.block_size, profile.kv_blocks, profile.prefix_caching ? "True" : "False");
  Declare("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.",
          out);
  fmt::format_to(std::back_inserter(out), "process_start_time_seconds {:.2f}\n", started_);
  if (loras.empty()) return out;
  Declare("vllm:lora_requests_info", "gauge", "Running stats on lora requests.", out);
  fmt::format_to(
      std::back_inserter(out),
      "vllm:lora_requests_info{{max_lora=\"{}\",running_lora_adapters={},waiting_lora_adapters={}}} "
      "{}\n",
      profile.max_loras, Named(model.adapters().InUse(), loras), Named(model.WaitingAdapters(), loras),
      fmt::format("{:.6f}", UnixSeconds(now)));
  return out;
}

}  // namespace tidegate_engine
