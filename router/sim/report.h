// The figures of a simulated pool, and how they are counted.
#pragma once

#include <cstdint>
#include <vector>

#include "conf/time.h"
#include "router/sim/quantiles.h"

namespace router::sim {

// Why requests got no whole answer, each counted once.
struct LostRequests {
  uint64_t broken = 0;      // the replica died or hung after the first token
  uint64_t queue_full = 0;  // the queue had no place left
  uint64_t too_late = 0;    // it could not have gone before its longest wait, at the pace of the queue
  uint64_t expired = 0;     // waited for as long as a request may
  uint64_t no_replica = 0;  // no replica could take it, or every allowed try failed
  uint64_t engine_refused =
      0;  // prompt and answer do not fit its context or memory, or it has too many waiting

  uint64_t refused() const { return queue_full + too_late + expired + no_replica + engine_refused; }
};

// The first tokens of a step of time. A step without any has no quantiles.
struct FirstTokenStep {
  double second = 0;    // the end of the step, since the start
  uint32_t count = 0;   // in the step
  double ttft_p50 = 0;  // seconds
  double ttft_p99 = 0;
};

struct Report {
  uint64_t requests = 0;
  uint64_t finished = 0;
  uint64_t broken = 0;   // after the first token; lost.broken
  uint64_t refused = 0;  // lost.refused()
  LostRequests lost{};
  uint64_t held = 0;  // waited at the gateway
  uint64_t retried = 0;
  double hit_ratio = 0;        // prompt tokens found in the engines' caches
  double predicted_ratio = 0;  // prompt tokens that the index predicted for the chosen replica
  double offered_ratio = 0;    // prompt tokens that it predicted for the best holder, chosen or not
  Quantiles wait;              // seconds at the gateway, of held requests
  Quantiles ttft;              // seconds
  Quantiles token_time;        // seconds between tokens, mean of each request
  Quantiles total;             // seconds from arrival to the last token
  double within_slo = 0;       // share of all requests
  double spread = 0;           // computed prompt tokens of the busiest replica over the mean
  double seconds = 0;          // until the last request ended
  uint64_t preemptions = 0;
  uint64_t adapter_loads = 0;
  uint64_t remote_prefill = 0;  // prompts computed by another replica than the one that answered
  struct Spare {
    uint64_t finished = 0;  // in time, as are the tokens
    uint64_t prompt_tokens = 0;
    uint64_t output_tokens = 0;
  };
  Spare spare{};
  // With Options::sample_every only.
  std::vector<FirstTokenStep> first_tokens{};  // one for each step
  std::vector<double> ttft_cdf{};              // seconds, at equal steps of probability, from 0 to 1
};

// Collects samples while the requests run.
class ReportBuilder {
 public:
  // A `step` of zero records no first tokens by time.
  ReportBuilder(conf::Duration slo, conf::Duration step) : slo_(slo), step_(step) {}

  // Plain counters: `lost`, and from `held` to `retried` and remote_prefill; the caller increments them.
  Report counts;

  void Waited(conf::Duration at_gateway);
  // Prompt tokens that the index predicted: for the chosen replica, and the most of any.
  void Chosen(int64_t promised, int64_t offered);
  void Prompt(uint32_t tokens, uint32_t cached);
  void FirstToken(conf::Duration since_arrival, conf::Duration since_begin);
  void LastToken(conf::Duration since_arrival, conf::Duration since_first, uint32_t tokens);

  // `counts` completed by the figures of all samples.
  Report Build(uint64_t requests, conf::Duration lasted);

 private:
  std::vector<FirstTokenStep> BySteps(conf::Duration lasted);

  const conf::Duration slo_;
  const conf::Duration step_;
  uint64_t prompt_tokens_ = 0;
  uint64_t cached_tokens_ = 0;
  uint64_t predicted_tokens_ = 0;
  uint64_t offered_tokens_ = 0;
  uint64_t in_time_ = 0;
  std::vector<double> wait_, ttft_, token_time_, total_;
  std::vector<std::vector<double>> by_step_;
};

}  // namespace router::sim
