#include "plugins/engines/engine.h"

#include <absl/functional/function_ref.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_parse.h"
#include "plugins/engines/prometheus_text.h"

namespace plugins::engines {
namespace {

using Json = nlohmann::json;
using Field = std::optional<double> EngineReport::*;

// How the samples of several ranks become one figure.
enum class Over : uint8_t { kSum, kMean };

struct Metric {
  std::string_view name;
  Field field;
  Over over = Over::kSum;
  bool is_share = false;  // 0 to 1
};

bool Usable(double value, bool is_share) {
  return std::isfinite(value) && value >= 0 && (!is_share || value <= 1);
}

// "a,b" as engines list adapters.
std::vector<std::string> Listed(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view one = text.substr(0, comma);
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (!one.empty()) out.emplace_back(one);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return out;
}

std::optional<double> NumberOf(std::optional<std::string_view> text) {
  if (!text || text->empty() || text->size() > 18) return std::nullopt;
  double value = 0;
  for (const char c : *text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

void Add(std::optional<double>& to, double value) {
  to = std::min(to.value_or(0) + value, std::numeric_limits<double>::max());  // never infinite
}

// Ranks that report the same requests again: all except the first of a tensor- or pipeline-parallel group.
bool IsEcho(const Sample& sample) {
  for (const std::string_view label : {"tp_rank", "pp_rank"}) {
    const std::optional<std::string_view> rank = sample.Label(label);
    if (rank && *rank != "0") return true;
  }
  return false;
}

EngineReport ReadMetrics(std::string_view body, std::span<const Metric> metrics,
                         absl::FunctionRef<void(const Sample&, EngineReport&)> other) {
  EngineReport report;
  std::vector<std::pair<Field, uint32_t>>
      samples;  // of fields that are means; two names can report one field
  ForEachSample(body, [&](const Sample& sample) {
    const auto metric = std::ranges::find(metrics, sample.name, &Metric::name);
    if (metric == metrics.end()) return other(sample, report);
    if (!Usable(sample.value, metric->is_share) || IsEcho(sample)) return;
    Add(report.*metric->field, sample.value);
    if (metric->over == Over::kSum) return;
    const auto counted = std::ranges::find(samples, metric->field, &std::pair<Field, uint32_t>::first);
    if (counted == samples.end()) {
      samples.emplace_back(metric->field, 1);
    } else {
      ++counted->second;
    }
  });
  for (const auto& [field, count] : samples) report.*field = *(report.*field) / count;
  return report;
}

void NothingElse(const Sample& /*sample*/, EngineReport& /*report*/) {}

// vLLM: one series per engine core; capacity and adapters are in labels.
EngineReport ReadVllm(std::string_view body) {
  static constexpr std::array<Metric, 6> kMetrics = {{
      {"vllm:num_requests_running", &EngineReport::running},
      {"vllm:num_requests_waiting", &EngineReport::waiting},
      {"vllm:kv_cache_usage_perc", &EngineReport::kv_use, Over::kMean, true},
      {"vllm:gpu_cache_usage_perc", &EngineReport::kv_use, Over::kMean, true},  // until v1
      {"vllm:prefix_cache_queries_total", &EngineReport::prefix_queries},
      {"vllm:prefix_cache_hits_total", &EngineReport::prefix_hits},
  }};
  double newest = -1;
  const auto labelled = [&newest](const Sample& sample, EngineReport& report) {
    if (sample.name == "process_start_time_seconds" && Usable(sample.value, false)) {
      report.started_at = sample.value;
    } else if (sample.name == "vllm:cache_config_info") {
      const std::optional<double> size = NumberOf(sample.Label("block_size"));
      const std::optional<double> blocks = NumberOf(sample.Label("num_gpu_blocks"));
      if (size && blocks) Add(report.kv_tokens, *size * *blocks);
    } else if (sample.name == "vllm:lora_requests_info" && sample.value >= newest) {
      // The value is the time at which it was so; every combination that has been leaves a series behind.
      newest = sample.value;
      report.lora_running = Listed(sample.Label("running_lora_adapters").value_or(""));
      report.lora_waiting = Listed(sample.Label("waiting_lora_adapters").value_or(""));
      if (const std::optional<double> most = NumberOf(sample.Label("max_lora")); most && *most < 1e6)
        report.max_lora = static_cast<uint32_t>(*most);
    }
  };
  return ReadMetrics(body, kMetrics, labelled);
}

// Each rank has slots of its own, and a request comes to one of them.
void SetSlots(double slots, EngineReport& report) {
  if (Usable(slots, false) && slots >= 1 && slots < 1e6) report.max_lora = static_cast<uint32_t>(slots);
}

EngineReport ReadSglang(std::string_view body) {
  static constexpr std::array<Metric, 5> kMetrics = {{
      {"sglang:num_running_reqs", &EngineReport::running},
      {"sglang:num_queue_reqs", &EngineReport::waiting},
      {"sglang:token_usage", &EngineReport::kv_use, Over::kMean, true},
      {"sglang:max_total_num_tokens", &EngineReport::kv_tokens},
      {"sglang:cached_tokens_total", &EngineReport::prefix_hits},
  }};
  return ReadMetrics(body, kMetrics, [](const Sample& sample, EngineReport& report) {
    if (sample.name == "sglang:lora_pool_slots_total") SetSlots(sample.value, report);
  });
}

std::optional<double> Member(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_number()) return std::nullopt;
  const double value = at->get<double>();
  return Usable(value, false) ? std::optional(value) : std::nullopt;
}

// One object per data-parallel rank, in "loads" or as the whole answer.
EngineReport ReadSglangLoads(std::string_view body) {
  EngineReport report;
  const Json json = conf::ParseJson(body);
  const Json* loads = &json;
  if (json.is_object()) {
    const auto at = json.find("loads");
    if (at == json.end()) return report;
    loads = &*at;
  }
  if (!loads->is_array()) return report;
  double used = 0;
  for (const Json& load : *loads) {
    if (!load.is_object()) continue;
    if (const auto running = Member(load, "num_running_reqs")) Add(report.running, *running);
    if (const auto waiting = Member(load, "num_waiting_reqs")) Add(report.waiting, *waiting);
    if (const auto most = Member(load, "max_running_requests")) Add(report.max_running, *most);
    if (const auto lora = load.find("lora"); lora != load.end() && lora->is_object())
      SetSlots(Member(*lora, "slots_total").value_or(0), report);
    const auto capacity = Member(load, "max_total_num_tokens");
    if (capacity) Add(report.kv_tokens, *capacity);
    if (const auto use = Member(load, "token_usage"); use && *use <= 1)
      used += *use * capacity.value_or(1);
    else if (const auto tokens = Member(load, "num_used_tokens"))
      used += *tokens;
  }
  const double whole = report.kv_tokens.value_or(static_cast<double>(loads->size()));
  if (whole > 0 && used <= whole && report.running) report.kv_use = used / whole;
  return report;
}

EngineReport ReadTensorRtLlm(std::string_view body) {
  static constexpr std::array<Metric, 4> kMetrics = {{
      {"trtllm_num_requests_running", &EngineReport::running},
      {"trtllm_num_requests_waiting", &EngineReport::waiting},
      {"trtllm_kv_cache_utilization", &EngineReport::kv_use, Over::kMean, true},
      {"trtllm_max_num_active_requests", &EngineReport::max_running},
  }};
  std::optional<double> blocks;
  std::optional<double> size;
  const auto capacity = [&](const Sample& sample, EngineReport& /*report*/) {
    if (!Usable(sample.value, false)) return;
    if (sample.name.ends_with("kv_cache_max_blocks")) blocks = sample.value;
    if (sample.name.ends_with("kv_cache_tokens_per_block") || sample.name == "trtllm_tokens_per_block")
      size = sample.value;
  };
  EngineReport report = ReadMetrics(body, kMetrics, capacity);
  if (blocks && size && Usable(*blocks * *size, false)) report.kv_tokens = *blocks * *size;
  return report;
}

EngineReport ReadTgi(std::string_view body) {
  static constexpr std::array<Metric, 3> kMetrics = {{
      {"tgi_batch_current_size", &EngineReport::running},
      {"tgi_queue_size", &EngineReport::waiting},
      {"tgi_batch_current_max_tokens", &EngineReport::kv_tokens},
  }};
  return ReadMetrics(body, kMetrics, NothingElse);
}

EngineReport ReadLlamaCpp(std::string_view body) {
  static constexpr std::array<Metric, 3> kMetrics = {{
      {"llamacpp:requests_processing", &EngineReport::running},
      {"llamacpp:requests_deferred", &EngineReport::waiting},
      {"llamacpp:kv_cache_usage_ratio", &EngineReport::kv_use, Over::kMean, true},  // of older servers
  }};
  return ReadMetrics(body, kMetrics, NothingElse);
}

EngineReport ReadLlamaCppSlots(std::string_view body) {
  EngineReport report;
  const Json slots = conf::ParseJson(body);
  if (!slots.is_array()) return report;
  double running = 0;
  double tokens = 0;
  for (const Json& slot : slots) {
    if (!slot.is_object()) return {};
    const auto busy = slot.find("is_processing");
    if (busy == slot.end() || !busy->is_boolean()) return {};
    running += busy->get<bool>() ? 1 : 0;
    tokens += Member(slot, "n_ctx").value_or(0);
  }
  if (slots.empty()) return report;
  report.running = running;
  report.max_running = static_cast<double>(slots.size());
  if (tokens > 0) report.kv_tokens = tokens;
  return report;
}

constexpr std::array<EngineSource, 1> kVllm = {{{"/metrics", ReadVllm}}};
constexpr std::array<EngineSource, 2> kSglang = {{{"/v1/loads", ReadSglangLoads}, {"/metrics", ReadSglang}}};
constexpr std::array<EngineSource, 2> kTensorRtLlm = {
    {{"/prometheus/metrics", ReadTensorRtLlm}, {"/metrics", ReadTensorRtLlm}}};
constexpr std::array<EngineSource, 1> kTgi = {{{"/metrics", ReadTgi}}};
constexpr std::array<EngineSource, 2> kLlamaCpp = {
    {{"/metrics", ReadLlamaCpp}, {"/slots", ReadLlamaCppSlots}}};

constexpr std::array<EngineAdapter, 5> kAdapters = {{
    {"vllm", kVllm},
    {"sglang", kSglang},
    {"trtllm", kTensorRtLlm},
    {"tgi", kTgi},
    {"llamacpp", kLlamaCpp},
}};

}  // namespace

void EngineReport::FillFrom(EngineReport other) {
  for (const Field field :
       {&EngineReport::running, &EngineReport::waiting, &EngineReport::kv_use, &EngineReport::kv_tokens,
        &EngineReport::max_running, &EngineReport::prefix_queries, &EngineReport::prefix_hits,
        &EngineReport::started_at}) {
    if (!(this->*field)) this->*field = other.*field;
  }
  if (max_lora) return;
  max_lora = other.max_lora;
  lora_running = std::move(other.lora_running);
  lora_waiting = std::move(other.lora_waiting);
}

std::span<const EngineAdapter> EngineAdapters() {
  return kAdapters;
}

const EngineAdapter* FindEngineAdapter(std::string_view name) {
  const auto* at = std::ranges::find(kAdapters, name, &EngineAdapter::name);
  return at == kAdapters.end() ? nullptr : at;
}

}  // namespace plugins::engines
