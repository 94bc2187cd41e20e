// The numbers behind /metrics, under vLLM v1's names, in the Prometheus text format.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "scheduler/engine/model.h"
#include "tools/engine/handover.h"

namespace tidegate_engine {

class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void Observe(double value);
  void Write(std::string_view name, std::string_view labels, std::string& out) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;  // each bucket's own, not cumulative
  double sum_ = 0;
};

class Metrics {
 public:
  Metrics(std::string model_name, conf::TimePoint start);

  void FirstToken(conf::Duration since_submit);
  void NextToken(conf::Duration since_last);
  void Finished(conf::Duration since_submit, uint64_t prompt_tokens, uint64_t generation_tokens, bool length);
  void Aborted() { ++aborted_; }

  // The state of `model` and what was observed. `loras`: the adapters' names.
  std::string Render(const scheduler::engine::Model& model, conf::TimePoint now,
                     std::span<const std::string> loras = {}, const HandoverCounts& handovers = {}) const;

 private:
  std::string labels_;  // model_name="…",engine="0"
  Histogram time_to_first_token_;
  Histogram inter_token_latency_;
  Histogram request_time_;
  Histogram prompt_tokens_;
  Histogram generation_tokens_;
  double started_;  // Unix seconds
  uint64_t stopped_ = 0;
  uint64_t at_length_ = 0;
  uint64_t aborted_ = 0;
};

}  // namespace tidegate_engine
