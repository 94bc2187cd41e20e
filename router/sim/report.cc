#include "router/sim/report.h"

#include <algorithm>
#include <cstddef>

namespace router::sim {
namespace {

constexpr size_t kCdfSteps = 200;

}  // namespace

void ReportBuilder::Waited(conf::Duration at_gateway) {
  wait_.push_back(conf::ToSeconds(at_gateway));
}

void ReportBuilder::Chosen(int64_t promised, int64_t offered) {
  predicted_tokens_ += static_cast<uint64_t>(promised);
  offered_tokens_ += static_cast<uint64_t>(offered);
}

void ReportBuilder::Prompt(uint32_t tokens, uint32_t cached) {
  prompt_tokens_ += tokens;
  cached_tokens_ += cached;
}

void ReportBuilder::FirstToken(conf::Duration since_arrival, conf::Duration since_begin) {
  ttft_.push_back(conf::ToSeconds(since_arrival));
  if (step_ > conf::Duration::zero()) {
    const auto step = static_cast<size_t>(since_begin / step_);
    if (step >= by_step_.size()) by_step_.resize(step + 1);
    by_step_[step].push_back(conf::ToSeconds(since_arrival));
  }
  if (since_arrival <= slo_) ++in_time_;
}

void ReportBuilder::LastToken(conf::Duration since_arrival, conf::Duration since_first, uint32_t tokens) {
  if (tokens > 1) token_time_.push_back(conf::ToSeconds(since_first) / (tokens - 1));
  total_.push_back(conf::ToSeconds(since_arrival));
  ++counts.finished;
}

std::vector<FirstTokenStep> ReportBuilder::BySteps(conf::Duration lasted) {
  std::vector<FirstTokenStep> steps;
  const auto all = static_cast<size_t>(lasted / step_) + 1;
  by_step_.resize(std::max(all, by_step_.size()));
  for (size_t i = 0; i < by_step_.size(); ++i) {
    const Quantiles ttft = QuantilesOf(by_step_[i]);
    steps.push_back({.second = conf::ToSeconds(step_) * static_cast<double>(i + 1),
                     .count = static_cast<uint32_t>(by_step_[i].size()),
                     .ttft_p50 = ttft.p50,
                     .ttft_p99 = ttft.p99});
  }
  return steps;
}

Report ReportBuilder::Build(uint64_t requests, conf::Duration lasted) {
  const auto share = [](uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  Report report = counts;
  report.requests = requests;
  report.hit_ratio = share(cached_tokens_, prompt_tokens_);
  report.predicted_ratio = share(predicted_tokens_, prompt_tokens_);
  report.offered_ratio = share(offered_tokens_, prompt_tokens_);
  report.within_slo = share(in_time_, requests);
  report.wait = QuantilesOf(wait_);
  report.ttft = QuantilesOf(ttft_);
  report.token_time = QuantilesOf(token_time_);
  report.total = QuantilesOf(total_);
  report.seconds = conf::ToSeconds(lasted);
  report.broken = report.lost.broken;
  report.refused = report.lost.refused();
  if (step_ > conf::Duration::zero()) {
    report.first_tokens = BySteps(lasted);
    for (size_t k = 0; k <= kCdfSteps && !ttft_.empty(); ++k)
      report.ttft_cdf.push_back(ttft_[k * (ttft_.size() - 1) / kCdfSteps]);  // sorted by now
  }
  return report;
}

}  // namespace router::sim
