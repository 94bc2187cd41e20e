#include "router/sim/report.h"

namespace router::sim {

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

void ReportBuilder::FirstToken(conf::Duration since_arrival) {
  ttft_.push_back(conf::ToSeconds(since_arrival));
  if (since_arrival <= slo_) ++in_time_;
}

void ReportBuilder::LastToken(conf::Duration since_arrival, conf::Duration since_first, uint32_t tokens) {
  if (tokens > 1) token_time_.push_back(conf::ToSeconds(since_first) / (tokens - 1));
  total_.push_back(conf::ToSeconds(since_arrival));
  ++counts.finished;
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
  return report;
}

}  // namespace router::sim
